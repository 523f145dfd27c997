"""The contract of a backend of ours: what holds beside equality with the serial one."""

from __future__ import annotations

import pytest

from plangym_ext import testing
from plangym_ext.arrays.nested import rows_of
from plangym_ext.testing.episode import flat
from plangym_ext.workers.parallel_env import ParallelEnv


class BackendContract(testing.BackendContract):
    """A subclass names the env; every other backend overrides `candidate`."""

    @pytest.fixture(scope="class", params=[1, 2, 3], ids="{}-workers".format)
    @classmethod
    def candidate(cls, request, pool):
        with ParallelEnv(cls.constructor(), n_workers=request.param) as env:
            # The largest batches of the tests, and results kept as they keep them: what
            # that maps belongs to the class, and the leak check of a test must not find it.
            size, horizon = max(12, *cls.batch_sizes), max(cls.horizons)
            actions = cls.actions(env, (size, horizon), seed=0)
            held = [env.rollout_batch(actions, pool[:size]) for _ in range(6)]
            del held
            yield env

    def test_rollout_is_its_single_steps(self, candidate, pool):
        horizon = max(self.horizons)
        states = pool[::50]
        actions = self.actions(candidate, (len(states), horizon), seed=3)
        found = candidate.rollout_batch(actions, states)
        for i, state in enumerate(states):
            rewards = []
            for h in range(horizon):
                single = candidate.step_batch(rows_of(actions, (slice(i, i + 1), h)), state[None])
                state = single.states[0]
                rewards.append(single.rewards[0])
                if single.terminateds[0] or single.truncateds[0]:
                    break
            # After an ending the remaining rewards are zero.
            assert found.steps[i] == len(rewards)
            assert found.rewards[i].tolist() == rewards + [0.0] * (horizon - len(rewards))
            assert found.states[i].tobytes() == state.tobytes()
            assert found.terminateds[i] == single.terminateds[0]
            assert found.truncateds[i] == single.truncateds[0]

    def test_empty_batch(self, serial, candidate, pool):
        for env in (serial, candidate):
            found = env.step_batch(self.actions(serial, (0,), 0), pool[:0])
            assert found.rewards.shape == (0,)
            assert found.states.shape == (0, env.state_width)
            assert len(found.infos) == 0

    def test_results_belong_to_the_caller(self, candidate, pool):
        actions = self.actions(candidate, (7,), seed=4)
        first = candidate.step_batch(actions, pool[:7])
        kept = flat(list(first[:5]))
        candidate.step_batch(self.actions(candidate, (7,), seed=5), pool[20:27])
        assert flat(list(first[:5])) == kept
        for array in (first.states, first.rewards, first.terminateds):
            array[...] = 0  # writable, and not shared

    def test_batches_leave_env_and_rows_where_they_were(self, candidate, pool):
        candidate.reset(seed=6)
        actions = self.actions(candidate, (5,), seed=6)
        candidate.step_batch(actions)
        place = candidate.get_state()
        twice = []
        for _ in range(2):
            candidate.set_state(pool[:5])
            candidate.rollout_batch(self.actions(candidate, (3, 2), seed=7), pool[40:43])
            candidate.step_batch(self.actions(candidate, (9,), seed=8), pool[50:59])
            twice.append(flat(list(candidate.step_batch(actions, return_state=True)[:5])))
        assert twice[0] == twice[1]
        assert candidate.get_state().tobytes() == place.tobytes()
