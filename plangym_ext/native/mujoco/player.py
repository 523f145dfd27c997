"""MujocoPlayer: physics of many rows of one model on MuJoCo's threads."""

from __future__ import annotations

import ctypes
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import mujoco
import numpy as np

from plangym_ext.core.one_caller import fork_count
from plangym_ext.errors import BackendUnavailable
from plangym_ext.native.mujoco.play import (
    DERIVED,
    FIELDS_AT,
    FORCES,
    BatchConfig,
    batch_library,
    compiled_play,
)
from plangym_ext.native.mujoco.task import MujocoTask, Rows

_INTEGRATION = mujoco.mjtState.mjSTATE_INTEGRATION
#: What lies before `userdata` in it.
_EARLIER = int(_INTEGRATION) & (int(mujoco.mjtState.mjSTATE_USERDATA) - 1)
_ERROR_BYTES = 1000
# Before the first call: so long that it plays one step.
_UNKNOWN_SECONDS = 1.0
#: Pointers of `mjData` that are looked through at once for that of `qpos`.
_WINDOW = 64


@dataclass(frozen=True)
class _Field:
    """An array of `mjData`: offset, shape and dtype."""

    name: str
    offset: int
    size: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class FreshRows(NamedTuple):
    """Rows that begin a new episode.

    Attributes:
        rows: `[m]` int, which.
        joints: `[m, nq + nv]` float64, their positions and velocities.
    """

    rows: np.ndarray
    joints: np.ndarray


