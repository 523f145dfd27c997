"""HalfCheetah, Hopper, Walker2d and Swimmer tasks on MuJoCo rows: reward for speed."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.envs.mujoco_tasks.model_task import NoisyStart
from plangym_ext.native.mujoco.task import Rows


def between(low: float, values: np.ndarray, high: float) -> np.ndarray:
    """Return bool of the values' shape: whether they lie strictly between two bounds."""
    # NaN compares false: a simulation that has blown up is outside.
    inside: np.ndarray = (low < values) & (values < high)
    return inside


def norms(vectors: np.ndarray) -> np.ndarray:
    """Return Euclidean norms of the rows of `[n, d]`, as `np.linalg.norm` finds that of one.

    Of one vector it takes a dot product, which may round otherwise than a sum of squares.
    """
    squares: np.ndarray = np.vecdot(vectors, vectors)
    return np.sqrt(squares)


class _Runner(NoisyStart):
    """Common base of the tasks with a speed along x.

    Args:
        env: gymnasium's; its weights and ranges are read once.
    """

    reads_before = ("qpos",)
    #: Positions that an observation may leave out.
    _num_hidden = 1

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._dt = env.dt
        self._forward_weight = env._forward_reward_weight
        self._control_weight = env._ctrl_cost_weight
        hides = env._exclude_current_positions_from_observation
        self._hidden = self._num_hidden if hides else 0

    def observation(self, after: Rows) -> np.ndarray:
        return np.concatenate((after.qpos[:, self._hidden :], after.qvel), axis=1)

    def _speed(self, before: Rows, after: Rows) -> np.ndarray:
        # `qpos` and not `xpos`, which is older by a simulation step: as each env has it.
        speed: np.ndarray = (after.qpos[:, 0] - before.qpos[:, 0]) / self._dt
        return speed

    def _control_cost(self, actions: np.ndarray) -> np.ndarray:
        cost: np.ndarray = self._control_weight * np.square(actions).sum(axis=-1)
        return cost


class HalfCheetah(_Runner):
    """`gymnasium.envs.mujoco.half_cheetah_v5`."""

    _normal_start = True

    def reward(
        self, before: Rows, after: Rows, actions: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        speed = self._speed(before, after)
        forward = self._forward_weight * speed
        control = self._control_cost(actions)
        infos = {
            "x_position": after.qpos[:, 0],
            "x_velocity": speed,
            "reward_forward": forward,
            "reward_ctrl": -control,
        }
        return forward - control, infos


class Swimmer(_Runner):
    """`gymnasium.envs.mujoco.swimmer_v5`."""

    _num_hidden = 2

    def reward(
        self, before: Rows, after: Rows, actions: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        place = after.qpos[:, :2]
        velocity = (place - before.qpos[:, :2]) / self._dt
        forward = self._forward_weight * velocity[:, 0]
        control = self._control_cost(actions)
        infos = {
            "x_position": place[:, 0],
            "y_position": place[:, 1],
            "distance_from_origin": norms(place),
            "x_velocity": velocity[:, 0],
            "y_velocity": velocity[:, 1],
            "reward_forward": forward,
            "reward_ctrl": -control,
        }
        return forward - control, infos


class Walker2d(_Runner):
    """`gymnasium.envs.mujoco.walker2d_v5`."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._healthy_reward = env._healthy_reward
        self._ends = bool(env._terminate_when_unhealthy)
        self._heights, self._angles = env._healthy_z_range, env._healthy_angle_range
        self._first_height = env.init_qpos[1]

    @property
    def can_end(self) -> bool:
        return self._ends

    def observation(self, after: Rows) -> np.ndarray:
        # In what is observed alone: rewards and endings read the velocities as they are.
        speeds = np.clip(after.qvel, -10, 10)
        return np.concatenate((after.qpos[:, self._hidden :], speeds), axis=1)

    def reward(
        self, before: Rows, after: Rows, actions: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        speed = self._speed(before, after)
        forward = self._forward_weight * speed
        healthy = self._healthy(after) * self._healthy_reward
        control = self._control_cost(actions)
        infos = {
            "x_position": after.qpos[:, 0],
            "z_distance_from_origin": after.qpos[:, 1] - self._first_height,
            "x_velocity": speed,
            "reward_forward": forward,
            "reward_ctrl": -control,
            "reward_survive": healthy,
        }
        return forward + healthy - control, infos

    def terminated(self, after: Rows) -> np.ndarray:
        return ~self._healthy(after)

    def _healthy(self, after: Rows) -> np.ndarray:
        upright = between(self._angles[0], after.qpos[:, 2], self._angles[1])
        return upright & between(self._heights[0], after.qpos[:, 1], self._heights[1])


class Hopper(Walker2d):
    """`gymnasium.envs.mujoco.hopper_v5`."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._states = env._healthy_state_range

    def _healthy(self, after: Rows) -> np.ndarray:
        low, high = self._states
        # All but the first two positions.
        inside = between(low, after.qpos[:, 2:], high).all(axis=1)
        inside &= between(low, after.qvel, high).all(axis=1)
        return inside & super()._healthy(after)


# Ant task on MuJoCo rows ------------------------------------------------------


class Ant(NoisyStart):
    """`gymnasium.envs.mujoco.ant_v5`.

    Args:
        env: gymnasium's; its weights and ranges are read once.
    """

    reads = ("qpos", "qvel", "xpos", "cfrc_ext")
    # As in the env, the speed is of `xpos`, which is older than `qpos` by a simulation step.
    reads_before = ("xpos",)
    contact_forces = True
    _normal_start = True

    def __init__(self, env: Any) -> None:
        super().__init__(env)
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
