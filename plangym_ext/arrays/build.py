"""Construction of an `ArrayDict` from a space or an example value, one array per leaf."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from plangym_ext.arrays.array import Array
from plangym_ext.errors import InvalidOption, WrongKind

Parts = Callable[[Any], dict[str, Any] | None]
MakeLeaf = Callable[..., Any]


def build(
    source: Any,
    parts: Parts,
    leaf: MakeLeaf,
    batch_shape: tuple[int, ...],
    fields: Mapping[str, Mapping[str, Any]],
    spec: Mapping[str, Any],
) -> dict[str, Any]:
    """Return one array per leaf of `source`.

    Args:
        source: nested value.
        parts: gives the named parts of a value, None for a leaf.
        leaf: makes an array: (dotted name, value, batch_shape, **spec).
        batch_shape: leading dimensions of every array.
        fields: arguments that differ, by dotted name.
        spec: arguments for every array.

    Raises:
        TypeError: `source` is a leaf.
        ValueError: `fields` names something that is not there.
    """
    left = dict(fields)

    names: list[str] = []

    def walk(value: Any, prefix: str) -> dict[str, Any]:
        inner = parts(value)
        assert inner is not None
        tree: dict[str, Any] = {}
        for name, part in inner.items():
            path = prefix + name
            if part is None:
                tree[name] = None
            elif parts(part) is None:
                names.append(path)
                # Taken out: what is left in the end names no array.
                own = left.pop(path, {})
                tree[name] = leaf(path, part, batch_shape, **{**spec, **own})
            else:
                tree[name] = walk(part, path + ".")
        return tree

    if parts(source) is None:
        raise WrongKind(
            f"ArrayDict: the source must have named parts; got {type(source).__name__}. "
            f"Give it a name: {{'obs': ...}}."
        )
    tree = walk(source, "")
    if left:
        raise InvalidOption(
            f"ArrayDict: fields must name arrays of the tree, {names}; got {sorted(left)}."
        )
    return tree


def space_parts(space: Any) -> dict[str, Any] | None:
    """Return the named parts of a Dict or Tuple space or a mapping of spaces."""
    from gymnasium import spaces

    if isinstance(space, spaces.Tuple):
        return {str(index): part for index, part in enumerate(space.spaces)}
    if isinstance(space, (spaces.Dict, Mapping)):
        return dict(space.items())
    return None


def space_leaf(path: str, space: Any, batch_shape: tuple[int, ...], **spec: Any) -> Any:
    """Return an array for a space whose elements have one shape and dtype."""
    from gymnasium import spaces

    fixed = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
    if not isinstance(space, fixed):
        raise WrongKind(
            f"ArrayDict: {path} must be a Box, Discrete, MultiDiscrete or MultiBinary space; got "
            f"{space}. Leave it out, or add a JaggedArray under its name for a Graph."
        )
    # What the caller says comes last and wins.
    return Array(batch_shape, **{"dtype": space.dtype, "feature_shape": space.shape, **spec})


def example_leaf(path: str, example: Any, batch_shape: tuple[int, ...], **spec: Any) -> Any:
    """Return an array for a number or an array of numbers."""
    value = np.asarray(example)
    if value.dtype.kind not in "biufc":
        raise WrongKind(
            f"ArrayDict: {path} must be a number or an array of numbers; got "
            f"{type(example).__name__} {str(example)[:40]!r}. Leave it out of the example."
        )
    return Array.from_numpy(value, batch_shape=batch_shape, **spec)
