"""SimpleSpread: its rules beside plain numpy, its kernel, and PettingZoo's own env."""

from __future__ import annotations

import numpy as np
import pytest

import plangym_ext
from plangym_ext.envs import SimpleSpreadEnv
from plangym_ext.errors import InvalidOption


def _reference(places, speeds, landmarks, actions):
    """Return places, speeds and rewards after a step, by the formulas of MPE in numpy."""
    count = len(places)
    pushes = np.array([[0, 0], [-5, 0], [5, 0], [0, -5], [0, 5]], float)[actions]
    for a in range(count):
        for b in range(a + 1, count):
            apart = places[a] - places[b]
            distance = np.sqrt(np.sum(np.square(apart)))
            depth = np.logaddexp(0, -(distance - 0.3) / 1e-3) * 1e-3
            force = 1e2 * apart / distance * depth
            pushes[a], pushes[b] = force + pushes[a], -force + pushes[b]
    places = places + speeds * 0.1
    speeds = speeds * (1 - 0.25) + pushes * 0.1
    gaps = np.linalg.norm(places[:, None] - landmarks[None], axis=-1)
    near = np.linalg.norm(places[:, None] - places[None], axis=-1) < 0.3
    own = -(near.sum(axis=1) - 1.0)
    return places, speeds, -gaps.min(axis=0).sum() * 0.5 + own * 0.5


@pytest.mark.parametrize("count", [1, 3, 4])
def test_steps_are_those_of_the_formulas(count):
    rng, env = np.random.default_rng(0), SimpleSpreadEnv(count)
    for seed in range(6):
        env.reset(seed=seed)
        # Close together, so that they touch.
        env.state["place"][:] *= 0.2
        for t in range(25):
            before = [env.state[name].copy() for name in ("place", "speed", "landmark")]
            actions = rng.integers(0, 5, count)
            obs, reward, terminated, truncated, info = env.step(actions)
            places, speeds, earned = _reference(*before, actions)
            np.testing.assert_allclose(env.state["place"], places, rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(env.state["speed"], speeds, rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(info["agent_reward"], earned, rtol=1e-12)
            assert reward == pytest.approx(earned.sum())
            assert (terminated, truncated) == (False, t == 24)
            landmarks = (before[2] - places[0]).ravel()
            np.testing.assert_allclose(obs[0, 4 : 4 + 2 * count], landmarks, rtol=1e-6)


def test_a_step_past_the_end_leads_to_a_state_that_goes_on():
    with plangym_ext.make("plangym_ext/SimpleSpread-v0", max_cycles=2) as env:
        state, *_ = env.reset(seed=0)
        for t in range(5):
            found = env.step_batch(np.zeros((1, 3), int), state[None])
            state = found.states[0]
            assert found.truncateds[0] == (t >= 1)


def test_the_kernel_and_the_env_agree_bit_for_bit():
    rng = np.random.default_rng(1)
    with plangym_ext.make("plangym_ext/SimpleSpread-v0", backend="kernel") as env:
        for seed in range(4):
            state, *_ = env.reset(seed=seed)
            for _ in range(25):
                action = rng.integers(0, 5, 3)
                one = env.step(action, state)
                many = env.step_batch(action[None], states=state[None])
                assert many.states[0].tobytes() == one.state.tobytes()
                assert many.obs[0].tobytes() == one.obs.tobytes()
                assert many.rewards[0] == one.reward
                state = one.state


def test_arguments_out_of_range_are_refused():
    with pytest.raises(InvalidOption, match="count"):
        SimpleSpreadEnv(0)


@pytest.mark.parametrize("count", [2, 3])
def test_it_is_pettingzoos_bit_for_bit(count):
    mpe = pytest.importorskip(
        "mpe2.simple_spread_v3", reason="PettingZoo is not installed: pip install '.[pettingzoo]'"
    )
    rng, theirs, mine = np.random.default_rng(2), mpe.parallel_env(N=count), SimpleSpreadEnv(count)
    for seed in range(10):
        seen, _ = theirs.reset(seed=seed)
        obs, _ = mine.reset(seed=seed)
        for _ in range(25):
            assert obs.tobytes() == np.stack(list(seen.values())).tobytes()
            actions = rng.integers(0, 5, count)
            played = dict(zip(theirs.possible_agents, map(int, actions), strict=True))
            seen, rewards, *_ = theirs.step(played)
            obs, _, _, _, info = mine.step(actions)
            assert info["agent_reward"].tobytes() == np.array(list(rewards.values())).tobytes()
