"""Play, infos included, equals that of gymnasium's `SyncVectorEnv`: every byte and type."""

from __future__ import annotations

import functools
import os

import gymnasium as gym
import nested_env
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from same_results import FloatProb, assert_same, floats

import plangym_ext
from plangym_ext.registry import find_spec, make_gym

NUM_ENVS = 4
SEEDS = (0, 1, 2)
LONG = bool(os.environ.get("PYTEST_LONG"))
#: Steps under each seed: 2,000 in `tox -e long`, else so many that sub-envs make 2,000 in all.
STEPS = 2000 if LONG else 2000 // (NUM_ENVS * len(SEEDS)) + 1
TAXI = next(name for name in ("Taxi-v4", "Taxi-v3") if name in gym.registry)

#: Short episodes, so that both kinds of ending occur often.
IDS = {
    "CartPole-v1": {},
    "Pendulum-v1": {"max_episode_steps": 40},
    "Acrobot-v1": {"max_episode_steps": 40},
    "MountainCarContinuous-v0": {"max_episode_steps": 40},
    "FrozenLake-v1": {},
    TAXI: {"max_episode_steps": 40},
    "Blackjack-v1": {},
    "CliffWalking-v1": {"max_episode_steps": 30},
    "LunarLander-v3": {},
    "Hopper-v5": {},
    "ALE/Pong-v5": {"max_episode_steps": 40, "obs_type": "ram", "frameskip": 1},
}
MODES = list(AutoresetMode)
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*already returned term")]


def make(name):
    if name == "nested":
        return nested_env.limited_nested()
    # As the library makes it: quiet, and Box2D imported in the way that does not crash.
    return make_gym(find_spec(name), **IDS[name])


def play(venv, seed, actions):
    """Yield what a vector env returns for a seed and actions, resets by mask included."""
    yield venv.reset(seed=seed)
    for action in actions:
        result = venv.step(action)
        yield result
        ended = result[2] | result[3]
        if venv.metadata["autoreset_mode"] == AutoresetMode.DISABLED and ended.any():
            yield venv.reset(options={"reset_mask": ended})


@functools.lru_cache(maxsize=1)
def reference(name):
    """Gymnasium's vector env of these envs, for every mode and seed."""
    if name == "FrozenLake-v1":
        return SyncVectorEnv([lambda: FloatProb(make(name))] * NUM_ENVS)
    return SyncVectorEnv([functools.partial(make, name)] * NUM_ENVS)


@functools.lru_cache(maxsize=len(MODES) * len(SEEDS))
def recorded(name, mode, seed, steps=STEPS):
    """What `SyncVectorEnv` does, and the actions it was given."""
    venv = reference(name)
    set_mode(venv, mode)
    venv.action_space.seed(seed)
    actions = [venv.action_space.sample() for _ in range(steps)]
    return actions, list(play(venv, seed, actions))


def assert_plays_alike(venv, name, *, types=True, steps=STEPS, seeds=SEEDS):
    for seed in seeds:
        actions, results = recorded(name, venv.autoreset_mode, seed, steps)
        pairs = zip(play(venv, seed, actions), results, strict=True)
        for k, (got, expected) in enumerate(pairs):
            if name == "FrozenLake-v1":
                got = (*got[:-1], floats(got[-1]))
            assert_same(got, expected, f"seed {seed}, call {k}: ", types=types)


#: Three workers have shares of two sizes. That other numbers change nothing does not hang on the
#: env: a simple, a nested and a simulated one show it here, and all of them in `tox -e long`.
SHOWN = {"CartPole-v1", "nested", "LunarLander-v3"}
CASES = [
    (name, n_workers)
    for name in (*IDS, "nested")
    for n_workers in (None, 1, 2, 3)
    if n_workers in (None, 3) or name in SHOWN or LONG
]


@pytest.mark.parametrize(("name", "n_workers"), CASES)
def test_equals_sync_vector_env(name, n_workers):
    makes = [functools.partial(make, name)] * NUM_ENVS
    backend = "serial" if n_workers is None else "process"
    with plangym_ext.make_vec(makes, n_workers=n_workers, backend=backend) as venv:
        for mode in MODES:
            set_mode(venv, mode)
            assert_plays_alike(venv, name)


def set_mode(venv, mode):
    # Workers know of no mode, so those of one vector env serve for all of them.
    venv.autoreset_mode = venv.metadata["autoreset_mode"] = mode


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_long_plays_equal_sync_vector_env(name):
    # 2,000 steps of each sub-env under one seed: checkpoints and their logs come and go.
    makes = [functools.partial(make, name)] * NUM_ENVS
    with plangym_ext.make_vec(makes, n_workers=2) as venv:
        for mode in MODES:
            set_mode(venv, mode)
            assert_plays_alike(venv, name, steps=2000, seeds=SEEDS[:1])


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "FrozenLake-v1", TAXI, "Hopper-v5"])
def test_native_backends_equal_sync_vector_env(name):
    with plangym_ext.make_vec(name, NUM_ENVS, **IDS[name]) as venv:
        assert venv.backend in ("kernel", "mujoco")
        for mode in MODES:
            set_mode(venv, mode)
            # A last observation may be numpy's integer where the env gave Python's.
            assert_plays_alike(venv, name, types=False)


def test_envs_of_different_constructors_keep_their_places():
    makes = [
        functools.partial(gym.make, "Pendulum-v1", g=float(g), max_episode_steps=20)
        for g in (1, 5, 10)
    ]
    actions = np.random.default_rng(0).uniform(-2, 2, (50, 3, 1)).astype(np.float32)
    with plangym_ext.make_vec(makes, n_workers=2) as venv:
        expected = play(SyncVectorEnv(makes), 0, actions)
        for got, theirs in zip(play(venv, 0, actions), expected, strict=True):
            assert_same(got, theirs)
