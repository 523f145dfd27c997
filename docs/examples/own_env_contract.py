"""An env of one's own, and the tests of `plangym_ext.testing` for it."""

import gymnasium
import numpy as np
import pytest

from plangym_ext.testing import EnvContract


class Corridor(gymnasium.Env):
    """Walk to one of the ends of a corridor; wind pushes now and then."""

    observation_space = gymnasium.spaces.Box(-5, 5, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self._obs(), {}

    def step(self, action):
        wind = self.np_random.integers(-1, 2)
        self.place = int(np.clip(self.place + 2 * int(action) - 1 + wind, -5, 5))
        return self._obs(), float(self.place == 5), abs(self.place) == 5, False, {}

    def _obs(self):
        return np.array([self.place], np.float32)


class TestCorridor(EnvContract):
    """Seven tests, with bytes of observations, rewards, endings, infos and states compared."""

    name = Corridor
    seeds = (0, 1, 2)


if __name__ == "__main__":
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=prepend"]
    raise SystemExit(pytest.main([__file__, *options]))
