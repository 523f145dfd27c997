"""Seeded resets of native rows: one call for all of them, with the bytes of the env's own."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import same_results
from same_results import FloatProb, floats

import plangym_ext
from plangym_ext.native.kernel.pcg64 import record_of
from plangym_ext.native.native_env import generator_at, streams_of

N = 5
ENVS = ["CartPole-v1", "FrozenLake-v1", "InvertedPendulum-v5", "HalfCheetah-v5"]
SEEDS = [7, [3, 1, 4, 1, 5], [0, None, 2**32 + 5, 2**64 - 1, None], [2**64, 1, 2, 3, 4]]


def resets_of_the_env(venv, monkeypatch):
    """Count how often the env proper of a native vector env is reset."""
    env, found = venv._backend._env, []
    own = env.reset

    def reset(**kwargs):
        found.append(kwargs)
        return own(**kwargs)

    monkeypatch.setattr(env, "reset", reset)
    return found


@pytest.mark.parametrize("name", ENVS)
def test_rows_begin_as_envs_of_their_seeds_do(name, monkeypatch):
    mode = gym.vector.AutoresetMode.SAME_STEP
    frozen = name == "FrozenLake-v1"
    sync = gym.vector.SyncVectorEnv(
        [lambda: FloatProb(gym.make(name)) if frozen else gym.make(name)] * N, autoreset_mode=mode
    )

    def assert_same(got, wanted, where="", types=True):
        got = (*got[:-1], floats(got[-1])) if frozen else got
        same_results.assert_same(got, wanted, where, types=types)

    with plangym_ext.make_vec(name, N, autoreset_mode="same_step") as venv:
        assert_same(venv.reset(seed=1), sync.reset(seed=1))
        calls = resets_of_the_env(venv, monkeypatch)
        for number, seed in enumerate(SEEDS):
            if number == 2:  # with None a row goes on with the generator that it has
                assert_same(venv.reset(), sync.reset(), "without a seed")
            options = {"reset_mask": np.array([True, False, True, True, False])}
            got = venv.reset(seed=seed, options=options if number == 1 else None)
            wanted = sync.reset(seed=seed, options=options if number == 1 else None)
            assert_same(got, wanted, f"seeds {seed}")
            for _ in range(12):
                actions = sync.action_space.sample()
                assert_same(
                    venv.step(actions), sync.step(actions), f"after seeds {seed}", types=False
                )
            if number < 3:
                assert not calls, "the rows were reset one after the other"
    sync.close()


@pytest.mark.parametrize("name", ["CartPole-v1", "HalfCheetah-v5"])
def test_states_are_those_of_the_env_itself(name):
    env = plangym_ext.make(name)
    with plangym_ext.make_vec(name, N, autoreset_mode="same_step") as venv:
        for _ in range(2):
            venv.reset(seed=11)
            for row, state in enumerate(venv.get_states()):
                expected, *_ = env.reset(seed=11 + row)
                assert state.tobytes() == expected.tobytes()
    env.close()


@pytest.mark.parametrize("where", ["states", "obs"])
def test_an_env_whose_resets_depend_on_more_than_its_generator_resets_its_rows_itself(
    where, monkeypatch
):
    with plangym_ext.make_vec("CartPole-v1", N, autoreset_mode="same_step") as venv:
        env = venv._backend._env
        own = env.step_live

        def other(*args, **kwargs):
            found = own(*args, **kwargs)
            (found.states if where == "states" else found.obs[0])[0, -1] += 1
            return found

        venv.reset(seed=0, options={"low": -0.05})  # one by one: options are given
        monkeypatch.setattr(env, "step_live", other)
        obs, _ = venv.reset(seed=3)
        assert venv._backend._env._seeded._at == -1
    with gym.make("CartPole-v1") as single:
        for row in range(N):
            assert obs[row].tobytes() == single.reset(seed=3 + row)[0].tobytes()


@pytest.mark.parametrize("seed", [0, 1, 2**31, 2**32 - 1, 2**32, 2**40 + 77, 2**64 - 1])
def test_streams_are_those_of_numpy(seed):
    streams = streams_of([seed, 3])
    assert streams[0].tobytes() == record_of(np.random.default_rng(seed)).tobytes()


def test_a_generator_is_found_where_it_is_and_not_among_two():
    generator = np.random.default_rng(5)
    record = np.frombuffer(record_of(generator).tobytes(), np.uint8)
    state = np.concatenate([np.arange(7, dtype=np.uint8), record, np.zeros(9, np.uint8)])
    assert generator_at(state, generator) == 7
    assert generator_at(np.concatenate([state, record]), generator) is None
    assert generator_at(state[:30], generator) is None
