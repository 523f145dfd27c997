"""CartPole and Pendulum with velocities hidden: partially observed envs that need memory.

State: that of the env inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control import CartPoleEnv, PendulumEnv
from numpy.typing import NDArray


class NoVelocity(
    gym.ObservationWrapper[NDArray[np.float32], Any, NDArray[np.float32]],
    gym.utils.RecordConstructorArgs,
):
    """Shows some numbers of an observation, and not the others.

    Args:
        env: observes a vector.
        shown: indices of what is shown.
    """

    def __init__(self, env: gym.Env[NDArray[np.float32], Any], shown: Sequence[int]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, shown=tuple(shown))
        gym.ObservationWrapper.__init__(self, env)
        self._shown = list(shown)
        space: Any = env.observation_space
        low, high = space.low[self._shown], space.high[self._shown]
        self.observation_space = gym.spaces.Box(low, high, dtype=space.dtype.type)

    def observation(self, observation: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return `[len(shown)]`, fresh."""
        # A list picks copies: a slice would be a view of the env's own array.
        return observation[self._shown]


def cartpole(**kwargs: Any) -> NoVelocity:
    """Return a CartPole that shows its cart's position and its pole's angle, `[2]`."""
    return NoVelocity(CartPoleEnv(**kwargs), shown=(0, 2))


def pendulum(**kwargs: Any) -> NoVelocity:
    """Return a Pendulum that shows cosine and sine of its angle, `[2]`."""
    return NoVelocity(PendulumEnv(**kwargs), shown=(0, 1))
