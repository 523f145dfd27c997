"""Reacher and Pusher: paid for bringing one thing close to another."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.envs.mujoco_tasks.walkers import norms
from plangym_ext.native.mujoco_task import MujocoTask, Rows


class Reacher(MujocoTask):
    """`gymnasium.envs.mujoco.reacher_v5`.

    Args:
        env: gymnasium's; its weights are read once.
    """

    reads = ("qpos", "qvel", "xpos")

    def __init__(self, env: Any) -> None:
        self._distance_weight = env._reward_dist_weight
        self._control_weight = env._reward_control_weight
        self._tip, self._target = (env.model.body(name).id for name in ("fingertip", "target"))

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

    def __init__(self, env: Any) -> None:
        self._near_weight = env._reward_near_weight
        self._distance_weight = env._reward_dist_weight
        self._control_weight = env._reward_control_weight
        names = ("tips_arm", "object", "goal")
        self._bodies = [env.model.body(name).id for name in names]

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