class Played:
    """Recorded fields of K env steps of n rows; reused by the next call of that size.

    Attributes:
        actions: `[K, n, nu]` float64, to be filled in before.
        states: `[K, n, nstate]` float64 after each step, or None.
        before: the fields before each step, flat: cell (k, i) is row k * n + i.
        after: those after it.
        arrays: all that is recorded of fields, `[K, n, ...]`, those before first.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        num_controls: int,
        state_size: int,
        before: list[_Field],
        after: list[_Field],
    ) -> None:
        self.shape = shape
        self.actions = np.zeros((*shape, num_controls))
        self.states = np.zeros((*shape, state_size)) if state_size else None
        self.arrays = [np.zeros((*shape, *field.shape), field.dtype) for field in (*before, *after)]
        flat = [array.reshape(-1, *array.shape[2:]) for array in self.arrays]
        self.before = Rows(**{f.name: a for f, a in zip(before, flat, strict=False)})
        self.after = Rows(**{f.name: a for f, a in zip(after, flat[len(before) :], strict=True)})
        #: What tells the compiled function all this, and its address.
        self.job: memoryview | None = None
        self.job_address = 0

    def after_at(self, cells: np.ndarray) -> Rows:
        """Return the fields after some steps, by number of the cell; fresh arrays."""
        return Rows(**{name: array[cells] for name, array in vars(self.after).items()})


class MujocoPlayer:
    """Steps rows of one model on many threads, and records the fields that a task reads.

    Args:
        model: an `MjModel`; it is copied.
        data: an `MjData` of it, to learn where its fields lie.
        task: says which fields.
        carried: fields that are part of a state, after the integration vector.
        frame_skip: simulation steps in an env step.
        n_threads: threads that step, the caller's among them.

    Raises:
        BackendUnavailable: MuJoCo has no batch API, or a field cannot be recorded.

    Attributes:
        step_seconds: what an env step of one row took in the last call; results do not
            depend on it.
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        task: MujocoTask,
        carried: tuple[str, ...],
        *,
        frame_skip: int,
        n_threads: int,
    ) -> None:
        self._library = batch_library()
        self._play = compiled_play()
        self._model, self._n_threads = model, n_threads
        self._frame_skip = frame_skip
        self._follows = FORCES * task.contact_forces + DERIVED * task.derives_after
        self._num_controls = model.nu
        start = 8 * mujoco.mj_stateSize(model, _EARLIER)
        self._task_bytes = slice(start, start + 8 * model.nuserdata)
        self._model_of = task.model_of
        self._models = [self._model_of(data.userdata.tobytes())]
        self.state_size = mujoco.mj_stateSize(model, _INTEGRATION)
        other = mujoco.MjData(model)
        self._pointer = _pointer_of_qpos(data, other)
        self._carried = [_field(name, data, other) for name in carried]
        sizes = [field.size for field in self._carried]
        #: Bytes from a state's beginning to each carried field, and to the end of the last.
        *self._carried_at, self.carried_end = (
            8 * self.state_size + np.cumsum([0, *sizes])
        ).tolist()
        self._before = [_field(name, data, other) for name in task.reads_before]
        after = dict.fromkeys((*task.reads, *carried))
        self._after = [_field(name, data, other) for name in after]
        self._capacity = 0
        self._everyone = np.zeros(0, np.int32)
        self._batch: int | None = None
        self._delete: Callable[[], Any] = lambda: None
        self._forks = fork_count()
        self._spare: Played | None = None
        self.step_seconds = _UNKNOWN_SECONDS

    @property
    def cell_bytes(self) -> int:
        """Bytes recorded of one step of one row, with its state."""
        fields = sum(field.size for field in (*self._before, *self._after))
        return fields + 8 * (self.state_size + self._num_controls)

    def memory(self, num_steps: int, num_rows: int, *, states: bool) -> Played:
        """Return where K steps of n rows will be recorded: the actions are to be filled in.

        Args:
            num_steps: K.
            num_rows: n.
            states: whether the states after each step are recorded.
        """
        shape = (num_steps, num_rows)
        spare = self._spare
        if spare is None or spare.shape != shape or (spare.states is not None) != states:
            size = self.state_size if states else 0
            spare = Played(shape, self._num_controls, size, self._before, self._after)
            self._spare = spare
        return spare

    def play(
        self,
        played: Played,
        rows: np.ndarray | None,
        source: np.ndarray,
        target: np.ndarray,
        fresh: FreshRows | None = None,
        *,
        steps: bool = True,
    ) -> None:
        """Play the actions of `played` from states, and record into it.

        Args:
            played: as `memory` returned it.
            rows: `[n]` int, increasing, the rows that are played; None for all B.
            source: `[B, W]` uint8, integration state and carried fields of all rows, each
                row contiguous.
            target: like `source`, for those after the last step; may be the same memory.
            fresh: rows that begin at a reset instead.
            steps: without, nothing is played, and `played.after` has the rows' first fields.

        Raises:
            FatalError: of mujoco, in some row.
        """
        num_rows = len(source)
        self._reserve(num_rows)
        job = self._job(played, num_rows)
        job[0] = played.shape[0] if steps else 0
        job[3], job[4] = _address(source), source.strides[0]
        job[5], job[6] = _address(target), target.strides[0]
        chosen = self._everyone[:num_rows]
        # Where all rows are played, n is B, and no job of that size was ever given others.
        if rows is not None:
            chosen = rows.astype(np.int32)
            np.asarray(job)[job[16] :][chosen] = self._everyone[: len(chosen)]
        begins = job[16] + num_rows
        if fresh is not None:
            job[18], job[19] = _address(fresh.joints), fresh.joints.strides[0]
            for number, row in enumerate(fresh.rows.tolist()):
                job[begins + row] = number
        if self._models[0] is not None:
            self._choose_models(source)
        begin = time.perf_counter()
        try:
            self._apply(chosen, played.job_address)
        finally:
            # The job serves later calls, whose rows begin at their states.
            for row in () if fresh is None else fresh.rows.tolist():
                job[begins + row] = -1
        if steps:
            self.step_seconds = (time.perf_counter() - begin) / (played.shape[0] * played.shape[1])

    def _choose_models(self, source: np.ndarray) -> None:
        """Have each row run on the model of its task."""
        # Held until the next call: the batch refers to them.
        self._models = [self._model_of(row.tobytes()) for row in source[:, self._task_bytes]]
        self._addresses = np.full(self._capacity, self._model._address, np.uintp)
        self._addresses[: len(source)] = [model._address for model in self._models]
        self._library.mjb_setModels(self._batch, _address(self._addresses))

    def _apply(self, rows: np.ndarray, job: int) -> None:
        failed = self._library.mjb_apply(
            self._batch, _address(rows), len(rows), self._play.address, job, 0
        )
        if failed:
            self._raise(rows)

    def go_back(
        self,
        played: Played,
        steps: np.ndarray,
        numbers: np.ndarray,
        target: np.ndarray,
        rows: np.ndarray,
    ) -> None:
        """Write the states after earlier steps than the last one.

        Args:
            played: with states recorded.
            steps: `[m]` which of the K steps.
            numbers: `[m]` which of the n rows.
            target: as of `play`.
            rows: `[m]` their rows there.
        """
        assert played.states is not None
        target[rows, : 8 * self.state_size] = played.states[steps, numbers].view(np.uint8)
        for field, start in zip(self._carried, self._carried_at, strict=True):
            # [m, bytes of the field]
            values = getattr(played.after, field.name).reshape(*played.shape, -1)[steps, numbers]
            target[rows, start : start + field.size] = values.view(np.uint8)

    def close(self) -> None:
        """End the threads; further calls do nothing."""
        self._delete()
        self._batch, self._capacity, self._spare = None, 0, None

    def _reserve(self, num_rows: int) -> None:
        """Make a batch with room for a number of rows, with threads of this process."""
        # A forked child has the batch but none of its threads, and makes its own.
        if num_rows <= self._capacity and self._forks == fork_count():
            return
        self.close()
        self._forks = fork_count()
        # Powers of two: batches that grow bit by bit do not start threads anew each time.
        capacity = 1 << (num_rows - 1).bit_length()
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        batch = self._library.mjb_makeBatch(
            self._model._address,
            capacity,
            ctypes.byref(BatchConfig(self._n_threads, False)),
            error,
            _ERROR_BYTES,
        )
        if not batch:
            raise BackendUnavailable(f"mujoco backend: {error.value.decode()}")
        self._batch, self._capacity = batch, capacity
        self._everyone = np.arange(capacity, dtype=np.int32)
        self._delete = weakref.finalize(
            self, _delete_batch, self._library.mjb_deleteBatch, batch, fork_count()
        )

    def _job(self, played: Played, num_rows: int) -> memoryview:
        """Return the array that tells the compiled function what to do; see its module.

        What changes from call to call is left open: states, and which rows are played.
        """
        if played.job is not None and played.job[17] == num_rows:
            return played.job
        fields = [*self._carried, *self._before, *self._after]
        positions = FIELDS_AT + 3 * len(fields)
        job = np.zeros(positions + 2 * num_rows, np.int64)
        job[:3] = played.shape[0], self._frame_skip, self._follows
        job[7:10] = _address(played.actions), played.shape[1], 8 * self._num_controls
        job[10] = 0 if played.states is None else _address(played.states)
        job[11:13] = 8 * self.state_size, self._pointer
        job[13:16] = len(self._carried), len(self._before), len(self._after)
        job[16:18] = positions, num_rows
        places = [*self._carried_at, *map(_address, played.arrays)]
        for k, (field, place) in enumerate(zip(fields, places, strict=True)):
            job[FIELDS_AT + 3 * k :][:3] = field.offset, field.size, place
        job[positions:][:num_rows] = np.arange(num_rows)
        job[positions + num_rows :] = -1
        # Single entries of a memoryview are written in a tenth of the time.
        played.job, played.job_address = job.data, _address(job)
        return played.job

    def _raise(self, rows: np.ndarray) -> None:
        status = self._library.mjb_status(self._batch)
        failed = np.ctypeslib.as_array((ctypes.c_int * self._capacity).from_address(status))
        row = int(rows[np.argmax(failed[rows] != 0)])
        message = self._library.mjb_error(self._batch, row).decode()
        error = mujoco.FatalError(message)
        error.add_note(f"mujoco backend: in row {row}")
        raise error


