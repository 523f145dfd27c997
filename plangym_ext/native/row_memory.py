"""The arrays of one batch for the compiled loop, and the results that they become."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from plangym_ext.core.envelope import HEADER
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.infos import InfoBatch
from plangym_ext.core.invalid import MARKS
from plangym_ext.core.row_request import RowRequest
from plangym_ext.core.rows import RowResults
from plangym_ext.core.wrapper_parts import TimeLimitPart
from plangym_ext.native.kernel import Kernel
from plangym_ext.native.row_kernel import RowArrays, RowRules

_NO_INFO = np.dtype([("none", "u1")])
#: Makes an uninitialised array of a shape and dtype.
Allocate = Callable[..., np.ndarray]


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
        row = np.zeros((1, self.width), np.uint8)
        env.envelope.seal(row, sum(part.width for part in env.codec.parts))
        header = row[0, :HEADER].view("<u8").copy()
        header[4] = 0
        self.rules = RowRules(
            limit=limits[0].identity()["max_episode_steps"] if limits else 0,
            frameskip=env.frameskip,
            header=header,
            weights=env.envelope.weights,
        )

    def arrays(self, request: RowRequest, new: Allocate = np.empty) -> RowArrays:
        """Arrays for a request: inputs as they came where that is possible, fresh outputs.

        Their types and layouts are the same for all requests, as compiled code relies on.
        """
        actions, reset_first = request.actions[0], request.reset_first
        assert (actions.dtype, actions.ndim) == self._action
        size, horizon = actions.shape[:2]
        # Two rows at least: numpy takes a column of one row for contiguous, which is
        # another type to compiled code.
        rows = new((max(size, 2), self.width), np.uint8)
        given = request.states.shape[1]
        rows[:size, :given] = request.states
        if given < self.width:
            rows[:size, given:] = 0
        words, state, elapsed = self.views(rows)
        dt = new(size, np.int32)
        dt[...] = request.dt
        return RowArrays(
            words,
            state,
            elapsed,
            usable(actions),
            dt,
            np.zeros(size, np.bool_) if reset_first is None else usable(reset_first),
            self._obs(request, new, size),
            new((size, horizon), np.float64),
            new(size, np.bool_),
            new(size, np.bool_),
            new(size, np.int32),
            new(size, np.int32),
            new(size, self._info),
        )

    def views(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What a kernel sees of `[M, S]` uint8 rows, M at least 2.

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
        """Room for infos `[count]` and observations `[count, *obs]`."""
        return np.zeros(count, self._info), np.zeros((count, *self._obs_shape), self.obs_dtype)

    def _obs(self, request: RowRequest, new: Allocate, size: int) -> np.ndarray:
        """Where observations go: into the caller's array if it is laid out plainly."""
        given = request.out.get("obs0")
        shape = (size, *self._obs_shape)
        if given is not None and given.flags.c_contiguous and given.flags.aligned:
            return given.reshape(shape)
        return new(shape, self.obs_dtype)

    def results(self, request: RowRequest, arrays: RowArrays) -> RowResults:
        """What the loop has written, as every backend returns it."""
        obs = arrays.obs
        given = request.out.get("obs0")
        if given is not None and np.may_share_memory(given, obs):
            obs = given  # the very array: nothing needs to be copied
        elif self._obs_is_number:
            obs = obs[:, 0]
        columns: dict[str, np.ndarray] = {}
        if request.infos != "none":
            columns = {name: arrays.info[name].copy() for name in self._columns}
            if self._has_marks:  # rows with invalid values run on the env itself
                columns[MARKS.key] = np.zeros(request.num_rows, np.bool_)
        columns["n_step"], columns["dt"] = arrays.env_steps, arrays.dt
        return RowResults(
            arrays.rows.view(np.uint8)[: request.num_rows],
            (obs,),
            arrays.rewards,
            arrays.terminated,
            arrays.truncated,
            arrays.steps,
            InfoBatch(columns, {}),
        )


def _apart(size: int) -> np.ndarray:
    """`[B]` int64 zeros, laid out as a column of rows is."""
    return np.zeros((max(size, 2), 2), np.int64)[:, 0]


def usable(array: np.ndarray) -> np.ndarray:
    """The array, or a copy if compiled code would have to be made for its memory layout."""
    flags = array.flags
    if flags.c_contiguous and flags.aligned and flags.writeable:
        return array
    return array.copy()


def state_of(env: GymEnv) -> Any:
    """`[1, S]` uint8 of where the gymnasium env is, whether or not it may be asked."""
    row = np.zeros((1, env.state_width), np.uint8)
    end = env.codec.capture(row[0].data, HEADER)
    env.envelope.seal(row, end - HEADER)
    return row
