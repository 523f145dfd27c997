"""Control Suite tasks on MuJoCo rows: cheetah, hopper, walker, humanoid and acrobot."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from plangym_ext.envs.mujoco_tasks.model_task import Joints
from plangym_ext.envs.mujoco_tasks.suite import suite_task
from plangym_ext.envs.mujoco_tasks.suite.suite_task import RandomJoints, SuiteTask, body
from plangym_ext.envs.mujoco_tasks.walkers import norms
from plangym_ext.native.mujoco.task import Rows

_CHEETAH_SPEED = 10
_SETTLING_STEPS = 200
# Bodies of all tasks but acrobot; 0 is the world.
_TORSO = 1
# Of a rotation matrix, row by row.
_XX, _XZ, _ZZ, _Z_ROW = 0, 2, 8, slice(6, 9)


class CheetahRun(SuiteTask):
    """`cheetah-run`: the reward grows in a line with the speed, to 1 at 10 m/s.

    Source: dm_control/suite/cheetah.py.
    """

    file = "cheetah.xml"
    reads = ("qpos", "qvel", "sensordata")

    def draw(self, rng: np.random.Generator) -> None:
        """Leave the start to `begin`: it takes a simulation."""

    def begin(self, model: Any, data: Any, rng: np.random.Generator) -> None:
        """Draw the joints with a range, and let the cheetah fall to the ground and rest."""
        mujoco.mj_forward(model, data)
        limited = model.jnt_limited == 1
        low, high = model.jnt_range[limited].T
        data.qpos[limited] = rng.uniform(low, high)
        # As dm_control does it: the first of these steps has the forces of where it was before.
        mujoco.mj_step2(model, data)
        mujoco.mj_step(model, data, nstep=_SETTLING_STEPS - 1)
        # The fall is no part of the episode.
        data.time = 0
        mujoco.mj_forward(model, data)

    def observation(self, after: Rows) -> np.ndarray:
        return np.concatenate((after.qpos[:, 1:], after.qvel), axis=1)

    def reward(
        self, before: Rows, after: Rows, actions: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        speed = after.sensordata[:, 0]
        return suite_task.linear(speed, _CHEETAH_SPEED, np.inf, _CHEETAH_SPEED), {"speed": speed}


_HOPPER_HEIGHT, _HOPPER_MOST = 0.6, 2
_HOP_SPEED = 2
_FOOT = 5  # body


class HopperHop(RandomJoints):
    """`hopper-hop`: the torso 0.6 above the foot, and speed, to 1 at 2 m/s.

    Source: dm_control/suite/hopper.py.
    """

    file = "hopper.xml"
    frame_skip = 4
    reads = ("qpos", "qvel", "sensordata", "xipos")

    def observation(self, after: Rows) -> np.ndarray:
        # The first three are the velocity of the centre of mass, the others touch sensors.
        touch = np.log1p(after.sensordata[:, 3:])
        return np.concatenate((after.qpos[:, 1:], after.qvel, touch), axis=1)

    def reward(
        self, before: Rows, after: Rows, actions: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        # Of the centres of mass (`xipos`), as in the suite, not of the bodies' frames.
        height = after.xipos[:, _TORSO, 2] - after.xipos[:, _FOOT, 2]
        speed = after.sensordata[:, 0]
        standing = suite_task.within(height, _HOPPER_HEIGHT, _HOPPER_MOST)
        hopping = suite_task.linear(speed, _HOP_SPEED, np.inf, _HOP_SPEED / 2, 0.5)
        return standing * hopping, {"height": height, "speed": speed}


_WALKER_HEIGHT = 1.2
_WALKER_SPEED = 8


class WalkerRun(RandomJoints):
    """`walker-run`: a product of height and upright torso with speed, to 1 at 8 m/s.

    Source: dm_control/suite/walker.py.
    """

    file = "walker.xml"
    frame_skip = 10
    reads = ("qvel", "sensordata", "xmat", "xpos")

    def observation(self, after: Rows) -> np.ndarray:
        turned = after.xmat[:, 1:, [_XX, _XZ]].reshape(len(after.xmat), -1)
        height = after.xpos[:, _TORSO, 2:]
        return np.concatenate((turned, height, after.qvel), axis=1)

    def reward(
        self, before: Rows, after: Rows, actions: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        height, speed = after.xpos[:, _TORSO, 2], after.sensordata[:, 0]
        standing = suite_task.gaussian(height, _WALKER_HEIGHT, np.inf, _WALKER_HEIGHT / 2)
        upright = (1 + after.xmat[:, _TORSO, _ZZ]) / 2
        stands = (3 * standing + upright) / 4
        moving = suite_task.linear(speed, _WALKER_SPEED, np.inf, _WALKER_SPEED / 2, 0.5)
        return stands * (5 * moving + 1) / 6, {"height": height, "speed": speed}


_HUMANOID_HEIGHT = 1.4
_HUMANOID_SPEED = 10
_HEAD = 2  # body


class HumanoidRun(RandomJoints):
    """`humanoid-run`: a product of stand, control and speed, to 1 at 10 m/s.

    Source: dm_control/suite/humanoid.py.
    """

    file = "humanoid.xml"
    frame_skip = 5
    reads = ("ctrl", "qpos", "qvel", "sensordata", "xmat", "xpos")

    def __init__(self) -> None:
        names = (f"{side}_{limb}" for side in ("left", "right") for limb in ("hand", "foot"))
        self._limbs = body(self._compiled, *names)

    def draw(self, rng: np.random.Generator) -> None:
        """Leave the start to `begin`: whether it will do takes a simulation to say."""

    def begin(self, model: Any, data: Any, rng: np.random.Generator) -> None:
        """Draw joints until nothing touches anything."""
        places, low, high = self._ranges
        mujoco.mj_forward(model, data)
        touching = True
        while touching:
            # As in the suite: numbers from [0, 1) reach one orthant of the directions alone.
            turned = rng.random(4)
            data.qpos[3:7] = turned / np.linalg.norm(turned)
            data.qpos[places] = rng.uniform(low, high)
            mujoco.mj_forward(model, data)
            touching = data.ncon > 0
        mujoco.mj_forward(model, data)

    def observation(self, after: Rows) -> np.ndarray:
        count = len(after.xpos)
        torso = np.ascontiguousarray(after.xmat[:, _TORSO]).reshape(count, 1, 3, 3)
        reach = after.xpos[:, self._limbs] - after.xpos[:, _TORSO, None]
        # One product of a vector with a matrix for each limb, as dm_control has it.
        limbs = np.matmul(reach[:, :, None], torso).reshape(count, -1)
        parts = (
            after.qpos[:, 7:],
            after.xpos[:, _HEAD, 2:],
            limbs,
            after.xmat[:, _TORSO, _Z_ROW],
            after.sensordata[:, :3],
            after.qvel,
        )
        return np.concatenate(parts, axis=1)

    def reward(
        self, before: Rows, after: Rows, actions: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        height = after.xpos[:, _HEAD, 2]
        standing = suite_task.gaussian(height, _HUMANOID_HEIGHT, np.inf, _HUMANOID_HEIGHT / 4)
        upright = suite_task.linear(after.xmat[:, _TORSO, _ZZ], 0.9, np.inf, 1.9)
        small_control = (4 + suite_task.quadratic(after.ctrl, 1).mean(axis=1)) / 5
        # The first two numbers are the centre of mass's velocity along the ground.
        speed = norms(np.ascontiguousarray(after.sensordata[:, :2]))
        moving = (5 * suite_task.linear(speed, _HUMANOID_SPEED, np.inf, _HUMANOID_SPEED) + 1) / 6
        return small_control * (standing * upright) * moving, {"height": height, "speed": speed}


_TARGET, _TIP = 0, 1  # sites
_TARGET_RADIUS = 0.2
_ARMS = slice(1, 3)  # bodies; 0 is the world


class AcrobotSwingup(SuiteTask):
    """`acrobot-swingup`: a bell curve around the tip's highest place.

    Source: dm_control/suite/acrobot.py.
    """

    file = "acrobot.xml"
    reads = ("qvel", "site_xpos", "xmat")

    def draw(self, rng: np.random.Generator) -> Joints:
        return rng.uniform(-np.pi, np.pi, 2), np.zeros(2)

    def observation(self, after: Rows) -> np.ndarray:
        arms = after.xmat[:, _ARMS]
        return np.concatenate((arms[..., _XZ], arms[..., _ZZ], after.qvel), axis=1)

    def reward(
        self, before: Rows, after: Rows, actions: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        distance = norms(after.site_xpos[:, _TARGET] - after.site_xpos[:, _TIP])
        return suite_task.gaussian(distance, 0, _TARGET_RADIUS, 1), {"distance": distance}
