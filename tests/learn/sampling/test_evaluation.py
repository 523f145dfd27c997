"""`EvaluationSampler` plays exactly the episodes that were asked for, whatever their length."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from sampling_envs import Games, Oracle, Tally, assert_same, cartpole_rows, copied, oracle_venv

from plangym_ext import make_vec
from plangym_ext.errors import InvalidObservation, InvalidOption
from plangym_ext.learn.agents.agent import Acted, Agent, RandomAgent
from plangym_ext.learn.sampling.evaluation import EvaluationSampler
from plangym_ext.learn.sampling.local import SerialSampler


def evaluated(num_envs, num_episodes=7, backend="serial", **options):
    venv = cartpole_rows(range(num_envs), backend)
    agent = RandomAgent(venv.single_action_space)
    with EvaluationSampler(venv, agent, num_episodes, **options) as sampler:
        return sampler.evaluate()


def test_the_episodes_do_not_depend_on_the_number_of_envs():
    wanted = evaluated(1)
    assert len(set(wanted.episodes["length"].tolist())) > 3
    for num_envs, backend in ((2, "serial"), (3, "kernel"), (7, "serial"), (9, "kernel")):
        found = evaluated(num_envs, backend=backend)
        for name, column in wanted.episodes.items():
            np.testing.assert_array_equal(found.episodes[name], column, err_msg=name)
        assert found.cost.model_steps == wanted.cost.model_steps == column_sum(wanted)


def column_sum(found):
    return found.episodes["length"].sum()


def test_more_episodes_begin_with_the_same_ones():
    few, many = evaluated(2, 3).episodes, evaluated(2, 8).episodes
    np.testing.assert_array_equal(many["return"][:3], few["return"])
    assert (evaluated(2, 8, seed=1).episodes["return"] != many["return"]).any()


def test_no_more_episodes_are_played_than_were_asked_for():
    # parllel plays 6 episodes of 4 steps in 3 envs where 4 are asked for.
    class Fours(Oracle):
        length = 4

    with EvaluationSampler(oracle_venv(3, Fours), Tally(), 4) as sampler:
        found = sampler.evaluate()
    assert found.episodes["length"].tolist() == [4] * 4
    assert found.cost.model_steps == 16


def test_every_evaluation_begins_with_new_episodes():
    # rlplay goes on in the middle of the one before.
    venv = cartpole_rows(range(2))
    agent = RandomAgent(venv.single_action_space)
    with EvaluationSampler(venv, agent, 5, max_steps=8) as sampler:
        first, second = sampler.evaluate(), sampler.evaluate()
        other = sampler.evaluate(seed=9)
    np.testing.assert_array_equal(first.episodes["return"], second.episodes["return"])
    assert first.episodes["length"].max() == 8
    assert not first.episodes["terminated"][first.episodes["length"] == 8].all()
    assert other.version == 0


def test_the_agent_plays_its_best_and_its_mode_is_put_back():
    class Modal(Agent):
        def step(self, inputs, carry):
            ok = self.mode == "eval"
            return Acted(np.full(len(inputs.first), 1 if ok else 0), {}, carry)

    agent = Modal()
    agent.set_mode("train")
    check = []

    class Checking(Oracle):
        def step(self, action):
            check.append(int(action))
            return super().step(action)

    with EvaluationSampler(oracle_venv(2, Checking), agent, 3) as sampler:
        check.clear()  # of steps that looked for the way in which states are captured
        sampler.evaluate()
        assert agent.mode == "train"
    assert set(check) == {1}


def test_agents_are_shown_what_they_would_be_shown_in_training():
    shown = []

    class Watching(Tally):
        def step(self, inputs, carry):
            if inputs.obs[:, 2].any() or shown:
                shown.append([np.array(part) for part in inputs[:4]])
            return super().step(inputs, carry)

    with EvaluationSampler(oracle_venv(2), Watching(), 8) as sampler:
        sampler.evaluate()
    for obs, action, reward, first in shown:
        np.testing.assert_array_equal(first, obs[:, 2] == 0)
        assert not action[first].any()
        assert not reward[first].any()
        assert (reward[~first] > 0).all()


def test_training_is_not_disturbed():
    def trained(evaluate):
        agent = Tally()
        with (
            SerialSampler(oracle_venv(3), agent, 5) as sampler,
            EvaluationSampler(oracle_venv(2), agent, 4) as other,
        ):
            found = []
            for _ in range(4):
                found.append(copied(sampler.collect().data))
                if evaluate:
                    other.evaluate()
            return found

    for one, two in zip(trained(True), trained(False), strict=True):
        assert_same(one, two)


def test_a_game_of_several_lives_is_one_episode():
    venv = oracle_venv(2, Games)
    with EvaluationSampler(venv, Tally(), 6, episode_fields=("score",)) as sampler:
        episodes = sampler.evaluate().episodes
    assert (episodes["score"] % 2 == 1).all()
    missing = EvaluationSampler(oracle_venv(2), Tally(), 6, episode_fields=("score",))
    with missing as sampler, pytest.raises(InvalidObservation, match="names the info 'score'"):
        sampler.evaluate()


class Lives(gym.Env):
    """A life is lost with every fifth step; the game is over with the fifteenth."""

    observation_space = gym.spaces.Box(-1.0, 1e3, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    over = True

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.over or seed is not None:
            self.time, self.over = 0, False
        return np.array([self.time], np.float32), {"game_over": False}

    def step(self, action):
        self.time += 1
        self.over = self.time >= 15
        seen = np.array([self.time], np.float32)
        return seen, 1.0, self.time % 5 == 0, False, {"game_over": self.over}


@pytest.mark.parametrize("limit", [4, 5, 7, 10, 15, None])
def test_a_game_that_is_cut_where_a_life_is_lost_was_not_terminated(limit):
    venv = make_vec(Lives, 2, autoreset_mode="same_step")
    with EvaluationSampler(venv, RandomAgent(venv.single_action_space), 3, max_steps=limit) as one:
        episodes = one.evaluate().episodes
    assert (episodes["length"] == (limit or 15)).all()
    assert (episodes["terminated"] == (limit in (15, None))).all()


@pytest.mark.parametrize("options", [{"num_episodes": 0}, {"max_steps": 0}, {"seed": -1}])
def test_options_that_cannot_be(options):
    (name,) = options
    with oracle_venv() as venv, pytest.raises(InvalidOption, match=name):
        EvaluationSampler(venv, Tally(), **{"num_episodes": 3, **options})
