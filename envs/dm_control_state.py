"""State of a dm_control env: simulator, model, task and step counter.

The simulator's integration state holds time, warm start and controls. dm_control stops
between the two halves of MuJoCo's step, so restoring it runs the first half again
(`mj_step1`), from which the quantities come that the next step reads. Tasks keep their
targets and terrains in the model: what differs in it from the loaded one is part of
the state. So are the task's attributes and generator.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np

from plangym_ext.errors import DamagedState, IncompleteState
from plangym_ext.states.part import StatePart, StateTooWide, get_block, put_block
from plangym_ext.states.snapshot import SnapshotPart

_INTEGRATION = int(mujoco.mjtState.mjSTATE_INTEGRATION)
# Shapes, colours and names: large, and nothing that a task changes.
_ASSETS = ("bvh_", "mesh_", "name_", "names", "oct_", "paths", "skin_", "tex_", "text_")
_ALIGN = 64  # MuJoCo's alignment of arrays within a model


class ModelArrays:
    """The numbers of an `MjModel`, and how they differ from what was loaded.

    The arrays lie side by side in one block of memory, which is compared at once; one
    by one they would cost more than a small model's step.
    """

    def __init__(self, model: Any) -> None:
        self.model = model  # keeps the memory alive
        self._now = [_words(start, stop) for start, stop in _regions(model)]
        self._loaded = [words.copy() for words in self._now]

    def changes(self) -> bytes:
        """Return what differs from the loaded model: for each region indices and words."""
        parts = []
        for now, loaded in zip(self._now, self._loaded, strict=True):
            where = np.flatnonzero(now != loaded).astype(np.uint32)
            parts += [np.uint32(len(where)).tobytes(), where.tobytes(), now[where].tobytes()]
        return b"".join(parts)

    def apply(self, changes: bytes) -> None:
        """Make the model the loaded one with these changes."""
        at = 0
        for now, loaded in zip(self._now, self._loaded, strict=True):
            count = int.from_bytes(changes[at : at + 4], "little")
            # Four bytes for the count; for each change four of the index and eight of the word.
            if at + 4 + 12 * count > len(changes):
                raise DamagedState("dm_control: the changes of the model are cut off")
            where = np.frombuffer(changes, np.uint32, count, at + 4)
            words = np.frombuffer(changes, np.uint8, 8 * count, at + 4 + 4 * count)
            at += 4 + 12 * count
            if count and where.max() >= len(now):
                raise DamagedState("dm_control: a change lies outside of the model")
            now[:] = loaded
            # A copy is aligned to eight bytes; where it lies in the row need not be.
            now[where] = words.copy().view(np.uint64)

    def digest(self) -> str:
        """Return a digest of the model as loaded."""
        found = hashlib.blake2b(self.model.names, digest_size=16)
        for words in self._loaded:
            found.update(words.tobytes())
        return found.hexdigest()


def _regions(model: Any) -> list[tuple[int, int]]:
    """Return addresses of the runs of neighbouring arrays, assets left out."""
    spans = []
    for name in dir(model):
        value = None if name.startswith(("_", *_ASSETS)) else getattr(model, name)
        if isinstance(value, np.ndarray) and value.size:
            # A copy would have an address of its own, which is gone in a moment.
            assert not value.flags.owndata
            assert value.flags.c_contiguous
            start = value.__array_interface__["data"][0]
            spans.append((start, start + value.nbytes))
    # The last array may end inside a word; what follows it is padding of the block.
    runs: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        stop += -stop % 8
        if runs and start - runs[-1][1] < _ALIGN:
            runs[-1] = (runs[-1][0], max(stop, runs[-1][1]))
        else:
            runs.append((start, stop))
    return runs


def _words(start: int, stop: int) -> np.ndarray:
    memory = (ctypes.c_ubyte * (stop - start)).from_address(start)
    return np.frombuffer(memoryview(memory), np.uint64)


class DMControlPart(StatePart):
    """Codec of `DMControlEnv`."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._environment, self._arrays = env.environment, env.model_arrays
        physics = env.environment.physics
        self._model, self._data = physics.model.ptr, physics.data.ptr
        self._size = mujoco.mj_stateSize(self._model, _INTEGRATION)
        # Step count, integration state, sensors: those of forces belong to the last step.
        self._numbers = np.zeros(1 + self._size + self._model.nsensordata)
        task = env.environment.task
        self._task = SnapshotPart([task], [task])
        self.width = self._numbers.nbytes + self._task.width + len(self._arrays.changes()) + 1024

    def learned(self, before: Mapping[str, bytes]) -> Any:
        """Return what the task's snapshot learned."""
        return self._task.learned(before)

    def adopt(self, learned: Any, before: Mapping[str, bytes]) -> None:
        """See `StatePart.adopt`."""
        self._task.adopt(learned, before)

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        """Write simulator, model and task."""
        self._check_model()
        numbers, size = self._numbers, self._size
        stop = offset + numbers.nbytes
        if stop > end:
            raise StateTooWide(stop - end)
        numbers[0] = self._environment._step_count
        mujoco.mj_getState(self._model, self._data, numbers[1 : 1 + size], _INTEGRATION)
        numbers[1 + size :] = self._data.sensordata
        buffer[offset:stop] = numbers.data.cast("B")
        offset = put_block(buffer, stop, end, self._arrays.changes())
        return self._task.capture(buffer, offset, end)

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Set model, simulator and task."""
        self._check_model()
        numbers, size = self._numbers, self._size
        stop = offset + numbers.nbytes
        numbers.data.cast("B")[:] = buffer[offset:stop]
        changes, offset = get_block(buffer, stop)
        self._arrays.apply(changes)
        mujoco.mj_setState(self._model, self._data, numbers[1 : 1 + size], _INTEGRATION)
        mujoco.mj_step1(self._model, self._data)
        self._data.sensordata[:] = numbers[1 + size :]
        self._environment._step_count = int(numbers[0])
        self._env.is_terrain_shown = False
        return self._task.restore(buffer, offset)

    def identity(self) -> dict[str, Any]:
        """Return the simulator's version, the loaded model, and the task's class."""
        return {
            "mujoco": mujoco.__version__,
            "model": self._arrays.digest(),
            "task": type(self._environment.task).__qualname__,
        }

    def _check_model(self) -> None:
        if self._environment.physics.model.ptr is not self._model:
            raise IncompleteState(
                "dm_control: the task has built a new model since the env was made; a state can "
                "only hold changes of one. Change the model in place."
            )
