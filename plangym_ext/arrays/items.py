"""Observations with a variable number of items: Sequence and Graph spaces as jagged arrays."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
from gymnasium import spaces

from plangym_ext.arrays.jagged import JaggedArray
from plangym_ext.errors import InvalidObservation

#: Points per item on average for which there is room at first; arrays grow where it is not enough.
_MEAN = 64
_LINKS = spaces.Box(0, np.iinfo(np.int64).max, (2,), np.int64)


def has_items(space: spaces.Space[Any]) -> bool:
    """Return whether a space is, or contains, a Sequence or a Graph."""
    if isinstance(space, spaces.Dict):
        return any(map(has_items, space.values()))
    if isinstance(space, spaces.Tuple):
        return any(map(has_items, space))
    return isinstance(space, spaces.Sequence | spaces.Graph)


def itemized(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """Return the space with a Dict of sequences, named as a GraphInstance, for each Graph."""
    if not has_items(space):
        return space
    if isinstance(space, spaces.Dict):
        # Ordered: a Dict would sort the names of a plain dict.
        return spaces.Dict(OrderedDict((key, itemized(part)) for key, part in space.items()))
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([itemized(part) for part in space])
    if isinstance(space, spaces.Graph):
        return spaces.Dict({name: spaces.Sequence(s) for name, s in _graph_parts(space).items()})
    return space


def item_rows(space: spaces.Space[Any], obs: Any, *, single: bool = False) -> Any:
    """Return a batch of observations, nested as `itemized(space)`.

    Args:
        space: of one observation.
        obs: as a vector env returns them: of a Sequence or a Graph a tuple of B observations.
        single: whether `obs` is one observation, which becomes a batch of one.

    Returns:
        A list of arrays `[points, *feature]` for each sequence, arrays `[B, ...]` for the rest.
    """
    if isinstance(space, spaces.Dict):
        return {key: item_rows(part, obs[key], single=single) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        pairs = zip(space, obs, strict=True)
        return tuple(item_rows(part, value, single=single) for part, value in pairs)
    if isinstance(space, spaces.Sequence):
        return [_points(space.feature_space, one) for one in ([obs] if single else obs)]
    if isinstance(space, spaces.Graph):
        graphs = [obs] if single else obs
        found = {
            name: [_points(part, getattr(graph, name)) for graph in graphs]
            for name, part in _graph_parts(space).items()
        }
        if space.edge_space is not None:
            for links, edges, nodes in zip(*found.values(), strict=True):
                _check_links(links, len(edges), len(nodes))
        return found
    return np.asarray(obs)[None] if single else obs


def empty_items(space: spaces.Sequence, batch_shape: tuple[int, ...], **spec: Any) -> JaggedArray:
    """Return a jagged array for observations of a sequence, which grows where it has to."""
    feature: Any = space.feature_space
    spec = {"feature_shape": feature.shape, "max_mean_num_elem": _MEAN, **spec}
    return JaggedArray(batch_shape, feature.dtype, on_overflow="grow", **spec)


def item_objects(array: JaggedArray) -> np.ndarray:
    """Return a copy of the items as an array of objects `[*batch]`, each `[points, *feature]`."""
    found = np.empty(array.batch_shape, object)
    for index in np.ndindex(found.shape):
        found[index] = np.asarray(array[index])
    return found


def _graph_parts(space: spaces.Graph) -> dict[str, spaces.Space[Any]]:
    """Return the space of a point of each part, in the order of a Dict."""
    nodes: dict[str, spaces.Space[Any]] = {"nodes": space.node_space}
    if space.edge_space is None:
        return nodes
    return {"edge_links": _LINKS, "edges": space.edge_space, **nodes}


def _check_links(links: np.ndarray, edges: int, nodes: int) -> None:
    """Refuse links `[E, 2]` that lead out of a graph: in a batch to nodes of another one."""
    if len(links) != edges or ((links < 0) | (links >= nodes)).any():
        raise InvalidObservation(
            f"observation: a graph of {nodes} nodes and {edges} edges must have a pair of its "
            f"nodes for each edge; got {links.tolist()!r:.200}. Correct the env."
        )


def _points(feature: spaces.Space[Any], value: Any) -> np.ndarray:
    """Return `[points, *feature]`; None has no points."""
    value = () if value is None else value
    return np.asarray(value, feature.dtype).reshape(len(value), *(feature.shape or ()))
