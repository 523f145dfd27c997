"""Samplers that are saved in the middle of episodes, or whose steps fail, go on bit for bit."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from interrupting import InterruptAt, points
from sampling_envs import Oracle, Tally, assert_same, copied, oracle_venv

from plangym_ext import make_vec
from plangym_ext.errors import ForeignCheckpoint
from plangym_ext.learn.agents.agent import RandomAgent
from plangym_ext.learn.sampling.local import AlternatingSampler, SerialSampler
from plangym_ext.learn.tensor_file import load, save


def cartpole(num_envs=5, **options):
    options = {"backend": "serial", **options}
    return make_vec("CartPole-v1", num_envs, autoreset_mode="same_step", **options)


def cartpole_sampler(num_steps=7, **options):
    venv = cartpole(**options)
    return SerialSampler(venv, RandomAgent(venv.single_action_space), num_steps, seed=1)


def test_a_sampler_that_was_saved_in_mid_episode_goes_on_bit_for_bit(tmp_path):
    with cartpole_sampler() as sampler:
        sampler.collect()
        save(tmp_path / "state", sampler.state_dict())
        wanted = [copied(sampler.collect().data) for _ in range(2)]
        statistics = sampler.statistics
    state = load(tmp_path / "state")
    for options in ({}, {"backend": "kernel"}, {"backend": "process", "n_workers": 2}):
        with cartpole_sampler(**options) as sampler:
            sampler.load_state_dict(state)
            for want in wanted:
                assert_same(copied(sampler.collect().data), want)
            assert sampler.statistics == statistics


@pytest.mark.parametrize("on_end", ["reset", "wait", "sticky"])
def test_carry_and_noise_go_on_too(on_end):
    def made():
        return SerialSampler(oracle_venv(), Tally(), 6, random_steps=3, on_end=on_end)

    with made() as sampler, made() as other:
        sampler.collect()
        other.load_state_dict(sampler.state_dict())
        for _ in range(4):
            mine, theirs = sampler.collect(), other.collect()
            assert_same(copied(theirs.data), copied(mine.data))
            for name, column in mine.episodes.items():
                np.testing.assert_array_equal(theirs.episodes[name], column, err_msg=name)


def test_a_sampler_that_has_not_begun_can_be_saved():
    with cartpole_sampler() as sampler, cartpole_sampler() as other:
        other.load_state_dict(sampler.state_dict())
        assert_same(copied(other.collect().data), copied(sampler.collect().data))


def test_a_state_of_another_number_of_envs_is_refused():
    with cartpole_sampler() as sampler:
        state = sampler.state_dict()
    with cartpole_sampler(num_envs=4) as other, pytest.raises(ForeignCheckpoint, match="of 5 envs"):
        other.load_state_dict(state)


def test_envs_without_states_begin_new_episodes():
    def made():
        return SerialSampler(oracle_venv(capture="off"), Tally(), 6)

    with made() as sampler, made() as other:
        sampler.collect()
        state = sampler.state_dict()
        assert state["rows"]["envs"] is None
        other.load_state_dict(state)
        tree = other.collect().data
    assert np.array(tree["first"])[0].all()


# Steps that fail -----------------------------------------------------------------------------


class Failing(gym.Wrapper):
    """Raises in a step that is `wrong`, as long as there is a file."""

    def __init__(self, env, wrong, marker):
        super().__init__(env)
        self.wrong, self.marker = wrong, marker

    def step(self, action):
        env = self.env.unwrapped
        if (env.index, env.episode, env.count) == self.wrong and self.marker.exists():
            raise RuntimeError("the env failed")
        return self.env.step(action)


@pytest.mark.parametrize("backend", ["serial", "process"])
def test_a_fragment_whose_step_fails_is_played_again(backend, tmp_path):
    marker = tmp_path / "wrong"
    marker.touch()
    makes = [lambda k=k: Failing(Oracle(k), (1, 0, 2), marker) for k in range(3)]
    failing = make_vec(makes, backend=backend, autoreset_mode="same_step")
    with SerialSampler(oracle_venv(), Tally(), 6) as sampler:
        for _ in range(2):
            sampler.collect()
        wanted = [copied(sampler.collect().data) for _ in range(2)]
        statistics = sampler.statistics
    with SerialSampler(failing, Tally(), 6) as sampler:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="the env failed"):
                sampler.collect()
        marker.unlink()
        sampler.collect()
        sampler.collect()
        for want in wanted:
            assert_same(copied(sampler.collect().data), want)
        assert sampler.statistics == statistics


def test_without_states_a_fragment_that_failed_is_followed_by_new_episodes(tmp_path):
    marker = tmp_path / "wrong"
    marker.touch()
    makes = [lambda k=k: Failing(Oracle(k), (1, 0, 2), marker) for k in range(3)]
    failing = make_vec(makes, backend="serial", autoreset_mode="same_step")
    with SerialSampler(failing, Tally(), 6, recover=False) as sampler:
        with pytest.raises(RuntimeError, match="the env failed"):
            sampler.collect()
        marker.unlink()
        tree = copied(sampler.collect().data)
    assert tree["first"][0].all()
    assert (tree["agent_info.steps"] == tree["obs"][:-1, :, 2] + 1).all()


@pytest.mark.parametrize("kind", [SerialSampler, AlternatingSampler])
def test_an_interrupted_fragment_is_played_again(kind):
    def made():
        return kind(oracle_venv(2), Tally(), 3)

    with made() as sampler:
        sampler.collect()
        with InterruptAt(-1) as count:
            sampler.collect()
        wanted, statistics = copied(sampler.collect().data), sampler.statistics
    for number in points(count.lines, few=25):
        with made() as sampler:
            sampler.collect()
            with pytest.raises(KeyboardInterrupt), InterruptAt(number):
                sampler.collect()
            played = sampler.state_dict()["rows"]["noise"][0] // 3
            for _ in range(3 - played):
                tree = sampler.collect().data
            assert_same(copied(tree), wanted)
            assert sampler.statistics == statistics
