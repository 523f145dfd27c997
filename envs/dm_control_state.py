"""State codec of dm_control envs: simulator, model, task and step counter.

The simulator's integration state holds time, warm start and controls. dm_control stops
between the two halves of MuJoCo's step, so restoring it runs the first half again
(`mj_step1`), from which the quantities come that the next step reads. Tasks keep their
targets and terrains in the model: what differs in it from the loaded one is part of
the state. So are the task's attributes and generator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np

from plangym_ext.errors import IncompleteState
from plangym_ext.states.part import StatePart, StateTooWide, get_block, put_block
from plangym_ext.states.snapshot import SnapshotPart

_INTEGRATION = int(mujoco.mjtState.mjSTATE_INTEGRATION)


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