def _delete_batch(delete: Callable[[int], Any], batch: int, made_at: int) -> None:
    # It would wait for its threads, of which a forked child has none.
    if made_at == fork_count():
        delete(batch)


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _field(name: str, data: Any, other: Any) -> _Field:
    """Return where an array lies in the memory of every `mjData` of the model."""
    array, offset = getattr(data, name, None), 0
    if isinstance(array, np.ndarray):
        offset = array.ctypes.data - data.qpos.ctypes.data
        same = getattr(other, name).ctypes.data - other.qpos.ctypes.data == offset
        # Arrays whose size changes from step to step lie elsewhere, at no fixed place.
        if not same or not array.flags.c_contiguous:
            array = None
    if not isinstance(array, np.ndarray):
        raise BackendUnavailable(
            f"mujoco backend: a task reads {name!r}, which is no array of fixed size in mjData; "
            "expected fields such as 'qpos', 'xpos' or 'sensordata'."
        )
    return _Field(name, offset, array.nbytes, array.shape, array.dtype)


def _pointer_of_qpos(data: Any, other: Any) -> int:
    """Return the index of the pointer to `qpos` in the structure, counted in pointers.

    MuJoCo's header says where it is, but that changes from version to version: it is
    looked for, and compared with a second structure.
    """
    wanted = data.qpos.ctypes.data
    index = 0
    while True:
        start = data._address + 8 * index
        window = np.ctypeslib.as_array((ctypes.c_uint64 * _WINDOW).from_address(start))
        found = np.flatnonzero(window == wanted)
        if len(found):
            break
        index += _WINDOW
    index += int(found[0])
    there = ctypes.c_uint64.from_address(other._address + 8 * index).value
    if there != other.qpos.ctypes.data:
        raise BackendUnavailable(
            f"mujoco backend: version {mujoco.__version__} lays mjData out in an unknown way; "
            "please report it, with this version."
        )
    return index
