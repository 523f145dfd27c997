"""Batch arrays of the kernel backend: layout for the compiled loop, conversion to results."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.infos import InfoBatch
from plangym_ext.core.invalid import MARKS
from plangym_ext.core.results import RESULT_FIELDS, RowResets, RowResults
from plangym_ext.core.row_request import RowRequest
from plangym_ext.native.kernel.kernel import Kernel
from plangym_ext.native.kernel.row_kernel import RowArrays, RowRules
from plangym_ext.native.row_checks import RowChecks, is_plain
from plangym_ext.native.seals import header_of
from plangym_ext.states.envelope import HEADER
from plangym_ext.states.wrapper_parts import TimeLimitPart

_NO_INFO = np.dtype([("none", "u1")])
_OTHERS = [one for one in RESULT_FIELDS if one.name != "states"]
#: Name, axis and dtype of the results that have arrays of their own, and whether they are flags;
#: in the order of `RowArrays` and of `RowResults`. States are written to the rows that are stepped.
_WRITTEN = [(one.stored, one.axis, np.dtype(one.code), one.code == "|b1") for one in _OTHERS]
_written = operator.attrgetter(*(one.name for one in _OTHERS))
#: Makes an uninitialised array of a shape and dtype.
Allocate = Callable[..., np.ndarray]


class _StateRows(NamedTuple):
    """State rows, and their parts as `RowArrays` has them."""

    bytes: np.ndarray  # [B, S] uint8
    words: np.ndarray
    payload: np.ndarray
    elapsed: np.ndarray


class RowMemory:
    """Lays batches of one env out as its kernel wants them.

    Args:
        env: the env, whose rows have a fixed layout.
        kernel: its kernel.
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
        leaf = env.layout.obs.leaves[0]
        self._obs_shape, self.obs_dtype = leaf.shape or (1,), leaf.dtype
        self._obs_is_number = not leaf.shape
        action = env.layout.action.leaves[0]
        self._action = (action.dtype, len(action.shape) + 2)
        header = header_of(env.envelope, sum(part.width for part in env.codec.parts))
        self._env = env
        #: What is given to the loop for rows that it does not reset.
        self._no_resets = self._resets(0, np.empty)
        #: Rows that only the next batch sees, without states, in turn.
        self._spares: list[_StateRows] = []
        self.rules = RowRules(
            limit=limits[0].identity()["max_episode_steps"] if limits else 0,
            frameskip=env.frameskip,
            header=header,
            weights=env.envelope.weights,
        )

    def checks(self) -> RowChecks:
        """Return checks of the env's inputs, compiled or loaded."""
        return RowChecks(self._env.layout.action, self._env.envelope, self.rules.header)

    def arrays(self, request: RowRequest, new: Allocate = np.empty) -> RowArrays:
        """Return arrays for a request: the caller's inputs where possible, fresh outputs.

        Their types and layouts are the same for all requests, as compiled code relies on.
        """
        actions, reset_first = request.actions[0], request.reset_first
        assert (actions.dtype, actions.ndim) == self._action
        size = request.num_rows
        states = self._state_rows(request, new)
        given = request.states.shape[1]
        states.bytes[:size, :given] = request.states
        if given < self.width:
            states.bytes[:size, given:] = 0
        dt = new(size, np.int32)
        dt[...] = request.dt
        # By position: names of so many fields cost a light batch a tenth of its time.
        return RowArrays._make(
            (
                states.words,
                states.payload,
                states.elapsed,
                usable(actions),
                dt,
                np.zeros(size, np.bool_) if reset_first is None else usable(reset_first),
                self._obs(request, new, size),
                *_rooms(request, new),
                new(size, np.int32),
                new(size, self._info),
                *(self._resets(size, new) if request.autoreset else self._no_resets),
            )
        )

    def _resets(self, size: int, new: Allocate) -> tuple[np.ndarray, np.ndarray]:
        """Return room for what is said of rows that are reset as they end."""
        return new((size, *self._obs_shape), self.obs_dtype), new(size, self._info)

    def _state_rows(self, request: RowRequest, new: Allocate) -> _StateRows:
        """Return rows that are not those of the request; spare ones if they are not shown.

        Only a batch without states has spare ones: of those one at a time is in flight, so
        that the spare rows are either where the env's rows are now, or free.
        """
        # Two rows at least: numpy takes a column of one row for contiguous, which is
        # another type to compiled code.
        size = max(request.num_rows, 2)
        is_shown = request.wants_states or "states_out" in request.out
        if is_shown or request.reset_first is None or new is not np.empty:
            return self._laid_out(new((size, self.width), np.uint8))
        for spare in self._spares:
            # A view's base is the array that owns the memory.
            if len(spare.bytes) == size and spare.bytes is not request.states.base:
                return spare
        fresh = self._laid_out(np.empty((size, self.width), np.uint8))
        self._spares = [fresh, *self._spares[:1]]
        return fresh

    def _laid_out(self, rows: np.ndarray) -> _StateRows:
        return _StateRows(rows, *self.views(rows))

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

    def _obs(self, request: RowRequest, new: Allocate, size: int) -> np.ndarray:
        """Return where observations go: into the caller's array if it is laid out plainly."""
        given = request.out.get("obs0")
        shape = (size, *self._obs_shape)
        if given is not None and given.flags.c_contiguous and given.flags.aligned:
            return given.reshape(shape)
        return new(shape, self.obs_dtype)

    def results(self, request: RowRequest, arrays: RowArrays) -> RowResults:
        """Return the results that the loop has written, in the form of every backend."""
        obs = arrays.obs
        given = request.out.get("obs0")
        if given is not None and np.may_share_memory(given, obs):
            obs = given  # the very array: nothing needs to be copied
        elif self._obs_is_number:
            obs = obs[:, 0]
        columns: dict[str, np.ndarray] = {}
        resets = self._reset_rows(request, arrays) if request.autoreset else None
        if request.infos != "none":
            columns = {name: arrays.info[name].copy() for name in self._columns}
            if self._has_marks:  # rows with invalid values run on the env itself
                columns[MARKS.key] = np.zeros(request.num_rows, np.bool_)
        columns["n_step"], columns["dt"] = arrays.env_steps, arrays.dt
        states = arrays.rows.view(np.uint8)[: request.num_rows]
        infos = InfoBatch(columns, {})
        return RowResults._make((states, *_written(arrays), (obs,), infos, resets))

    def _reset_rows(self, request: RowRequest, arrays: RowArrays) -> RowResets:
        obs, infos = arrays.final_obs, arrays.reset_info
        names = self._columns if request.infos != "none" else ()
        columns = {name: infos[name].copy() for name in names}
        return RowResets((obs[:, 0] if self._obs_is_number else obs,), columns)


def _rooms(request: RowRequest, new: Allocate) -> list[np.ndarray]:
    """Return where results go: flags into the caller's arrays, if these are laid out plainly."""
    rows, steps = (request.num_rows,), (request.num_rows, request.horizon)
    out = request.out
    found = [new(steps if axis else rows, dtype) for _, axis, dtype, _ in _WRITTEN]
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
