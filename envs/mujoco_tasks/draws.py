"""Random initial states of gymnasium's MuJoCo tasks, drawn in gymnasium's order."""

from __future__ import annotations

from typing import Any

import numpy as np

Joints = tuple[np.ndarray, np.ndarray]


class NoisyStart:
    """Noise on the joints at which the model begins.

    Args:
        env: gymnasium's, with `_reset_noise_scale`.
        normal: whether velocities have normal noise, rather than uniform as positions.
    """

    def __init__(self, env: Any, *, normal: bool = False) -> None:
        self._positions, self._velocities = env.init_qpos.copy(), env.init_qvel.copy()
        self._scale, self._normal = env._reset_noise_scale, normal

    def __call__(self, rng: np.random.Generator) -> Joints:
        low, high = -self._scale, self._scale
        # Positions before velocities: another order would give each the other's numbers.
        positions = self._positions + rng.uniform(low, high, self._positions.size)
        size = self._velocities.size
        if self._normal:
            return positions, self._velocities + self._scale * rng.standard_normal(size)
        return positions, self._velocities + rng.uniform(low, high, size)
