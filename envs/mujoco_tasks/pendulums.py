"""InvertedPendulum and InvertedDoublePendulum tasks on MuJoCo rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.envs.mujoco_tasks.model_task import NoisyStart
from plangym_ext.native.mujoco.task import Rows


class InvertedPendulum(NoisyStart):
    """`gymnasium.envs.mujoco.inverted_pendulum_v5`.

    Args:
        env: gymnasium's.
    """

    def observation(self, after: Rows) -> np.ndarray:
        return np.concatenate((after.qpos, after.qvel), axis=1)

    def reward(
        self, before: Rows, after: Rows, actions: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        # Whole numbers: the env's reward is an int.
        upright = (~self.terminated(after)).astype(np.int64)
        return upright, {"reward_survive": upright}

    def terminated(self, after: Rows) -> np.ndarray:
        seen = self.observation(after)
        # 0.2 radians, written into the env's step; NaN compares false, so it is asked for apart.
        fallen: np.ndarray = ~np.isfinite(seen).all(axis=1) | (np.abs(seen[:, 1]) > 0.2)
        return fallen


class InvertedDoublePendulum(NoisyStart):
    """`gymnasium.envs.mujoco.inverted_double_pendulum_v5`.

    Args:
        env: gymnasium's; its weights are read once.
    """

    reads = ("qpos", "qvel", "site_xpos", "qfrc_constraint")
    _normal_start = True

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._healthy_reward = env._healthy_reward

    def observation(self, after: Rows) -> np.ndarray:
        # The cart's place comes first, unturned, then both hinges as sine and cosine.
        angles = after.qpos[:, 1:]
        return np.concatenate(
            (
                after.qpos[:, :1],
                np.sin(angles),
                np.cos(angles),
                np.clip(after.qvel, -10, 10),
                np.clip(after.qfrc_constraint[:, :1], -10, 10),
            ),
            axis=1,
        )

    def reward(
        self, before: Rows, after: Rows, actions: np.ndarray
    ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        # The first site, in x and z: it swings in a plane.
        tip = after.site_xpos[:, 0]
        distance = 0.01 * _squares(tip[:, 0]) + _squares(tip[:, 2] - 2)
        velocity = 1e-3 * _squares(after.qvel[:, 1]) + 5e-3 * _squares(after.qvel[:, 2])
        alive = self._healthy_reward * (~self.terminated(after)).astype(np.int64)
        infos = {
            "reward_survive": alive,
            "distance_penalty": -distance,
            "velocity_penalty": -velocity,
        }
        return alive - distance - velocity, infos

    def terminated(self, after: Rows) -> np.ndarray:
        fallen: np.ndarray = after.site_xpos[:, 0, 2] <= 1
        return fallen


def _squares(values: np.ndarray) -> np.ndarray:
    """Return `value ** 2` of each, as the env has it: of single numbers, by the C library's `pow`.

    About one in a thousand differs from the product in the last bit.
    """
    return np.array([value**2 for value in values.tolist()])
