"""Humanoid and HumanoidStandup tasks on MuJoCo rows: rewards for speed or for height."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.envs.mujoco_tasks.model_task import NoisyStart
from plangym_ext.envs.mujoco_tasks.walkers import between, norms
from plangym_ext.native.mujoco.task import Rows

# Joints of the root, on which no actuator acts.
_ROOT = 6
_READS = (
    *("qpos", "qvel", "ctrl", "cinert", "cvel", "qfrc_actuator", "cfrc_ext"),
    *("ten_length", "ten_velocity"),
)


class _Humanoid(NoisyStart):
    """Common base of both tasks: the observation.

    Args:
        env: gymnasium's; its weights and ranges are read once.
    """

    reads: tuple[str, ...] = _READS
    contact_forces = True

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._control_weight = env._ctrl_cost_weight
        self._hidden = 2 if env._exclude_current_positions_from_observation else 0
        # The env compares its arguments with True itself: values that are only truthy do not count.
        self._shows_inertia = env._include_cinert_in_observation is True
        self._shows_velocity = env._include_cvel_in_observation is True
        self._shows_actuators = env._include_qfrc_actuator_in_observation is True
        self._shows_forces = env._include_cfrc_ext_in_observation is True

    def observation(self, after: Rows) -> np.ndarray:
        num_rows = len(after.qpos)
        parts = [after.qpos[:, self._hidden :], after.qvel]
        if self._shows_inertia:
            # Body 0 is the world in all that is by body.
            parts.append(after.cinert[:, 1:].reshape(num_rows, -1))
        if self._shows_velocity:
            parts.append(after.cvel[:, 1:].reshape(num_rows, -1))
        if self._shows_actuators:
            parts.append(after.qfrc_actuator[:, _ROOT:])
        if self._shows_forces:
            parts.append(after.cfrc_ext[:, 1:].reshape(num_rows, -1))
        return np.concatenate(parts, axis=1)

    def _control_cost(self, after: Rows) -> np.ndarray:
        cost: np.ndarray = self._control_weight * np.square(after.ctrl).sum(axis=-1)
        return cost

    def _contact_cost(self, after: Rows, weight: float, bounds: tuple[float, float]) -> np.ndarray:
        forces = after.cfrc_ext.reshape(len(after.cfrc_ext), -1)
        # By a range of costs, as a whole; Ant's is one of forces, clipped before they are squared.
        return np.clip(weight * np.square(forces).sum(axis=-1), *bounds)


class Humanoid(_Humanoid):
    """`gymnasium.envs.mujoco.humanoid_v5`."""

    reads = (*_READS, "xipos")
    reads_before = ("xipos",)

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._dt = env.dt
        self._masses = env.model.body_mass.copy()
        self._forward_weight = env._forward_reward_weight
        self._contact_weight = env._contact_cost_weight
        self._contact_range = env._contact_cost_range
        self._healthy_reward = env._healthy_reward
        self._heights = env._healthy_z_range
        self._ends = bool(env._terminate_when_unhealthy)

    @property
    def can_end(self) -> bool:
        return self._ends

    def reward(
        self, before: Rows, after: Rows, actions: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        velocity = (self._mass_center(after) - self._mass_center(before)) / self._dt
        forward = self._forward_weight * velocity[:, 0]
        healthy = self._healthy(after) * self._healthy_reward
        control = self._control_cost(after)
        contact = self._contact_cost(after, self._contact_weight, self._contact_range)
        infos = {
            "x_position": after.qpos[:, 0],
            "y_position": after.qpos[:, 1],
            "tendon_length": after.ten_length,
            "tendon_velocity": after.ten_velocity,
            "distance_from_origin": norms(after.qpos[:, :2]),
            "x_velocity": velocity[:, 0],
            "y_velocity": velocity[:, 1],
            "reward_survive": healthy,
            "reward_forward": forward,
            "reward_ctrl": -control,
            "reward_contact": -contact,
        }
        return forward + healthy - (control + contact), infos

    def terminated(self, after: Rows) -> np.ndarray:
        return ~self._healthy(after)

    def _mass_center(self, rows: Rows) -> np.ndarray:
        # The sum in the env's own order, which a matrix product would not keep.
        moments = np.einsum("b,nbj->nj", self._masses, rows.xipos)
        center: np.ndarray = (moments / self._masses.sum())[:, :2]
        return center

    def _healthy(self, after: Rows) -> np.ndarray:
        return between(self._heights[0], after.qpos[:, 2], self._heights[1])


class HumanoidStandup(_Humanoid):
    """`gymnasium.envs.mujoco.humanoidstandup_v5`."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._timestep = env.model.opt.timestep
        self._first_height = env.init_qpos[2]
        self._impact_weight = env._impact_cost_weight
        self._impact_range = env._impact_cost_range

    def reward(
        self, before: Rows, after: Rows, actions: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        height = after.qpos[:, 2]
        # As the env writes it: a height over one simulation step, not the rise in a step.
        rise = (height - 0) / self._timestep
        control = self._control_cost(after)
        impact = self._contact_cost(after, self._impact_weight, self._impact_range)
        infos = {
            "x_position": after.qpos[:, 0],
            "y_position": after.qpos[:, 1],
            "z_distance_from_origin": height - self._first_height,
            "tendon_length": after.ten_length,
            "tendon_velocity": after.ten_velocity,
            "reward_linup": rise,
            "reward_quadctrl": -control,
            "reward_impact": -impact,
        }
        return rise - control - impact + 1, infos
