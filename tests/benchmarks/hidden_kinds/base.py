"""The env that hides a number: where, its subclasses say; when it shows, its argument."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

#: When the hidden number shows -> steps of an episode.
WHENS = {
    "always": 60,
    "step 20": 60,
    "step 200": 400,
    "step 2,000": 3000,
    "episode 6": 20,
    "ending": 40,
    "held": 60,
    "reset": 30,
    "reward": 60,
    "info": 60,
    "length": 60,
    "never": 60,
}
#: Those that the proof's steps come to.
EARLY = ("always", "step 20", "step 200", "episode 6", "ending", "reset", "reward", "info")


def mixed(value: int, action: int) -> int:
    """Return the hidden number that follows one, by an action."""
    return (value * 31 + action + 7) % 1009


class Hidden(gym.Env[Any, Any]):
    """Counts its steps, and shows a number that is kept somewhere.

    Args:
        when: the number shows, of `WHENS`.
    """

    observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float64)
    #: What a refusal has to name, as a regular expression.
    named = ""

    def __init__(self, when: str = "always") -> None:
        self.action_space = gym.spaces.Discrete(3)
        self.when, self.length = when, WHENS[when]
        self.t, self.x, self.episode, self.same, self.last = 0, 0.0, 0, 0, -1
        self.begin()

    def begin(self) -> None:
        """Make the place where the number is kept."""

    def turn(self, action: int) -> Any:
        """Advance the number that is kept, and return it."""
        raise NotImplementedError

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        """Begin an episode; the number goes on."""
        super().reset(seed=seed)
        self.t, self.x, self.same, self.last = 0, 0.0, 0, -1
        self.episode += 1
        return self._obs(self.turn(1) if self.when == "reset" else 0), {}

    def step(self, action: Any) -> Any:
        """Turn the number once."""
        action = int(action)
        self.t += 1
        self.same = self.same + 1 if action == self.last else 0
        self.last = action
        value = float(self.turn(action))
        self.x += action * self.np_random.random()
        ended = self.t >= self.length
        shows = {
            "always": True,
            "step 20": self.t >= 20,
            "step 200": self.t >= 200,
            "step 2,000": self.t >= 2000,
            "episode 6": self.episode >= 6,
            "ending": ended,
            "held": self.same >= 8,
        }.get(self.when, False)
        if self.when == "length" and self.t > 20 and value % 17 < 1:
            ended = True
        reward = value if self.when == "reward" else 1.0
        info = {"hidden": value} if self.when == "info" else {}
        return self._obs(value if shows else 0.0), reward, ended, False, info

    def _obs(self, value: Any) -> Any:
        return np.array([self.t, self.x, float(value)], np.float64)
