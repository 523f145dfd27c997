"""What does not fit is refused before anything is started, and says what does."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces
from sampling_envs import Games, Oracle, Tally, oracle_venv

from plangym_ext.errors import (
    InvalidAnswer,
    InvalidObservation,
    InvalidOption,
    UnknownName,
    WrongKind,
)
from plangym_ext.learn.agents.agent import Acted, RandomAgent
from plangym_ext.learn.sampling.local import SerialSampler
from plangym_ext.learn.sampling.tree import build_sample_tree


class Untouchable(Oracle):
    """An env that is not to be started."""

    def reset(self, **kwargs):
        raise AssertionError("the env was started")


@pytest.fixture
def venv():
    with oracle_venv(3, Untouchable) as made:
        yield made


class Long(Tally):
    def initial_carry(self, num_rows):
        return {"steps": np.zeros(num_rows + 1)}


class Growing(Tally):
    def step(self, inputs, carry):
        acted = super().step(inputs, carry)
        return acted._replace(carry={"steps": np.zeros((len(inputs.first), 2))})


class OneAction(Tally):
    def step(self, inputs, carry):
        return Acted(np.zeros(1, np.int64), {}, carry)


class InfoOfOneRow(Tally):
    def step(self, inputs, carry):
        return super().step(inputs, carry)._replace(info={"value": np.zeros(1)})


@pytest.mark.parametrize(
    ("agent", "says"),
    [
        (RandomAgent(spaces.Box(-1, 1, (2,))), r"must be \(3,\) int64.*got \(3, 2\) float32"),
        (OneAction(), r"must be \(3,\) int64.*got \(1,\) int64"),
        (Long(), r"a row per env, \(3, ...\); got an array \(4,\)"),
        (Growing(), r"laid out as initial_carry's.*\(3,\).*\(3, 2\)"),
        (InfoOfOneRow(), r"info\['value'\].*a row per env.*\(3, ...\); got an array \(1,\)"),
    ],
    ids=lambda one: type(one).__name__ if not isinstance(one, str) else "",
)
def test_agents_that_do_not_fit(agent, says, venv):
    with pytest.raises(InvalidAnswer, match=says):
        SerialSampler(venv, agent, 5)


@pytest.mark.parametrize("steps", [0, -1, 2.5, True, None])
def test_fragments_without_steps(steps, venv):
    with pytest.raises(InvalidOption, match=f"num_steps must be an integer >= 1; got {steps!r}"):
        SerialSampler(venv, Tally(), steps)
    with pytest.raises(InvalidOption, match="num_steps"):
        build_sample_tree(venv, Tally(), steps, 3)


def test_batches_without_rows(venv):
    with pytest.raises(InvalidOption, match="num_rows must be an integer >= 1; got 0"):
        build_sample_tree(venv, Tally(), 5, 0)


def test_vector_envs_that_reset_in_another_way():
    for mode in ("next_step", "disabled"):
        venv = oracle_venv(2, Untouchable, autoreset_mode=mode)
        with pytest.raises(InvalidOption, match="autoreset_mode='same_step'"), venv:
            SerialSampler(venv, Tally(), 5)


def test_things_that_are_no_vector_env():
    with pytest.raises(WrongKind, match="must be a vector env"):
        SerialSampler(Oracle(0), Tally(), 5)


def test_envs_of_different_spaces():
    class Wider(Untouchable):
        def __init__(self, index):
            super().__init__(index)
            self.observation_space = spaces.Box(-1000 - index, 1000, (3,), np.float32)

    venv = oracle_venv(2, Wider, observation_mode="different")
    with pytest.raises(InvalidOption, match="one observation space"), venv:
        SerialSampler(venv, Tally(), 5)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"on_end": "stick"}, UnknownName, "one of reset, wait, sticky; got 'stick'.*did you mean"),
        ({"seed": -1}, InvalidOption, "seed must be an integer >= 0; got -1"),
        ({"random_steps": 1.5}, InvalidOption, "random_steps must be an integer >= 0; got 1.5"),
        ({"discount": 1.1}, InvalidOption, r"discount must be a finite number in \[0.0, 1.0\]"),
        ({"window": 0}, InvalidOption, "window must be an integer >= 1; got 0"),
        ({"wait": True}, TypeError, "unexpected keyword argument 'wait'"),
    ],
)
def test_options_that_cannot_be(options, error, says, venv):
    with pytest.raises(error, match=says):
        SerialSampler(venv, Tally(), 5, **options)


def test_a_fragment_of_another_length_than_the_sampler_was_made_for():
    with SerialSampler(oracle_venv(), Tally(), 5) as sampler:
        with pytest.raises(InvalidOption, match=r"fragments have 5 steps.*got 6"):
            sampler.collect(6)
        assert sampler.collect(5).data["reward"].shape == (5, 3)


def test_infos_that_no_env_gives():
    with (
        SerialSampler(oracle_venv(), Tally(), 5, env_info={"speed": float}) as sampler,
        pytest.raises(InvalidObservation, match=r"'speed'.*they gave \['at'\]"),
    ):
        sampler.collect()
    with (
        SerialSampler(oracle_venv(), Tally(), 5, episode_fields=("score",)) as sampler,
        pytest.raises(InvalidObservation, match=r"'score'.*they gave \['at'\]"),
    ):
        sampler.collect()
    with SerialSampler(oracle_venv(3, Games), Tally(), 15, episode_fields=("score",)) as sampler:
        assert (sampler.collect().episodes["score"] > 1000).all()


def test_an_agent_whose_arrays_change_their_shape():
    class Fickle(Tally):
        calls = 0

        def step(self, inputs, carry):
            self.calls += 1
            acted = super().step(inputs, carry)
            return acted._replace(action=acted.action[:1]) if self.calls == 3 else acted

    with (
        SerialSampler(oracle_venv(), Fickle(), 5) as sampler,
        pytest.raises(InvalidAnswer, match=r"here \(3,\); got \(1,\)"),
    ):
        sampler.collect()


def test_rewards_and_observations_that_are_no_number_are_refused_as_by_the_vector_env():
    class Broken(Oracle):
        def step(self, action):
            obs, reward, *rest = super().step(action)
            return obs, np.nan if self.episode == 1 else reward, *rest

    with (
        SerialSampler(oracle_venv(3, Broken), Tally(), 9) as sampler,
        pytest.raises(InvalidObservation, match="nan"),
    ):
        sampler.collect()


def test_a_closed_sampler_closes_its_envs_and_may_be_closed_again():
    venv = oracle_venv()
    sampler = SerialSampler(venv, Tally(), 5)
    sampler.close()
    sampler.close()
    assert venv.closed
