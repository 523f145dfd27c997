"""A game on small screens, learned in minutes: `make("agent_runs.catch:Catch-v0")`."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

#: Cells of a side, each of two by two pixels; balls of an episode; screens that are seen.
SIDE, BALLS, STACK = 18, 10, 4

Screens = npt.NDArray[np.uint8]


class Catch(gym.Env[Screens, np.int64]):
    """A paddle of three cells that moves left, stays or moves right, and balls that fall.

    A ball that is caught is worth 1, another one -1: the best return is 10.
    """

    observation_space = spaces.Box(0, 255, (STACK, 2 * SIDE, 2 * SIDE), np.uint8)
    action_space = spaces.Discrete(3)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Screens, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._paddle, self._fallen = SIDE // 2, 0
        self._drop()
        self._screens = np.stack([self._screen()] * STACK)
        return self._screens, {}

    def step(self, action: np.int64) -> tuple[Screens, float, bool, bool, dict[str, Any]]:
        self._paddle = min(max(self._paddle + int(action) - 1, 0), SIDE - 1)
        self._height -= 1
        reward = 0.0
        if self._height == 0:
            reward = 1.0 if abs(self._ball - self._paddle) <= 1 else -1.0
            self._fallen += 1
            self._drop()
        self._screens = np.concatenate([self._screens[1:], self._screen()[None]])
        return self._screens, reward, self._fallen == BALLS, False, {}

    def _drop(self) -> None:
        self._ball, self._height = int(self.np_random.integers(SIDE)), SIDE - 1

    def _screen(self) -> Screens:
        cells = np.zeros((SIDE, SIDE), np.uint8)
        cells[SIDE - 1 - self._height, self._ball] = 255
        cells[-1, max(self._paddle - 1, 0) : self._paddle + 2] = 180
        return cells.repeat(2, axis=0).repeat(2, axis=1)


gym.register("Catch-v0", Catch)
