"""Sample tree: preallocated `[T, B, ...]` arrays for all data of a fragment, and their size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from plangym_ext.arrays import Array, ArrayDict, JaggedArray
from plangym_ext.arrays.items import item_objects
from plangym_ext.core.masks import mask_width
from plangym_ext.core.numbers import at_least
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.agent import Agent, check_agent
from plangym_ext.learn.agents.inputs import zeros_of
from plangym_ext.learn.sampling.noise import RowNoise
from plangym_ext.learn.sampling.options import RowSpaces

#: What is kept of an env's infos: shape and dtype by name.
EnvInfo = Mapping[str, Any]


def build_sample_tree(
    env: Any,
    agent: Agent,
    num_steps: int,
    num_rows: int,
    *,
    storage: Literal["local", "shared"] = "local",
    env_info: EnvInfo | None = None,
    action_mask: bool = False,
) -> ArrayDict:
    """Allocate zeroed arrays for T steps of B rows, in the shapes of env and agent.

    The agent takes one step, to see what it returns; the env takes none. Every observation is
    kept once. "final_obs" is as large as "obs", but memory that nothing was written to takes
    no room: only rows that end an episode are written.

    Args:
        env: a vector env or an env: its spaces count.
        agent: whose actions, infos and carry are kept.
        num_steps: T.
        num_rows: B.
        storage: "local", or "shared" with other processes.
        env_info: numeric infos that are kept, dtypes by name; or (dtype, shape).
        action_mask: whether there is room for which actions may be played.

    Returns:
        Arrays by name. Row t of "obs" is what action t answers to, and row t of "reward" what
        came of it:

        * obs: `[T, B, *obs]`, nested as the space; row T, in the padding, is what the next
          action will answer to: returns bootstrap from its value. Of a Sequence it is a
          `JaggedArray`, of a Graph one for each part: "nodes", "edges", "edge_links".
        * action: `[T, B, *act]`.
        * reward: `[T, B]` float32.
        * terminated, truncated: `[T, B]` bool, whether the episode ended with this step.
        * final_obs: `[T, B, *obs]`, the last observation of an episode that ended with this
          step; to be read only there.
        * first: `[T, B]` bool, whether obs[t] is the first of its episode; row T as of "obs".
        * prev_action, prev_reward: action and reward before obs[t], zeros where `first`; row T
          as of "obs".
        * valid: `[T, B]` bool, whether the env was stepped at all.
        * action_mask: `[T, B, A]` bool, which actions could be played at obs[t]; row T as of
          "obs"; left out if not asked for.
        * agent_info: `[T, B, ...]` by name, what the agent said; left out if nothing.
        * env_info: `[T, B, ...]` by name, what was asked for; left out if nothing.
        * carry, next_carry: `[B, ...]`, the agent's before its first step here and after its
          last, for the value of obs[T]; left out if none.
        * version: `[B]` int64, of the weights that played.

    Raises:
        InvalidAnswer: what the agent returns does not fit.
        ValueError: T or B is below 1.
        TypeError: a space has no fixed-size array form.
    """
    where = "build_sample_tree"
    at_least(f"{where}: num_steps", num_steps, 1)
    at_least(f"{where}: num_rows", num_rows, 1)
    row = RowSpaces(env)
    # All rows: an agent may have something for each, such as its share of random actions.
    acted = check_agent(agent, row, num_rows, RowNoise(0, range(num_rows)))
    # One row is enough: shapes and dtypes are looked at.
    obs, action = zeros_of(row.obs.space, 1), zeros_of(row.action.space, 1)
    shape = (num_steps, num_rows)

    def plain(dtype: Any, feature: tuple[int, ...] = (), **kind: Any) -> Any:
        return Array(shape, dtype, feature_shape=feature, storage=storage, **kind)

    def padded(dtype: Any, feature: tuple[int, ...] = (), **kind: Any) -> Any:
        return plain(dtype, feature, padding=1, **kind)

    def rows(dtype: Any, feature: tuple[int, ...] = ()) -> Array:
        return Array((num_rows,), dtype, feature_shape=feature, storage=storage)

    tree: dict[str, Any] = {
        # Padded is what row t + 1 shows after step t: the last step writes to row T.
        "obs": _arrays(obs, padded),
        "action": _arrays(action, plain),
        "reward": plain(np.float32),
        "terminated": plain(bool),
        "truncated": plain(bool),
        "final_obs": _arrays(obs, plain),
        "first": padded(bool),
        "prev_action": _arrays(action, padded),
        "prev_reward": padded(np.float32),
        "valid": plain(bool),
        "version": rows(np.int64),
    }
    # Samplers without rows that wait never write here.
    tree["valid"][...] = True
    if action_mask:
        tree["action_mask"] = mask_array(env, num_steps, num_rows, storage)
    if acted.info:
        tree["agent_info"] = _arrays(acted.info, plain)
    if env_info:
        tree["env_info"] = {name: plain(*_kind(kind)) for name, kind in env_info.items()}
    if acted.carry is not None:
        tree["carry"] = _arrays(acted.carry, rows)
        tree["next_carry"] = _arrays(acted.carry, rows)
    return ArrayDict(tree)


def mask_array(
    env: Any, num_steps: int, num_rows: int, storage: Literal["local", "shared"]
) -> Array:
    """Return memory `[T, B, A]` bool, plus one row, with every action legal."""
    space = RowSpaces(env).single_action_space
    width = mask_width(space)
    if width is None:
        raise InvalidOption(
            f"build_sample_tree: action_mask is for actions of a Discrete or MultiDiscrete space; "
            f"got {space}."
        )
    found = Array((num_steps, num_rows), bool, feature_shape=(width,), storage=storage, padding=1)
    # To the row in the padding, which `[...]` would leave out.
    found[0 : num_steps + 1] = True
    return found


def _arrays(example: Any, make: Callable[..., Any]) -> Any:
    """Return an array for every leaf of a nested batch `[B, ...]`."""
    if isinstance(example, Mapping):
        return {str(key): _arrays(part, make) for key, part in example.items()}
    if isinstance(example, tuple):
        return {str(key): _arrays(part, make) for key, part in enumerate(example)}
    if isinstance(example, JaggedArray):
        like = example._spec()
        kind = {name: like[name] for name in ("kind", "max_mean_num_elem", "on_overflow")}
        return make(example.dtype, example.feature_shape, **kind)
    return make(example.dtype, example.shape[1:])


def _kind(kind: Any) -> tuple[Any, tuple[int, ...]]:
    return kind if isinstance(kind, tuple) else (kind, ())


def steps_of(part: Any) -> Any:
    """Return views `[T, ...]` of an array, or of those of a tree by name, without their padding.

    Items of a jagged array are copied to an array of objects.
    """
    if isinstance(part, ArrayDict):
        return {name: steps_of(part[name]) for name in part}
    if isinstance(part, JaggedArray):
        return item_objects(part)
    return part.to_ndarray(copy=False)


def copy_tree(source: ArrayDict, target: ArrayDict) -> None:
    """Copy a sample tree into one of equal form, including row T where there is one."""
    one: Any
    other: Any
    for (_, one), (_, other) in zip(source.leaves(), target.leaves(), strict=True):
        # Fields without padding have no row T, and per-row ones (`carry`, `version`) no time.
        end = one.shape[0] + min(1, one.padding)
        other[0:end] = one[0:end]


def tree_memory(tree: ArrayDict) -> dict[str, int]:
    """Return the bytes of the arrays of a sample tree, padding included, by their names."""
    found = {}
    for name in tree:
        part: Any = tree[name]
        arrays: list[Any] = (
            [leaf for _, leaf in part.leaves()] if isinstance(part, ArrayDict) else [part]
        )
        found[name] = sum(map(array_bytes, arrays))
    return found


def array_bytes(array: Array) -> int:
    """Return the bytes of an array and of its padding."""
    if isinstance(array, JaggedArray):
        return array.nbytes
    found: Any = array.to_ndarray(copy=False)
    # Up to the array that owns the memory: the view that is used leaves out the padding.
    while isinstance(found.base, np.ndarray):
        found = found.base
    return int(found.nbytes)
