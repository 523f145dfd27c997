"""Columns: numpy views of one actor's rows in the fragment arrays; flattening of nested values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from plangym_ext.arrays import ArrayDict, JaggedArray
from plangym_ext.core.masks import MASK, checked_mask, mask_width
from plangym_ext.errors import InvalidObservation
from plangym_ext.learn.sampling.options import RowSpaces

Ndarray = npt.NDArray[Any]


class Following(NamedTuple):
    """Arrays of previous action, previous reward and `first` flags for the next step.

    Attributes:
        results: `[k, b]` terminated, truncated and reward of k steps, and `first` and previous
            reward that are shown after them.
        actions: `[k, b, ...]`, for each leaf the played action, and the previous action in the next
            inputs.
    """

    results: tuple[Ndarray, ...]
    actions: list[tuple[Ndarray, Ndarray]]


class Columns:
    """Columns of a sample tree: the memory of b rows over T steps.

    Everything is a view of the tree's memory. Lists over time have one entry a step, nested
    as the space where it says so.

    Args:
        tree: of `build_sample_tree`.
        spaces: of one row.
        rows: which columns; a range without gaps.

    Attributes:
        num_steps, num_rows: T and b.
        obs, prev_action: lists of T + 1, nested.
        action, final_obs: lists of T, nested.
        played: lists of T: of each step the leaves of the action.
        following: lists of T: what is shown after each step, as a `Following`.
        all_following: the same of all steps at once.
        first, prev_reward: `[T + 1, b]`.
        reward, terminated, truncated, valid: `[T, b]`.
        earned: `[T, b]` float64, rewards as the envs give them, of which `reward` is made when
            the fragment has ended: returns are sums of these. Not of the tree.
        steps: the last, and how steps ended: what tables of episodes are made of.
        agent_info, env_info: lists of T, each a list of arrays `[b, ...]`.
        infos: arrays `[T, b, ...]` by name: those of `env_info`.
        carry, next_carry: lists of arrays `[b, ...]`.
        version: `[b]`.
        legal: `[T + 1, b, A]` bool; None where the tree has no masks of actions.
    """

    def __init__(self, tree: ArrayDict, spaces: RowSpaces, rows: range) -> None:
        self._tree, self._rows = tree, rows
        steps = self.num_steps = tree["reward"].shape[0]
        self.num_rows = len(rows)
        self.obs = [spaces.obs.join(tuple(row)) for row in self._over_time("obs", steps + 1)]
        self.final_obs = [spaces.obs.join(tuple(row)) for row in self._over_time("final_obs")]
        actions, previous = self._over_time("action"), self._over_time("prev_action", steps + 1)
        self.prev_action = [spaces.action.join(tuple(row)) for row in previous]
        self.action = [spaces.action.join(tuple(row)) for row in actions]
        self.played = actions
        (self.first,), (self.prev_reward,) = (
            self._arrays(name, steps + 1) for name in ("first", "prev_reward")
        )
        (self.reward,), (self.terminated,), (self.truncated,), (self.valid,) = (
            self._arrays(name, steps) for name in ("reward", "terminated", "truncated", "valid")
        )
        self.earned = np.zeros((steps, self.num_rows))
        self.steps = self.earned, self.terminated, self.truncated, self.valid
        self.all_following = self._following(slice(None))
        self.following = [self._following(slice(t, t + 1)) for t in range(steps)]
        self.agent_info, self.env_info = self._over_time("agent_info"), self._over_time("env_info")
        self.infos = dict(zip(tree.get("env_info", ()), self._arrays("env_info"), strict=True))
        self.carry, self.next_carry = self._rows_of("carry"), self._rows_of("next_carry")
        # Once a fragment: `[b]`, without an axis of time.
        (self.version,) = self._rows_of("version")
        self.legal: Ndarray | None = None
        #: Arrays over T + 1 rows that the next fragment goes on from.
        self.going_on = [self.first, self.prev_reward]
        self.find_legal()

    def find_legal(self) -> None:
        """Read the tree's array of action masks, if it has one."""
        # One array, or none.
        for array in self._arrays("action_mask", self.num_steps + 1):
            self.legal = array
            self.going_on = [self.first, self.prev_reward, array]

    def _following(self, steps: slice) -> Following:
        # Step t is followed by row t + 1 of what is shown.
        told = self.terminated, self.truncated, self.earned, self.first[1:], self.prev_reward[1:]
        actions = zip(self._arrays("action"), self._arrays("prev_action", None, 1), strict=True)
        return Following(
            tuple(array[steps] for array in told),
            [(action[steps], shown[steps]) for action, shown in actions],
        )

    def _leaves(self, name: str) -> list[Any]:
        found = self._tree.get(name)
        if isinstance(found, ArrayDict):
            return [leaf for _, leaf in found.leaves()]
        return [] if found is None else [found]

    def _rows_of(self, name: str) -> list[Ndarray]:
        start, stop = self._rows.start, self._rows.stop
        return [leaf.to_ndarray(copy=False)[start:stop] for leaf in self._leaves(name)]

    def _arrays(self, name: str, num_steps: int | None = None, first: int = 0) -> list[Any]:
        """Return `[num_steps, b, ...]` of every array below a name: beyond T in the padding."""
        start, stop = self._rows.start, self._rows.stop
        end = first + (num_steps or self.num_steps)
        # A slice of rows that goes on into the padding, where row T is.
        return [
            leaf[first:end, start:stop]
            if isinstance(leaf, JaggedArray)
            else leaf[first:end].to_ndarray(copy=False)[:, start:stop]
            for leaf in self._leaves(name)
        ]

    def _over_time(self, name: str, num_steps: int | None = None) -> list[list[Ndarray]]:
        arrays = self._arrays(name, num_steps or self.num_steps)
        return [[array[t] for array in arrays] for t in range(num_steps or self.num_steps)]


