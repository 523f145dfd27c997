"""The memory that the rows of a vector env write to, for all processes that hold some."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array

from plangym_ext.arrays.spaces import ObsWriter, SpaceLayout
from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.errors import InvalidObservation
from plangym_ext.vector.memory.action_memory import ActionMemory
from plangym_ext.vector.memory.info_forms import INFO_BYTES, InfoForms
from plangym_ext.vector.memory.step_messages import StepMessages
from plangym_ext.vector.results import IN_MEMORY, Reply, StepResults

#: 64-bit words of a host's progress: the row that is moved now, and how many calls have
#: moved rows. A cache line, so that no two processes write to the same.
_PROGRESS_WORDS = 8


def layout_of(space: spaces.Space[Any]) -> SpaceLayout | None:
    """Return the layout of a space whose values are arrays of fixed sizes, else None."""
    try:
        return SpaceLayout(space)
    except TypeError:
        return None


def buffer_bytes(layout: SpaceLayout, num_rows: int) -> int:
    """Return the bytes of the memory for the observations of n rows."""
    return max(1, sum(_size(shape, dtype) for shape, dtype in _fields(layout, num_rows)))


def _fields(layout: SpaceLayout, num_rows: int) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
    return [((num_rows, *leaf.shape), leaf.dtype) for leaf in layout.leaves]


def _size(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    # To a cache line: rows of two leaves never share one.
    return -(-int(np.prod(shape)) * dtype.itemsize // 64) * 64


class ObsBuffer:
    """The observations of n rows.

    Args:
        space: of one row.
        num_rows: n.
        memory: uint8 array of at least `buffer_bytes`, such as memory that workers write to;
            None for memory of its own; or a `[n, ...]` array for each leaf of the space.
        strict: refuse observations that do not have the very shape and type of the space.

    Attributes:
        space, num_rows, strict: as given.
        layout: of the space, None if it has no array form.
        is_array: whether observations are kept in arrays; else they are kept as they came,
            and what is kept elsewhere is brought here by `put`.
    """

    def __init__(
        self,
        space: spaces.Space[Any],
        num_rows: int,
        memory: np.ndarray | tuple[np.ndarray, ...] | None = None,
        *,
        strict: bool = False,
    ) -> None:
        self.space, self.num_rows, self.strict = space, num_rows, strict
        self.layout = layout_of(space)
        self.is_array = self.layout is not None
        self._leaves: tuple[np.ndarray, ...] = ()
        self._values: list[Any] = [None] * num_rows
        if self.layout is not None:
            given = memory if isinstance(memory, tuple) else None
            self._leaves = given or _views(self.layout, num_rows, memory)
        # Made once for the space: to decide for every row how to copy takes longer than to copy.
        self.put = self._putter()

    def _putter(self) -> Callable[[int, Any], None]:
        """Return a function of a row and an observation that keeps it."""
        layout = self.layout
        if layout is None:
            return self._values.__setitem__
        if self.strict:
            return ObsWriter(layout).into(self._leaves)
        if not layout.is_flat:
            return self._put_leaves
        (leaf,), (array,) = layout.leaves, self._leaves
        shape, dtype = leaf.shape, leaf.dtype

        def put(row: int, obs: Any) -> None:
            # Exact type: a subclass may mean something else by its elements, so it is converted.
            if type(obs) is np.ndarray and obs.shape == shape and obs.dtype == dtype:
                array[row] = obs
            else:
                self._put_leaves(row, obs)

        return put

    def _put_leaves(self, row: int, obs: Any) -> None:
        assert self.layout is not None
        try:
            parts = self.layout.split(obs)
        except (KeyError, IndexError, TypeError) as error:
            raise InvalidObservation(
                f"row {row}: expected an observation nested as {self.space}; "
                f"got {type(obs).__name__} ({error!r})"
            ) from error
        for leaf, array, part in zip(self.layout.leaves, self._leaves, parts, strict=True):
            value = np.asarray(part)
            # As gymnasium's own vector envs: cast, but only to the same kind of number.
            if value.shape != leaf.shape or not np.can_cast(value.dtype, leaf.dtype, "same_kind"):
                raise InvalidObservation(
                    f"row {row}: observation{leaf.name} must be {leaf.shape} {leaf.dtype}; "
                    f"got {value.shape} {value.dtype}. Correct the env, or cast in a wrapper."
                )
            array[row] = value

    def holds(self, obs: Any) -> bool:
        """Return whether `put` and then `rows` give an observation back as it is."""
        if self.layout is None:
            return False
        if not self.layout.is_flat:
            return _is_plain(self.space, obs)
        leaf = self.layout.leaves[0]
        return _is_array(obs, leaf.shape, leaf.dtype)

    def put_batch(self, rows: Any, obs: Any) -> None:
        """Keep a batch of observations, nested as the space: what `rows` show, an index."""
        if self.layout is None:
            raise TypeError(f"put_batch: {self.space} has no array form")
        if self.layout.is_flat:
            self._leaves[0][rows] = obs
            return
        for array, part in zip(self._leaves, self.layout.split(obs), strict=True):
            array[rows] = part

    def batch(self, rows: Sequence[int] | None = None, *, copy: bool = True) -> Any:
        """Return the observations of some rows or of all, nested as the batched space.

        Args:
            rows: which; None for all.
            copy: whether they are the caller's own; without, those of all rows are this
                memory itself, which later steps change.
        """
        if self.layout is not None:
            leaves = self._leaves
            # The usual case first: to join leaves takes as long as to copy a small batch.
            if rows is None and copy and self.layout.is_flat:
                return leaves[0].copy()
            if rows is not None:
                leaves = tuple(leaf[rows] for leaf in leaves)
            elif copy:
                leaves = tuple(leaf.copy() for leaf in leaves)
            return self.layout.join(leaves)
        return self._stacked(range(self.num_rows) if rows is None else rows)

    def _stacked(self, chosen: Sequence[int]) -> Any:
        """Return observations that have no array form as gymnasium batches them."""
        values = [self._values[row] for row in chosen]
        out: Any = create_empty_array(self.space, n=len(values), fn=np.zeros)
        return concatenate(self.space, values, out)

    def taken(self, rows: range) -> tuple[Any, ...]:
        """Return what adjoining rows show, for `give`; nothing that later steps change."""
        if self.layout is None:
            return tuple(self._values[rows.start : rows.stop])
        if len(rows) == self.num_rows:  # without views, which cost as much as small copies
            return tuple([leaf.copy() for leaf in self._leaves])
        return tuple([leaf[rows.start : rows.stop].copy() for leaf in self._leaves])

    def give(self, rows: range, shown: tuple[Any, ...]) -> None:
        """Have rows show again what they showed when it was `taken`."""
        if self.layout is None:
            self._values[rows.start : rows.stop] = shown
            return
        for leaf, part in zip(self._leaves, shown, strict=True):
            leaf[rows.start : rows.stop] = part

    def leaves(self, rows: Any) -> tuple[np.ndarray, ...]:
        """Return `[k, ...]` arrays of what `rows` show, an index: this memory itself for a slice.

        There are none where observations have no array form.
        """
        return tuple(leaf[rows] for leaf in self._leaves)

    def rows(self, rows: Sequence[int]) -> list[Any]:
        """Return the observation of each row, nested as the space, and the caller's own."""
        if self.layout is None:
            return [self._values[row] for row in rows]
        return [self.layout.join(tuple(leaf[r].copy() for leaf in self._leaves)) for r in rows]


