"""Lives that cost points."""

import gymnasium as gym
import numpy as np
import pytest
from contract.env_contract import EnvContract

import plangym_ext
from plangym_ext.envs.atari.episodic_life import LifePenalty
from plangym_ext.errors import InvalidOption


class Lives(gym.Env):
    """Loses a life every third step, two at once with the sixth; pays 1 a step."""

    observation_space = gym.spaces.Box(0, 1000, (1,), np.int64)
    action_space = gym.spaces.Discrete(2)

    def _lives(self):
        return 5 - self.steps // 3 - self.steps // 6

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.array([0]), {"lives": self._lives()}

    def step(self, action):
        self.steps += 1
        return np.array([self.steps]), 1.0, False, False, {"lives": self._lives()}


def test_each_lost_life_costs_once():
    env = LifePenalty(Lives(), 10)
    env.reset(seed=0)
    steps = [env.step(0) for _ in range(7)]
    assert [step[1] for step in steps] == [1, 1, -9, 1, 1, -19, 1]
    assert {step[4]["score_reward"] for step in steps} == {1.0}
    env.reset()
    assert env.step(0)[1] == 1


@pytest.mark.parametrize("penalty", [-1, np.nan, "much"])
def test_a_bad_penalty_is_named(penalty):
    with pytest.raises(InvalidOption, match=r"life_penalty must be a finite number >= 0; got"):
        LifePenalty(Lives(), penalty)


@pytest.mark.slow
class TestBreakout(EnvContract):
    name = "ALE/Breakout-v5"
    options = {"obs_type": "ram", "life_penalty": 50}  # noqa: RUF012
    stranger = "ALE/Pong-v5"


@pytest.mark.slow
def test_states_of_another_penalty_are_not_exchanged():
    with (
        plangym_ext.make("ALE/Breakout-v5", obs_type="ram", life_penalty=1) as env,
        plangym_ext.make("ALE/Breakout-v5", obs_type="ram", life_penalty=2) as other,
    ):
        state, _, _ = env.reset(seed=0)
        with pytest.raises(plangym_ext.errors.ForeignState):
            other.set_state(state)


@pytest.mark.slow
def test_a_life_is_lost_in_breakout_and_costs():
    with plangym_ext.make("ALE/Breakout-v5", obs_type="ram", life_penalty=50) as env:
        env.reset(seed=0)
        found = [env.step(1) for _ in range(60)]
    costs = [step.info["score_reward"] - step.reward for step in found]
    assert sum(costs) == 50 * (5 - found[-1].info["lives"]) > 0
