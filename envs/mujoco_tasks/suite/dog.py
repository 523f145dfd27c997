"""Control Suite task `dog-run`: reward for standing upright and running."""

from __future__ import annotations

import importlib.util
from functools import cached_property
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from plangym_ext.envs.mujoco_tasks.suite import suite_task
from plangym_ext.envs.mujoco_tasks.suite.suite_task import SuiteTask, body, sensor
from plangym_ext.errors import MissingExtra
from plangym_ext.native.mujoco.task import Rows

_RUN_SPEED = 9
_FLOOR = 9 * 15  # what it can run in an episode
_UPRIGHT = np.cos(np.deg2rad(30))
_STAND_FRACTION = 0.9
_Z_ROW, _ZZ = slice(6, 9), 2
#: What is in the file for another task.
_REMOVED = (
    *(("camera", name) for name in ("ball", "head")),
    *(("geom", name) for name in ("target", "wall_px", "wall_nx", "wall_py", "wall_ny")),
    ("body", "ball"),
)


class DogRun(SuiteTask):
    """`dog-run`: a product of stand, touch and speed, to 1 at 9 m/s.

    The model has 20 MB of meshes, so it is read from the files of an installed dm_control.

    Source: dm_control/suite/dog.py.

    Raises:
        MissingExtra: there is no such package.
    """

    file = "dog.xml"
    frame_skip = 3
    reads = ("act", "qpos", "qvel", "sensordata", "xmat", "xpos")

    def __init__(self) -> None:
        model = self._compiled
        self._heights = body(model, "torso", "pelvis")
        self._upright = body(model, "skull", "torso", "pelvis")
        hinges = model.jnt_type == mujoco.mjtJoint.mjJNT_HINGE
        self._angles, self._speeds = model.jnt_qposadr[hinges], model.jnt_dofadr[hinges]
        self._velocity = sensor(model, "torso_linvel")
        self._inertial = sensor(model, "accelerometer", "velocimeter", "gyro")
        self._forces = sensor(model, "foot_L", "foot_R", "hand_L", "hand_R")
        self._touch = sensor(model, "palm_L", "palm_R", "sole_L", "sole_R")
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        # `[2]` heights of torso and pelvis in the model's own pose, which is a stand.
        self._stand = data.xpos[self._heights, 2] * _STAND_FRACTION
        mass = model.body_subtreemass[self._heights[0]]
        self._weight = float(-model.opt.gravity[2] * mass)

    @cached_property
    def _compiled(self) -> Any:
        spec = mujoco.MjSpec.from_file(str(_folder() / self.file))
        spec.geom("floor").size = [_FLOOR, _FLOOR, 0.1]
        for kind, name in _REMOVED:
            spec.delete(getattr(spec, kind)(name))
        return spec.compile()

    def draw(self, rng: np.random.Generator) -> None:
        """Leave the start to `begin`: activations are drawn too."""

    def begin(self, model: Any, data: Any, rng: np.random.Generator) -> None:
        """Draw a direction, a push, and what the muscles do."""
        _forward_at_rest(model, data)
        azimuth = rng.uniform(0, 2 * np.pi)
        # The quaternion of a turn about the vertical axis.
        data.qpos[3:7] = np.cos(azimuth / 2), 0, 0, np.sin(azimuth / 2)
        for k in (0, 1, 5):  # two directions, and a turn
            data.qvel[k] = 2 * rng.standard_normal()
        data.act[:] = rng.uniform(*model.actuator_ctrlrange.T)
        _forward_at_rest(model, data)

    def observation(self, after: Rows) -> np.ndarray:
        seen = after.sensordata
        parts = (
            after.qpos[:, self._angles],
            after.qvel[:, self._speeds],
            after.xpos[:, self._heights, 2],
            self._projection(after).reshape(len(seen), -1),
            self._torso_velocity(after),
            seen[:, self._inertial],
            seen[:, self._forces],
            seen[:, self._touch],
            after.act,
        )
        return np.concatenate(parts, axis=1)

    def reward(
        self, before: Rows, after: Rows, actions: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        heights, speed = after.xpos[:, self._heights, 2], self._torso_velocity(after)[:, 0]
        factors = [
            suite_task.gaussian(heights[:, k], stand, np.inf, stand)
            for k, stand in enumerate(self._stand.tolist())
        ]
        upright = self._projection(after)[..., _ZZ]
        standing = suite_task.linear(upright, _UPRIGHT, np.inf, _UPRIGHT + 1)
        factors += list(standing.T)
        # Picked columns lie the other way round in memory, where numpy may add in another order.
        pressed = np.ascontiguousarray(after.sensordata[:, self._touch]).sum(axis=1)
        factors.append(suite_task.linear(pressed, self._weight, np.inf, self._weight, 0.9))
        moving = suite_task.linear(speed, _RUN_SPEED, 2 * _RUN_SPEED, _RUN_SPEED)
        factors.append((4 * moving + 1) / 5)
        reward = np.prod(np.stack(factors, axis=1), axis=1)
        return reward, {"height": heights[:, 0], "speed": speed}

    def _projection(self, after: Rows) -> np.ndarray:
        """Return `[n, 3, 3]`: the axes of skull, torso and pelvis against the world's z."""
        return after.xmat[:, self._upright, _Z_ROW]

    def _torso_velocity(self, after: Rows) -> np.ndarray:
        """Return `[n, 3]`: the velocity of the centre of mass as the torso sees it."""
        count = len(after.xmat)
        torso = np.ascontiguousarray(after.xmat[:, self._heights[0]]).reshape(count, 3, 3)
        velocity = np.ascontiguousarray(after.sensordata[:, self._velocity])
        # One product of a vector with a matrix for each row, as dm_control has it.
        return np.matmul(velocity[:, None], torso)[:, 0]


def _forward_at_rest(model: Any, data: Any) -> None:
    """Find derived fields without the muscles' forces, as dm_control does at a reset."""
    flags = model.opt.disableflags
    model.opt.disableflags = flags | mujoco.mjtDisableBit.mjDSBL_ACTUATION
    mujoco.mj_forward(model, data)
    model.opt.disableflags = flags


def _folder() -> Path:
    """Return the folder of the suite's models; the package is not imported."""
    spec = importlib.util.find_spec("dm_control")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtra(
            "plangym_ext/dog-run-v0: its model and meshes are files of dm_control, which is not "
            "installed. Install it without its dependencies, beside any MuJoCo: "
            "pip install --no-deps dm-control"
        )
    return Path(spec.submodule_search_locations[0]) / "suite"
