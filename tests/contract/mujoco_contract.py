"""The contract of the MuJoCo backend: what holds for each task."""

from typing import ClassVar

import numpy as np
import pytest
from contract.backend_contract import BackendContract
from contract.given_arrays import GivenArrays

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.native.mujoco.env import MujocoEnv
from plangym_ext.testing.backend import assert_equal


class MujocoContract(GivenArrays, BackendContract):
    """The contract, and long runs with resets on several seeds."""

    options: ClassVar = {"max_episode_steps": 30}
    batch_sizes: ClassVar = (1, 7, 33)
    horizons: ClassVar = (1, 30)
    num_steps = 40
    #: Steps of a run with resets.
    run_length = 300

    @pytest.fixture(scope="class")
    @classmethod
    def candidate(cls, serial, pool):
        with MujocoEnv(GymEnv(cls.constructor()), threads=2) as env:
            # Threads start with the first batch and belong to the class.
            env.step_batch(cls.actions(env, (33,), seed=0), pool[:33])
            yield env

    @pytest.mark.parametrize("seed", range(3))
    def test_long_runs_with_resets(self, serial, candidate, seed):
        # The states are looked at now and then: in between, rows are stepped in place.
        for env in (serial, candidate):
            env.reset(seed=seed)
        endings = 0
        for t in range(self.run_length):
            actions = self.actions(serial, (3,), seed=seed * 1000 + t)
            shows = t % 10 == 9
            want = serial.step_batch(actions, return_state=shows)
            got = candidate.step_batch(actions, return_state=shows)
            assert_equal(got, want, f"seed {seed}, step {t}")
            endings += int((want.terminateds | want.truncateds).sum())
        assert endings >= self.run_length // 10

    def test_order_of_the_actions_in_memory_does_not_matter(self, serial, candidate, pool):
        actions = self.actions(serial, (9, 4), seed=4)
        for given in (np.asfortranarray(actions), actions[::-1, ::-1]):
            want = serial.rollout_batch(given, pool[:9])
            assert_equal(candidate.rollout_batch(given, pool[:9]), want, "rollout")
            want = serial.step_batch(given[:, 0], pool[:9])
            assert_equal(candidate.step_batch(given[:, 0], pool[:9]), want, "step")

    def test_slots_and_async(self, serial, candidate, pool):
        found = []
        for env in (serial, candidate):
            slots = env.states.allocate(6)
            env.states[slots] = pool[:6]
            actions = self.actions(serial, (6,), seed=8)
            env.step_slots(actions, slots, slots[::-1], dt=2)
            pending = env.step_slots_async(actions, slots, slots)
            found.append((pending.wait(), env.states[slots].tobytes()))
        assert_equal(found[1][0], found[0][0], "slots")
        assert found[1][1] == found[0][1]

    def test_states_go_both_ways(self, serial, candidate, pool):
        # A state of either is continued by the other, single steps and rows alike.
        action = self.actions(serial, (1,), seed=9)[0]
        for mine, theirs in ((serial, candidate), (candidate, serial)):
            state = mine.step_batch(action[None], pool[7:8]).states[0]
            want = mine.step(action, state)
            got = theirs.step(action, state)
            assert got.state.tobytes() == want.state.tobytes()
            assert theirs.step_batch(action[None], state[None]).states.tobytes() == (
                want.state.tobytes()
            )
