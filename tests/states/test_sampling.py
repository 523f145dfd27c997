"""Envs are tried with actions that they allow."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import plangym_ext
from plangym_ext.errors import WrongKind
from plangym_ext.states.trials.sampling import checked_reset, sampled


class Strict(gym.Env):
    """Raises on what its masks forbid: action 2, and 0 in odd steps."""

    observation_space = spaces.Box(0, 100, (1,), np.float64)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1), self._info()

    def _info(self):
        return {"action_mask": np.array([self.t % 2 == 0, 1, 0], np.int8)}

    def step(self, action):
        if not self._info()["action_mask"][action]:
            raise ValueError("illegal move")
        self.t += 1
        return np.full(1, self.t), 0.0, self.t >= 30, False, self._info()


@pytest.mark.parametrize("options", [{}, {"check": False}, {"n_workers": 1}], ids=str)
def test_an_env_that_refuses_moves_is_tried_with_others(options):
    with plangym_ext.make(Strict, **options) as env:
        assert env.tells_masks
        state, *_ = env.reset(seed=0)
        assert env.step_batch([1], state[None]).obs.tolist() == [[1.0]]


def test_only_masks_of_all_actions_are_heeded():
    space = spaces.Discrete(3)
    assert {int(sampled(space, {"action_mask": [0, 0, 1]})) for _ in range(20)} == {2}
    for info in ({}, {"action_mask": None}, {"action_mask": [0, 1]}, {"action_mask": [0] * 3}, 5):
        assert len({int(sampled(space, info)) for _ in range(100)}) == 3
    pair = spaces.MultiDiscrete([2, 2])
    assert pair.contains(sampled(pair, {"action_mask": [1, 0]}))


def test_a_reset_of_the_old_gym_has_no_info_and_is_refused():
    env = gym.Env()
    assert checked_reset(env, (0, {"a": 1})) == (0, {"a": 1})
    assert checked_reset(env, (0, None)) == (0, None)
    with pytest.raises(WrongKind, match="reset must return"):
        checked_reset(env, np.zeros(2))
