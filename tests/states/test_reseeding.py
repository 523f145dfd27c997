from __future__ import annotations

import gymnasium
import numpy as np
import pytest

import plangym_ext
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import DamagedState, IncompleteState

ENVS = {
    "FrozenLake-v1": {},
    "plangym_ext/ChainMDP-v0": {"n": 9, "p": 0.5},
    "plangym_ext/2048-v0": {},
}


def states_of(env, count):
    """States of an episode; the env stays at the last."""
    states = [env.reset(seed=0)[0]]
    for _ in range(count - 1):
        states.append(env.step(env.action_space.n - 1, states[-1])[0])
    return np.array(states)


@pytest.mark.parametrize("name", ENVS)
def test_every_backend_draws_the_same_generators(name):
    found = []
    for backend in ("serial", "auto"):
        with plangym_ext.make(name, backend=backend, **ENVS[name]) as env:
            states = states_of(env, 5)
            rng = np.random.default_rng(0)
            found.append([env.reseeded(states, rng), env.reseeded(states, None), rng.random()])
            np.testing.assert_array_equal(env.get_state(), states[-1])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ENVS)
def test_nothing_but_the_chances_differs(name):
    with plangym_ext.make(name, backend="serial", **ENVS[name]) as env:
        states = states_of(env, 3)
        others = env.reseeded(states, np.random.default_rng(0))
        assert (states != others).any(axis=1).all()
        # With one generator for all, they are what they were.
        fixed = env.reseeded(states, None)
        np.testing.assert_array_equal(env.reseeded(others, None), fixed)
        assert (fixed[0] != fixed[2]).any() or (states[0] == states[2]).all()


def test_outcomes_have_their_probabilities():
    with plangym_ext.make("FrozenLake-v1") as env:
        state, *_ = env.reset(seed=0)
        states = env.reseeded(np.repeat(state[None], 3000, axis=0), np.random.default_rng(0))
        obs = env.step_batch(np.full(3000, 2), states=states).obs
    # To the right on ice: right, down and (against the edge) nowhere, a third each; deviation 26.
    assert (abs(np.bincount(obs, minlength=5)[[0, 1, 4]] - 1000) < 4 * 26).all()


def test_sticky_actions_are_drawn_anew():
    with plangym_ext.make("ALE/Breakout-v5", obs_type="ram", backend="serial") as env:
        state, *_ = env.reset(seed=0)
        state = env.step(1, state)[0]
        rng = np.random.default_rng(0)
        states = env.reseeded(np.repeat(state[None], 40, axis=0), rng)
        # The paddle goes at once, or an action later with probability 1/4.
        ways = {obs.tobytes() for obs in env.step_batch(np.full(40, 2), states=states).obs}
        again = env.step_batch(np.full(40, 2), states=np.repeat(state[None], 40, axis=0)).obs
    assert len(ways) > 1
    assert len({obs.tobytes() for obs in again}) == 1


def test_a_replay_is_refused():
    class Opaque(gymnasium.Wrapper):
        """Holds what no snapshot can."""

    with GymEnv(lambda: Opaque(gymnasium.make("CartPole-v1")), capture="replay") as env:
        state, *_ = env.reset(seed=0)
        with pytest.raises(IncompleteState, match="reseeded: the states of CartPoleEnv must hold"):
            env.reseeded(state[None], None)


def test_a_damaged_state_is_refused():
    with plangym_ext.make("plangym_ext/ChainMDP-v0") as env:
        state, *_ = env.reset(seed=0)
        state[-1] ^= 1
        with pytest.raises(DamagedState, match="reseeded"):
            env.reseeded(state[None], None)
