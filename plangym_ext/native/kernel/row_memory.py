"""Batch arrays of the kernel backend: layout for the compiled loop, conversion to results."""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from plangym_ext.core.backend_env import NO_OUT
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.infos import InfoBatch
from plangym_ext.core.invalid import MARKS
from plangym_ext.core.results import RESULT_FIELDS, RowResets, RowResults
from plangym_ext.native.kernel.row_kernel import Kernel, RowArrays, RowRules
from plangym_ext.native.row_checks import RowChecks, bounds_of, header_of, is_plain
from plangym_ext.states.envelope import HEADER
from plangym_ext.states.wrapper_parts import TimeLimitPart

_NO_INFO = np.dtype([("none", "u1")])
_OTHERS = [one for one in RESULT_FIELDS if one.name != "states"]
#: Name, axis and dtype of the results that have arrays of their own, and whether they are flags;
#: in the order of `RowArrays` and of `RowResults`. States are written to the rows that are stepped.
_WRITTEN = [(one.stored, one.axis, np.dtype(one.code), one.code == "|b1") for one in _OTHERS]
_written = operator.attrgetter(*(one.name for one in _OTHERS))
#: For rows of a vector env, each of which takes one step.
_NO_DT = np.zeros(0, np.int32)
#: Makes an uninitialised array of a shape and dtype.
Allocate = Callable[..., np.ndarray]


class StateRows(NamedTuple):
    """State rows, and views of their parts as in `RowArrays`."""

    bytes: np.ndarray  # [B, S] uint8
    words: np.ndarray
    payload: np.ndarray
    elapsed: np.ndarray


