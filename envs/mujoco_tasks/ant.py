"""Ant task on MuJoCo rows: observation, reward for forward speed, termination."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.envs.mujoco_tasks.draws import Joints, NoisyStart
from plangym_ext.envs.mujoco_tasks.walkers import norms
from plangym_ext.native.mujoco.task import MujocoTask, Rows


class Ant(MujocoTask):
    """`gymnasium.envs.mujoco.ant_v5`.

    Args:
        env: gymnasium's; its weights and ranges are read once.
    """

    reads = ("qpos", "qvel", "xpos", "cfrc_ext")
    # As in the env, the speed is of `xpos`, which is older than `qpos` by a simulation step.
    reads_before = ("xpos",)
    contact_forces = True

    def __init__(self, env: Any) -> None:
        self._start = NoisyStart(env, normal=True)
        self._dt = env.dt
        self._body = env.model.body(env._main_body).id
        self._forward_weight = env._forward_reward_weight
        self._control_weight = env._ctrl_cost_weight
        self._contact_weight = env._contact_cost_weight
        self._forces = env._contact_force_range
        self._healthy_reward = env._healthy_reward
        self._heights = env._healthy_z_range
        self._ends = bool(env._terminate_when_unhealthy)
        self._hidden = 2 if env._exclude_current_positions_from_observation else 0  # x and y
        self._shows_forces = env._include_cfrc_ext_in_observation

    def draw(self, rng: np.random.Generator) -> Joints:
        return self._start(rng)

    @property
    def can_end(self) -> bool:
        return self._ends

    def observation(self, after: Rows) -> np.ndarray:
        parts = [after.qpos[:, self._hidden :], after.qvel]
        if self._shows_forces:
            # Body 0 is the world, which the env leaves out of what is seen.
            forces = self._contact_forces(after)[:, 1:]
            parts.append(forces.reshape(len(forces), -1))
        return np.concatenate(parts, axis=1)

    def reward(
        self, before: Rows, after: Rows, actions: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        place = after.xpos[:, self._body, :2]
        velocity = (place - before.xpos[:, self._body, :2]) / self._dt
        forward = velocity[:, 0] * self._forward_weight
        healthy = self._healthy(after) * self._healthy_reward
        control = self._control_weight * np.square(actions).sum(axis=-1)
        forces = self._contact_forces(after).reshape(len(actions), -1)
        contact = self._contact_weight * np.square(forces).sum(axis=-1)
        infos = {
            "x_position": after.qpos[:, 0],
            "y_position": after.qpos[:, 1],
            "distance_from_origin": norms(after.qpos[:, :2]),
            "x_velocity": velocity[:, 0],
            "y_velocity": velocity[:, 1],
            "reward_forward": forward,
            "reward_ctrl": -control,
            "reward_contact": -contact,
            "reward_survive": healthy,
        }
        # The costs first, as in the env: floats do not associate.
        return forward + healthy - (control + contact), infos

    def terminated(self, after: Rows) -> np.ndarray:
        return ~self._healthy(after)

    def _contact_forces(self, after: Rows) -> np.ndarray:
        return np.clip(after.cfrc_ext, *self._forces)

    def _healthy(self, after: Rows) -> np.ndarray:
        low, high = self._heights
        height = after.qpos[:, 2]
        healthy: np.ndarray = (low <= height) & (height <= high)
        # A simulation that has blown up has NaN anywhere; the height alone need not show it.
        healthy &= np.isfinite(after.qpos).all(axis=1)
        healthy &= np.isfinite(after.qvel).all(axis=1)
        return healthy
