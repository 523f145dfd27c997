"""Rows that have to become wider: in one worker first, and when an interrupt comes between."""

import functools

import numpy as np
import pytest
from growing_env import Growing

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.workers.batch_env import BatchEnv, ExternalProcess
from plangym_ext.workers.parallel_env import ParallelEnv


@pytest.mark.parametrize("num_rows", [4, 6], ids=["a known layout", "a new one"])
def test_envs_stepped_by_themselves_outgrow_the_rows_of_their_batch(num_rows):
    make = functools.partial(GymEnv, Growing)
    with make() as here, BatchEnv([ExternalProcess(make, index=i) for i in range(2)]) as batch:
        start = batch.reset(seed=0)[1][0]
        batch.step_batch([0] * 4, [start] * 4)
        for worker in range(2):
            for _ in range(40):
                state = batch[worker].step(1, return_state=True)[0]
        assert len(state) > batch.state_width
        found = batch.step_batch([1] * num_rows, [start] * num_rows)
        assert found.states.shape[1] == batch.state_width >= len(state)
        expected = here.step_batch([1] * num_rows, [start] * num_rows)
        assert np.array_equal(found.rewards, expected.rewards)
        assert np.array_equal(found.obs, expected.obs)
        # And goes on from where that worker's env stood.
        after = batch.step_batch([0], [state])
        assert np.array_equal(after.obs, here.step_batch([0], [state]).obs)


@pytest.mark.parametrize("where", ["before", "after"])
def test_an_interrupt_while_rows_become_wider_leaves_all_of_it_to_the_next_call(where, monkeypatch):
    with ParallelEnv(Growing, n_workers=2) as env, GymEnv(Growing) as here:
        env.reset(seed=0)
        here.reset(seed=0)
        long = np.ones((3, 40), int)
        start = env.get_state()
        widen = env.batch_env.widen

        def interrupted(width):
            if where == "after":
                monkeypatch.setattr(env.batch_env, "_on_widening", None)
                widen(width)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(env.batch_env, "widen", interrupted)
            with pytest.raises(KeyboardInterrupt):
                env.rollout_batch(long, [start] * 3)
        assert (env.batch_env.state_width > env.plan_env.state_width) == (where == "after")
        for _ in range(2):
            found, expected = (e.rollout_batch(long, [start] * 3) for e in (env, here))
            assert np.array_equal(found.rewards, expected.rewards)
            ends = env.step_batch([1] * 3, found.states)
            assert np.array_equal(ends.rewards, here.step_batch([1] * 3, expected.states).rewards)
        assert env.batch_env.state_width == env.plan_env.state_width