class RowMemory:
    """Arrays for the batches of one env, in the layout of its kernel.

    Args:
        env: the env, whose rows have a fixed layout.
        kernel: its kernel.

    Attributes:
        rules: what the loop has to know of the env.
        holds_all_infos: whether infos are numbers alone.
        has_infos: whether there are any.
        is_strict: whether bounds of observations are looked at.
    """

    def __init__(self, env: GymEnv, kernel: Kernel) -> None:
        self.width = env.state_width
        limits = [part for part in env.codec.parts if isinstance(part, TimeLimitPart)]
        self._limited = bool(limits)
        start = HEADER + sum(part.width for part in limits)
        self._payload = slice(start, start + kernel.state.itemsize)
        self._state = kernel.state
        self._is_bytes = kernel.state.names is None
        self._info = _NO_INFO if kernel.info is None else kernel.info
        self._columns = () if kernel.info is None else kernel.info.names or ()
        self._has_marks = MARKS in env.layout.info
        self.holds_all_infos = env.info_writer.holds_all
        self.has_infos = bool(self._columns) or self._has_marks
        self.is_strict = env.values.policy == "strict"
        leaf = env.layout.obs.leaves[0]
        self._obs_shape, self.obs_dtype = leaf.shape or (1,), leaf.dtype
        self._obs_is_number = not leaf.shape
        action = env.layout.action.leaves[0]
        self._action = (action.dtype, len(action.shape) + 2)
        header = header_of(env.envelope, sum(part.width for part in env.codec.parts))
        self._env = env
        #: What is given to the loop for rows that it does not reset.
        self._no_resets = self._resets(0, np.empty)
        #: Room for the steps of a vector env, in turn.
        self._live: list[LiveRows] = []
        low, high = bounds_of(action)
        self.rules = RowRules(
            limit=limits[0].identity()["max_episode_steps"] if limits else 0,
            frameskip=env.frameskip,
            header=header,
            weights=env.envelope.weights,
            low=low,
            high=high,
        )

    def checks(self) -> RowChecks:
        """Return checks of the env's inputs, compiled or loaded."""
        return RowChecks(self._env.layout.action, self._env.envelope, self.rules.header)

    def arrays(
        self,
        actions: np.ndarray,
        rows: StateRows,
        dt: np.ndarray,
        resets: np.ndarray,
        *,
        out: Mapping[str, np.ndarray] = NO_OUT,
        autoreset: bool = False,
        new: Allocate = np.empty,
    ) -> RowArrays:
        """Return arrays for the loop: the caller's inputs where possible, fresh outputs.

        Their types and layouts are the same for all batches, as compiled code relies on.

        Args:
            actions: `[B, H, *act]`, in the dtype of the space.
            rows: where the rows end.
            dt: `[B]` int32, as of `RowRequest`.
            resets: `[B]` bool, rows to reset first.
            out: arrays to write results to, as of `RowRequest`.
            autoreset: whether rows may be reset as they end.
            new: makes every array that is not the caller's.
        """
        assert (actions.dtype, actions.ndim) == self._action
        size = len(actions)
        # By position: names of so many fields cost a light batch a tenth of its time.
        return RowArrays._make(
            (
                *rows[1:],
                usable(actions),
                dt,
                usable(resets),
                self._obs(out, (size, *self._obs_shape), new),
                *_rooms(size, actions.shape[1], out, new),
                new(size, np.int32),
                new(size, self._info),
                *(self._resets(size, new) if autoreset else self._no_resets),
            )
        )

    def _resets(self, size: int, new: Allocate) -> tuple[np.ndarray, np.ndarray]:
        """Return room for what is said of rows that are reset as they end."""
        return new((size, *self._obs_shape), self.obs_dtype), new(size, self._info)

    def rows(self, size: int, new: Allocate = np.empty) -> StateRows:
        """Return fresh rows for B states."""
        # Two rows at least: numpy takes a column of one row for contiguous, which is
        # another type to compiled code.
        rows = new((max(size, 2), self.width), np.uint8)
        return StateRows(rows[:size], *self.views(rows))

    def words(self, states: np.ndarray, rows: StateRows) -> np.ndarray:
        """Return states `[B, S]` uint8 as words; unusual ones are copied to `rows`, to begin there.

        They are at most as wide as the env's.
        """
        for live in self._live:
            if live.rows.bytes is states:
                return live.rows.words
        if states.shape[1] == self.width and is_plain(states):
            return states.view(np.uint64)
        rows.bytes[:, : states.shape[1]] = states
        rows.bytes[:, states.shape[1] :] = 0
        return rows.words

    def live(self, size: int) -> LiveRows:
        """Return room for a step of B rows."""
        leaf = self._env.layout.action.leaves[0]
        actions = np.zeros((size, 1, *leaf.shape), leaf.dtype)
        return LiveRows(self, self.rows(size), actions, np.zeros(size, np.bool_))

    def other_live(self, states: np.ndarray) -> LiveRows:
        """Return memory for a step of all rows, separate from their start states `states`.

        There are two in turn: rows that one call has written are where the next one begins, or, if
        that call came to nothing, free.
        """
        for live in self._live:
            # The base of a view is the array that owns the memory.
            if live.rows.bytes.base is not states.base and len(live.rows.bytes) == len(states):
                live.renew()
                return live
        fresh = self.live(len(states))
        self._live = [fresh, *self._live[:1]]
        return fresh

    def views(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return a kernel's views of `[M, S]` uint8 rows, M at least 2.

        Returns:
            The rows as words `[M, S / 8]` uint64, the simulator's bytes `[M]` or `[M, n]`,
            the steps of the episodes `[M]` int64; the last ones are no view if the env has
            no TimeLimit.
        """
        words = rows.view(np.uint64)
        payload = rows[:, self._payload]
        return (
            words,
            payload if self._is_bytes else payload.view(self._state)[:, 0],
            words[:, HEADER // 8].view(np.int64) if self._limited else _apart(len(rows)),
        )

    def scratch(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return room for infos `[count]` and observations `[count, *obs]`."""
        return np.zeros(count, self._info), np.zeros((count, *self._obs_shape), self.obs_dtype)

    def _obs(
        self, out: Mapping[str, np.ndarray], shape: tuple[int, ...], new: Allocate
    ) -> np.ndarray:
        """Return where observations go: into the caller's array if it is laid out plainly."""
        given = out.get("obs0")
        if given is not None and given.flags.c_contiguous and given.flags.aligned:
            return given.reshape(shape)
        return new(shape, self.obs_dtype)

    def results(
        self,
        arrays: RowArrays,
        rows: StateRows,
        infos: str = "numeric",
        out: Mapping[str, np.ndarray] = NO_OUT,
        *,
        resets: bool = False,
    ) -> RowResults:
        """Return the results that the loop has written, in the form of every backend.

        Args:
            arrays: as `arrays` returned them.
            rows: where the rows have ended.
            infos: "none" if only the counts are wanted.
            out: as for `arrays`.
            resets: whether rows were reset as they ended.
        """
        obs = arrays.obs[:, 0] if self._obs_is_number else arrays.obs
        if out and "obs0" in out and np.may_share_memory(out["obs0"], obs):
            obs = out["obs0"]  # the very array: nothing needs to be copied
        names = self._columns if infos != "none" else ()
        columns = {name: arrays.info[name].copy() for name in names}
        if self._has_marks and infos != "none":  # rows with invalid values run on the env itself
            columns[MARKS.key] = np.zeros(len(obs), np.bool_)
        columns["n_step"], columns["dt"] = arrays.env_steps, arrays.dt
        begun = self._begun(arrays, names) if resets else None
        found = InfoBatch(columns, {})
        return RowResults._make((rows.bytes, *_written(arrays), (obs,), found, begun))

    def _begun(self, arrays: RowArrays, names: Sequence[str]) -> RowResets:
        """Return what is said of rows that were reset as they ended."""
        obs = arrays.final_obs
        infos = {name: arrays.reset_info[name].copy() for name in names}
        return RowResets((obs[:, 0] if self._obs_is_number else obs,), infos)


class LiveRows:
    """Room for a step of the rows of a vector env.

    The arrays of its results are handed out. Another step writes to them once the caller holds
    them no longer, nor a view of them; until then others take their place.

    Args:
        memory: of the env.
        rows: where the rows end.
        actions: `[B, 1, *act]`, to be written before a step.
        resets: `[B]` bool, likewise.

    Attributes:
        rows: as given.
        actions: `[B, *act]`, a view of those given.
        resets: as given.
        arrays: for the loop.
        results: of a step that resets no row as it ends and has no infos.
    """

    def __init__(
        self, memory: RowMemory, rows: StateRows, actions: np.ndarray, resets: np.ndarray
    ) -> None:
        self._memory, self.rows, self.actions, self.resets = memory, rows, actions[:, 0], resets
        self._make = functools.partial(memory.arrays, actions, rows, _NO_DT, resets)
        self._held: tuple[int, ...] = ()
        self._handed: tuple[np.ndarray, ...] = ()
        self.renew()

    def renew(self) -> None:
        """Make new arrays for results if the caller holds those of an earlier step."""
        # Views refer to the arrays that own their memory.
        if not self._held or tuple(map(sys.getrefcount, self._handed)) != self._held:
            self.arrays = self.with_out(NO_OUT)
            self.results = self._memory.results(self.arrays, self.rows, "none")
            self._handed = *self.results[1:4], *self.results.obs, self.arrays.obs
            self._held = tuple(map(sys.getrefcount, self._handed))

    def with_out(self, out: Mapping[str, np.ndarray]) -> RowArrays:
        """Return arrays for the loop that write to those of `out`, as of `RowRequest`."""
        return self._make(out=out, autoreset=True)


def _rooms(
    size: int, horizon: int, out: Mapping[str, np.ndarray], new: Allocate
) -> list[np.ndarray]:
    """Return where results go: flags into the caller's arrays, if these are laid out plainly."""
    found = [new((size, horizon) if axis else size, dtype) for _, axis, dtype, _ in _WRITTEN]
    if out:
        for place, (name, _, _, is_flag) in enumerate(_WRITTEN):
            # Memory given for numbers may be that of the actions, which later rows have yet to
            # read.
            if is_flag and name in out and is_plain(out[name]):
                found[place] = out[name]
    return found


def _apart(size: int) -> np.ndarray:
    """Return `[B]` int64 zeros, laid out as a column of rows is."""
    return np.zeros((max(size, 2), 2), np.int64)[:, 0]


def usable(array: np.ndarray) -> np.ndarray:
    """Return the array, or a copy of its shape if its memory layout is another than compiled."""
    return array if is_plain(array) else array.copy()
