"""Rows of a vector env on the ray backend: what gymnasium's `SyncVectorEnv` gives, and refusals."""

from __future__ import annotations

import functools

import nested_env
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from same_results import assert_same

pytest.importorskip("ray", reason="the ray backend")

import ray_cluster

import plangym_ext
from plangym_ext.errors import BackendUnavailable
from plangym_ext.registry import find_spec, make_gym
from plangym_ext.workers.ray import ray_rows

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*already returned term")]

NUM_ENVS = 5
#: Without infos; with other infos on reset than on step; with the same, from worker processes.
ENVS = {
    "CartPole-v1": {"max_episode_steps": 15},
    "Ant-v5": {"max_episode_steps": 12},
    "ALE/MsPacman-v5": {"obs_type": "ram", "max_episode_steps": 9},
}


@pytest.fixture(scope="module", autouse=True)
def cluster():
    with ray_cluster.running((1, 1)), pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_rows, "_LEAST_SECONDS", 1e-9)  # few rows are worth sharing
        yield


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("name", ENVS)
def test_rows_are_stepped_and_reset_as_by_sync_vector_env(name, mode):
    make = functools.partial(make_gym, find_spec(name), "auto", **ENVS[name])
    theirs = SyncVectorEnv([make] * NUM_ENVS, autoreset_mode=mode)
    with plangym_ext.make_vec(
        name, NUM_ENVS, backend="ray", autoreset_mode=mode, **ENVS[name]
    ) as ours:
        assert ours.backend == "ray"
        theirs.action_space.seed(3)
        assert_same(ours.reset(seed=3), theirs.reset(seed=3), "reset", types=False)
        endings, resets_alone = 0, ours._backend._reset
        for t in range(40):
            if t == 20:  # by now nothing needs the env proper any more
                ours._backend._reset = None
            actions = theirs.action_space.sample()
            expected = theirs.step(actions)
            assert_same(ours.step(actions), expected, f"step {t}", types=False)
            endings += int((expected[2] | expected[3]).sum())
        ours._backend._reset = resets_alone
        assert endings > 5
        saved, ended = ours.get_states(), ours.ended
        again = [ours.step(actions)]
        ours.set_states(saved, ended=ended)
        assert_same(ours.step(actions), again[0], "from states")
    theirs.close()


def test_a_callable_of_the_callers_own_is_taken():
    make = functools.partial(make_gym, find_spec("CartPole-v1"), max_episode_steps=4)
    with plangym_ext.make_vec(make, 3, backend="ray", n_workers=1) as venv:
        venv.reset(seed=0)
        for _ in range(4):
            *_, truncations, _ = venv.step(np.zeros(3, int))
        assert truncations.all()


def test_what_has_no_rows_is_refused():
    with pytest.raises(BackendUnavailable, match=r"a nested space.*Choose backend='process'"):
        plangym_ext.make_vec(nested_env.limited_nested, 2, backend="ray")
    with pytest.raises(ValueError, match="takes one name or callable, no wrappers"):
        plangym_ext.make_vec("CartPole-v1", 2, backend="ray", wrappers=[lambda env: env])