def _is_plain(space: spaces.Space[Any], obs: Any) -> bool:
    """Return whether an observation is dicts and tuples of arrays, exactly as the space says."""
    if isinstance(space, spaces.Dict):
        known = type(obs) is dict and list(obs) == list(space)
        return known and all(_is_plain(sub, obs[key]) for key, sub in space.items())
    if isinstance(space, spaces.Tuple):
        known = type(obs) is tuple and len(obs) == len(space)
        return known and all(_is_plain(*pair) for pair in zip(space, obs, strict=True))
    return _is_array(obs, space.shape, space.dtype)


def _is_array(obs: Any, shape: Any, dtype: Any) -> bool:
    # A number of an array comes back as a scalar, which is something else.
    return type(obs) is np.ndarray and obs.ndim > 0 and obs.shape == shape and obs.dtype == dtype


def _views(layout: SpaceLayout, num_rows: int, memory: Any) -> tuple[np.ndarray, ...]:
    if memory is None:
        memory = np.zeros(buffer_bytes(layout, num_rows), np.uint8)
    views, start = [], 0
    for shape, dtype in _fields(layout, num_rows):
        views.append(np.ndarray(shape, dtype, memory, start))
        start += _size(shape, dtype)
    return tuple(views)


class StepMemory:
    """Rewards and endings of n rows: shared with the processes that the rows live in.

    Args:
        num_rows: n.
        memory: uint8 array of `nbytes(n)`, such as memory that workers write to; None for
            memory of its own.

    Attributes:
        rewards: `[n]` float64.
        terminations, truncations: `[n]` bool.
    """

    def __init__(self, num_rows: int, memory: np.ndarray | None = None) -> None:
        if memory is None:
            memory = np.zeros(self.nbytes(num_rows), np.uint8)
        rewards, terminations, truncations, _ = np.split(memory, num_rows * np.array([8, 9, 10]))
        self.rewards: np.ndarray = rewards.view(np.float64)
        self.terminations: np.ndarray = terminations.view(bool)
        self.truncations: np.ndarray = truncations.view(bool)

    @staticmethod
    def nbytes(num_rows: int) -> int:
        """Return the bytes of n rows, in whole cache lines."""
        return -(-10 * num_rows // 64) * 64

    def rows(self, rows: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return rewards, terminations and truncations of `rows`, an index: views for a slice."""
        return self.rewards[rows], self.terminations[rows], self.truncations[rows]

    def taken(self, rows: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the same as fresh arrays; a range stands for all rows."""
        if isinstance(rows, range):
            return self.rewards.copy(), self.terminations.copy(), self.truncations.copy()
        return self.rows(rows)


class Placed(Protocol):
    """Some rows of a call; `numbers` says where they stand in it."""

    numbers: Sequence[int]


class RowMemory(NamedTuple):
    """What rows write to, for all processes of a vector env.

    Attributes:
        obs: what every row shows.
        finals: what every row showed when it ended, before it was reset in the same step.
        steps: what its last step came to.
        progress: `[hosts, 8]` int64: of each process the number in it of the row that is moved
            now, `NO_ROW` between calls, and how many calls have moved rows.
        actions: what each row is to play, where other processes read it; None if actions have
            no array form.
        infos: `[n, 2, INFO_BYTES]` uint8: what `InfoForms` keep there.
    """

    obs: ObsBuffer
    finals: ObsBuffer
    steps: StepMemory
    progress: np.ndarray
    actions: ActionMemory | None
    infos: np.ndarray

    def messages(self, first: int) -> StepMessages:
        """Return what writes and reads the messages of steps of a process, by its first row."""
        return StepMessages(self.actions, InfoForms(self.infos), first)

    def results(
        self, rows: Sequence[int], shares: Sequence[Placed], replies: Sequence[Reply]
    ) -> StepResults:
        """Return what came of a step or a reset of some rows, in the order of the call.

        Args:
            rows: numbers of the rows.
            shares: the rows of each process.
            replies: of these processes.
        """
        rewards, terminations, truncations = self.steps.taken(rows)
        infos: list[tuple[int, dict[str, Any]]] = []
        finals: list[tuple[int, Any, dict[str, Any]]] = []
        for places, reply in zip((one.numbers for one in shares), replies, strict=True):
            infos += [(places[k], info) for k, info in reply.infos]
            for k, obs, info in reply.finals:
                shown = self.finals.rows([rows[places[k]]])[0] if obs is IN_MEMORY else obs
                finals.append((places[k], shown, info))
        # Of some rows, processes answer in their own order, which need not be that of the call.
        if not isinstance(rows, range):
            infos.sort(key=lambda entry: entry[0])
            finals.sort(key=lambda entry: entry[0])
        return StepResults(rewards, terminations, truncations, infos, finals)


@dataclass(frozen=True)
class MemoryForm:
    """What lies where in the memory that all processes of a vector env write to.

    Attributes:
        space: of one row's observations.
        num_rows, num_hosts: of the vector env.
        strict: as of `ObsBuffer`.
        action_space: of one row's actions.
    """

    space: gym.Space[Any]
    num_rows: int
    num_hosts: int
    strict: bool
    action_space: gym.Space[Any]

    @property
    def nbytes(self) -> int:
        """Bytes of a shared block that holds it."""
        return sum(self._sizes())

    def _sizes(self) -> tuple[int, ...]:
        layout = layout_of(self.space)
        obs = 1 if layout is None else buffer_bytes(layout, self.num_rows)
        actions = layout_of(self.action_space)
        acted = 0 if actions is None else ActionMemory.nbytes(actions, self.num_rows)
        # In the order in which `memory` cuts.
        return (
            self.num_hosts * _PROGRESS_WORDS * 8,
            StepMemory.nbytes(self.num_rows),
            acted,
            2 * INFO_BYTES * self.num_rows,
            obs,
            obs,
        )

    def memory(self, block: SharedBlock | None) -> RowMemory:
        """Return the memory over a block, or over arrays of this process alone."""
        sizes = self._sizes()
        if block is None:
            parts = [np.zeros(size, np.uint8) for size in sizes]
        else:
            whole = block.ndarray((block.nbytes,), np.uint8)
            parts = np.split(whole, np.cumsum(sizes[:-1]))
        progress, steps, acted, infos, obs, finals = parts
        actions = layout_of(self.action_space)
        return RowMemory(
            ObsBuffer(self.space, self.num_rows, obs, strict=self.strict),
            ObsBuffer(self.space, self.num_rows, finals),
            StepMemory(self.num_rows, steps),
            progress.view(np.int64).reshape(self.num_hosts, _PROGRESS_WORDS),
            None if actions is None else ActionMemory(actions, self.num_rows, acted),
            infos.reshape(self.num_rows, 2, INFO_BYTES),
        )
