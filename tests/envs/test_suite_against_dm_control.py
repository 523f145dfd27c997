"""The suite's tasks beside dm_control's own, bit for bit: models, starts, steps."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import plangym_ext

if importlib.util.find_spec("dm_control") is None:
    pytest.skip("dm_control is not installed: pip install '.[dm_control]'", allow_module_level=True)

import mujoco

from plangym_ext.envs.dm_control import _quiet
from plangym_ext.envs.mujoco import _saved

with _quiet():  # importing it looks for a display and warns that there is none
    from dm_control import suite

TASKS = ["acrobot-swingup", "cheetah-run", "dog-run", "hopper-hop", "humanoid-run", "walker-run"]


class LikeRandomState:
    """Draws for dm_control's starts by numpy's newer generator, which ours have."""

    def __init__(self, seed):
        self._rng = np.random.default_rng(seed)
        self.uniform, self.rand, self.randn = (
            self._rng.uniform,
            self._rng.random,
            lambda *shape: self._rng.standard_normal(shape or None),
        )


def theirs_of(task, seed):
    domain, _, name = task.partition("-")
    with _quiet():
        found = suite.load(domain, name)
    found.task._random = LikeRandomState(seed)
    return found


def flat(observation):
    return np.concatenate([np.ravel(part) for part in observation.values()], dtype=float)


@pytest.mark.slow
@pytest.mark.parametrize("task", [task for task in TASKS if task != "dog-run"])
def test_the_model_is_theirs(task):
    theirs = theirs_of(task, 0)
    with plangym_ext.make(f"plangym_ext/{task}-v0", n_workers=0, check=False) as env:
        assert _saved(env.gym_env.unwrapped.model) == _saved(theirs.physics.model.ptr)


@pytest.mark.slow
def test_the_dog_is_theirs_but_for_where_its_files_lie():
    theirs = theirs_of("dog-run", 0).physics.model.ptr
    with plangym_ext.make("plangym_ext/dog-run-v0", n_workers=0, check=False) as env:
        model = env.gym_env.unwrapped.model
        compared = 0
        for name in dir(theirs):
            value = getattr(theirs, name, None)
            if isinstance(value, np.ndarray) and "path" not in name and name != "_sizes":
                np.testing.assert_array_equal(getattr(model, name), value, err_msg=name)
                compared += 1
        assert compared > 300


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_starts_and_steps_are_theirs(task):
    with plangym_ext.make(f"plangym_ext/{task}-v0", n_workers=0, check=False) as env:
        for seed in range(3):
            theirs = theirs_of(task, seed)
            _, obs, _ = env.reset(seed=seed)
            expected = theirs.reset()
            rng = np.random.default_rng(seed)
            for _ in range(200):
                np.testing.assert_array_equal(obs, flat(expected.observation))
                action = rng.uniform(-1, 1, env.action_space.shape).astype(np.float32)
                obs, reward, terminated, truncated, _ = env.step(action)
                expected = theirs.step(action)
                assert reward == expected.reward
                assert not terminated
                assert not truncated
            # Every number that the next step depends on.
            mine, other = env.gym_env.unwrapped.data, theirs.physics.data.ptr
            kind = mujoco.mjtState.mjSTATE_INTEGRATION
            size = mujoco.mj_stateSize(env.gym_env.unwrapped.model, kind)
            states = np.zeros((2, size))
            mujoco.mj_getState(env.gym_env.unwrapped.model, mine, states[0], kind)
            mujoco.mj_getState(theirs.physics.model.ptr, other, states[1], kind)
            np.testing.assert_array_equal(states[0], states[1])


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_episodes_are_as_long_as_theirs(task):
    theirs = theirs_of(task, 0)
    assert theirs._step_limit == pytest.approx(1000)
    with plangym_ext.make(f"plangym_ext/{task}-v0", n_workers=0, check=False) as env:
        step = env.gym_env.unwrapped
        assert step.frame_skip * step.model.opt.timestep == theirs.control_timestep()
        assert env.gym_env.spec.max_episode_steps == 1000