Path = tuple[Any, ...]


class Nest:
    """The form of a nested value: dicts and tuples, named or not, of arrays.

    Args:
        example: a value of the form; None has no leaves.

    Attributes:
        paths: the way to each leaf: keys of dicts and numbers of tuples.
    """

    def __init__(self, example: Any) -> None:
        self._example = example
        self.paths = _paths(example)
        self._is_flat = all(len(path) == 1 for path in self.paths)
        self._names = [path[0] for path in self.paths if path]

    def split(self, value: Any) -> list[Any]:
        """Return the leaves of a value.

        Raises:
            KeyError, IndexError, TypeError: it has another form.
        """
        # Most carries are one dict or tuple of arrays, and this is done in every step.
        if self._is_flat:
            return [value[name] for name in self._names]
        found = []
        for path in self.paths:
            leaf = value
            for key in path:
                leaf = leaf[key]
            found.append(leaf)
        return found

    def join(self, leaves: Sequence[Any]) -> Any:
        """Return the value that has these leaves."""
        left = iter(leaves)
        return _joined(self._example, left)


def _paths(value: Any, path: Path = ()) -> list[Path]:
    if value is None:
        return []
    if isinstance(value, Mapping):
        return [one for key, part in value.items() for one in _paths(part, (*path, key))]
    if isinstance(value, tuple):
        return [one for key, part in enumerate(value) for one in _paths(part, (*path, key))]
    return [path]


def _joined(value: Any, left: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {key: _joined(part, left) for key, part in value.items()}
    if isinstance(value, tuple):
        parts = [_joined(part, left) for part in value]
        # Named tuples take their parts one by one.
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return next(left)


# Extraction of info fields and action masks from a vector env's batched infos -


#: The info of an env that tells the end of an episode from that of a game.
GAME_OVER = "game_over"


def info_column(infos: Any, name: str) -> tuple[Any, Any]:
    """Return the values `[n]` of an info, and `[n]` bool, which rows have the info.

    Args:
        infos: as gymnasium's vector envs give them.
        name: "a.b" is b of the dict a.

    Returns:
        None for both if no env has given it. Numbers that gymnasium keeps as objects, such as
        `np.bool_`, come as numbers.
    """
    *path, key = name.split(".")
    for part in path:
        infos = infos.get(part, {})
    values = infos.get(key)
    if values is None:
        return None, None
    known = infos[f"_{key}"]
    return _numbers(values, known) if values.dtype.hasobject else values, known


def _numbers(values: Any, known: Any) -> Any:
    """Return objects `[n]` as numbers if all that are known are some."""
    told = values[known]
    if not len(told) or not all(isinstance(one, bool | int | float | np.generic) for one in told):
        return values
    listed = np.array(told.tolist())
    if listed.dtype.kind not in "biuf":
        return values
    found = np.zeros(len(values), listed.dtype)
    found[known] = listed
    return found


def missing_info(name: str, infos: Any, where: str) -> InvalidObservation:
    """Return the error for an info that an option names and an env has not given."""
    there = sorted(key for key in infos if not key.startswith("_"))
    return InvalidObservation(
        f"sampler: {where} names the info {name!r}, which the envs did not give; they gave "
        f"{there}. Correct the name, or leave it out."
    )


def check_numbers(name: str, values: Any, where: str) -> None:
    """Refuse values `[n]` of an info for a logged mean if they are not numbers.

    Raises:
        InvalidObservation: they are not.
    """
    if values.dtype.kind not in "biuf":
        raise InvalidObservation(
            f"sampler: {where} names the info {name!r}, which must be a number; got "
            f"{values[0]!r}. Leave it out, or return a number from the env."
        )


def legal_actions(infos: Any, space: spaces.Space[Any], num_rows: int) -> Ndarray | None:
    """Return the legal actions of rows, `[k, A]` bool, fresh; None without any mask.

    A is `mask_width`: of `MultiDiscrete` the actions of all parts, one after the other.

    Args:
        infos: of k rows, as gymnasium's vector envs give them: what a reset says, and a step; of
            a row that was reset in the same step what that reset said. A row without a mask may
            play everything.
        space: of the actions.
        num_rows: k.

    Raises:
        InvalidObservation: a mask is not one number for each action, or such actions have no
            masks; see `mask_width`.
    """
    values, known = info_column(infos, MASK)
    if values is None or not known.any():
        return None
    try:
        masks = [checked_mask(value, space, "sampler") for value in values[known]]
    except InvalidObservation as error:
        raise InvalidObservation(f"{error} To ignore masks: action_mask=False.") from None
    width = mask_width(space)
    assert width is not None
    legal = np.ones((num_rows, width), bool)
    for row, mask in zip(np.flatnonzero(known).tolist(), masks, strict=True):
        if mask is not None:
            legal[row] = mask
    return legal


def tells_masks(venv: Any) -> bool:
    """Return whether envs have action masks; resets them."""
    space = venv.single_action_space
    return legal_actions(venv.reset(seed=0)[1], space, venv.num_envs) is not None
