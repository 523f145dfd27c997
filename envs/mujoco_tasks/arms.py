"""Reacher and Pusher tasks on MuJoCo rows: reward for the distance to a target."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.envs.mujoco_tasks.model_task import Joints
from plangym_ext.envs.mujoco_tasks.walkers import norms
from plangym_ext.native.mujoco.task import MujocoTask, Rows


class Reacher(MujocoTask):
    """`gymnasium.envs.mujoco.reacher_v5`.

    Args:
        env: gymnasium's; its weights are read once.
    """

    reads = ("qpos", "qvel", "xpos")
    # The goal: the env holds it as an attribute, too, which a reset in a batch has to set.
    kept = slice(-2, None)

    def __init__(self, env: Any) -> None:
        self._positions, self._velocities = env.init_qpos.copy(), env.init_qvel.copy()
        self._distance_weight = env._reward_dist_weight
        self._control_weight = env._reward_control_weight
        self._tip, self._target = (env.model.body(name).id for name in ("fingertip", "target"))

    def draw(self, rng: np.random.Generator) -> Joints:
        positions = rng.uniform(-0.1, 0.1, self._positions.size) + self._positions
        goal = rng.uniform(-0.2, 0.2, 2)
        # The corners of the square are drawn again, as in the env: a row at a time.
        while np.linalg.norm(goal) >= 0.2:
            goal = rng.uniform(-0.2, 0.2, 2)
        positions[self.kept] = goal
        velocities = self._velocities + rng.uniform(-0.005, 0.005, self._velocities.size)
        # Drawn all the same: the env's generator has gone as far.
        velocities[-2:] = 0
        return positions, velocities

    def observation(self, after: Rows) -> np.ndarray:
        angles = after.qpos[:, :2]
        return np.concatenate(
            (
                np.cos(angles),
                np.sin(angles),
                after.qpos[:, 2:],
                after.qvel[:, :2],
                self._gap(after)[:, :2],
            ),
            axis=1,
        )

    def reward(
        self, before: Rows, after: Rows, actions: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        distance = -norms(self._gap(after)) * self._distance_weight
        control = -np.square(actions).sum(axis=-1) * self._control_weight
        return distance + control, {"reward_dist": distance, "reward_ctrl": control}

    def _gap(self, after: Rows) -> np.ndarray:
        gap: np.ndarray = after.xpos[:, self._tip] - after.xpos[:, self._target]
        return gap


class Pusher(MujocoTask):
    """`gymnasium.envs.mujoco.pusher_v5`.

    Args:
        env: gymnasium's; its weights are read once.
    """

    reads = ("qpos", "qvel", "xpos")
    # The thing's place, which the env holds as an attribute, too.
    kept = slice(-4, -2)

    def __init__(self, env: Any) -> None:
        self._positions, self._velocities = env.init_qpos.copy(), env.init_qvel.copy()
        self._near_weight = env._reward_near_weight
        self._distance_weight = env._reward_dist_weight
        self._control_weight = env._reward_control_weight
        names = ("tips_arm", "object", "goal")
        self._bodies = [env.model.body(name).id for name in names]

    def draw(self, rng: np.random.Generator) -> Joints:
        positions = self._positions.copy()
        place = np.zeros(2)
        while np.linalg.norm(place) <= 0.17:  # from the goal, which is in the middle
            place = np.array([rng.uniform(-0.3, 0), rng.uniform(-0.2, 0.2)])
        positions[self.kept], positions[-2:] = place, 0
        velocities = self._velocities + rng.uniform(-0.005, 0.005, self._velocities.size)
        # The thing and the goal lie still; their numbers are drawn as in the env.
        velocities[-4:] = 0
        return positions, velocities

    def observation(self, after: Rows) -> np.ndarray:
        places = [after.xpos[:, body] for body in self._bodies]
        return np.concatenate((after.qpos[:, :7], after.qvel[:, :7], *places), axis=1)

    def reward(
        self, before: Rows, after: Rows, actions: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        tip, thing, goal = (after.xpos[:, body] for body in self._bodies)
        near = -norms(thing - tip) * self._near_weight
        distance = -norms(thing - goal) * self._distance_weight
        control = -np.square(actions).sum(axis=-1) * self._control_weight
        infos = {"reward_dist": distance, "reward_ctrl": control, "reward_near": near}
        return distance + control + near, infos
