"""Episodes that end with a life, in games that go on."""

import gymnasium as gym
import numpy as np
import pytest
from contract.env_contract import EnvContract

import plangym_ext
from plangym_ext.envs.atari.episodic_life import EpisodicLife
from plangym_ext.errors import UnknownName


class Lives(gym.Env):
    """Loses a life every third step and is over without any; the obs counts steps."""

    observation_space = gym.spaces.Box(0, 1000, (1,), np.int64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, limit=1000):
        self.limit = limit

    def _result(self):
        return np.array([self.steps]), {"lives": 3 - self.steps // 3}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._result()

    def step(self, action):
        self.steps += 1
        obs, info = self._result()
        return obs, 1.0, info["lives"] == 0, self.steps == self.limit, info


def play(env, count):
    """(steps of the game, terminated, truncated, lost a life, game over) of each step."""
    found = []
    for _ in range(count):
        obs, _, terminated, truncated, info = env.step(0)
        found.append((obs[0], terminated, truncated, info["lost_life"], info["game_over"]))
    return found


def test_lost_life_ends_the_episode_and_the_game_goes_on():
    env = EpisodicLife(Lives())
    env.reset(seed=0)
    going, lost, over = (False,) * 4, (True, False, True, False), (True, False, True, True)
    assert play(env, 3) == [(1, *going), (2, *going), (3, *lost)]
    obs, info = env.reset()
    assert obs[0] == 4  # one no-op, to have an observation
    assert (info["lives"], info["lost_life"], info["game_over"]) == (2, False, False)
    assert play(env, 2) == [(5, *going), (6, *lost)]
    env.reset()
    assert play(env, 2) == [(8, *going), (9, *over)]
    assert env.reset()[0][0] == 0


def test_game_is_reset_by_a_seed_a_limit_and_an_ending_no_op():
    env = EpisodicLife(Lives(limit=4))
    env.reset(seed=0)
    play(env, 1)
    assert env.reset(seed=1)[0][0] == 0
    assert env.reset(options={"any": 1})[0][0] == 0
    assert play(env, 3)[-1] == (3, True, False, True, False)
    # The no-op is the fourth step, which the limit cuts off.
    assert env.reset()[0][0] == 0
    play(env, 2)
    env.unwrapped.limit = 3
    assert play(env, 1) == [(3, True, True, True, True)]
    assert env.reset()[0][0] == 0


@pytest.mark.slow
class TestBreakout(EnvContract):
    name = "ALE/Breakout-v5"
    options = {"obs_type": "ram", "episodic_life": True}  # noqa: RUF012
    stranger = "ALE/Pong-v5"


@pytest.mark.slow
def test_states_with_and_without_are_not_exchanged():
    with (
        plangym_ext.make("ALE/Breakout-v5", obs_type="ram", episodic_life=True) as env,
        plangym_ext.make("ALE/Breakout-v5", obs_type="ram") as other,
    ):
        infos = env.step_batch([0], env.reset(seed=0)[0][None]).infos
        assert infos["lost_life"].tolist() == [False]
        with pytest.raises(plangym_ext.errors.ForeignState):
            other.set_state(env.get_state())


@pytest.mark.slow
def test_misspelt_option_is_one_clear_line():
    with pytest.raises(UnknownName, match=r"no option 'episodic_lif'.*did you mean 'episodic_li"):
        plangym_ext.make("ALE/Breakout-v5", episodic_lif=True)
    with pytest.raises(UnknownName, match=r"CartPole-v1 has no option 'episodic_life'$"):
        plangym_ext.make("CartPole-v1", episodic_life=True)
