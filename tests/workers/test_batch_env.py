"""Several processes as one batch: who continues where, and envs that do not match."""

import functools

import gymnasium as gym
import numpy as np
import pytest
from toy_envs import Faulty, faulty_env

from plangym_ext.errors import DamagedState, ResetNeeded
from plangym_ext.testing.backend import assert_equal
from plangym_ext.workers.batch_env import BatchEnv, ExternalProcess
from plangym_ext.workers.parallel_env import ParallelEnv

pytestmark = pytest.mark.slow  # a worker takes about 0.3 s to start


@pytest.fixture(scope="module", params=[False, True], ids=["parallel", "blocking"])
def batch(request):
    env = BatchEnv([ExternalProcess(Faulty, index=i) for i in range(3)], blocking=request.param)
    env.step_batch([0] * 16, states_of(env, 16))
    yield env
    env.close()


def states_of(env, count):
    _, states = env.reset(seed=0)
    return np.resize(states, (count, states.shape[1]))


@pytest.fixture(scope="module")
def serial():
    with faulty_env() as env:
        yield env


def test_length_and_indexing_give_the_processes(batch):
    assert len(batch) == 3
    assert [batch[i].index for i in range(3)] == [0, 1, 2]
    assert batch[-1] is batch[2]
    with pytest.raises(IndexError):
        batch[3]
    assert [process.index for process in batch] == [0, 1, 2]


def test_attributes_are_those_of_the_first_env(batch):
    assert batch.masscart == 1.0
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = batch.no_such_thing


def test_seeds_belong_to_the_envs(batch, serial):
    obs, states = batch.reset(seed=10)
    for i in range(3):
        state, first, _ = serial.reset(seed=10 + i)
        assert obs[i].tobytes() == first.tobytes()
        assert states[i].tobytes() == state.tobytes()


def test_reset_returns_observations_alone_when_asked_to(batch):
    obs = batch.reset(seed=1, return_states=False)
    assert obs.shape == (3, 4)
    obs, states = batch.reset(indices=[2, 0], seed=1)
    assert (obs.shape, states.shape) == ((2, 4), (2, batch.state_width))


def test_only_the_chosen_envs_are_reset(batch, serial):
    batch.reset(seed=0)
    moved = batch.step_batch([0, 0, 0], return_state=True).states
    _, fresh = batch.reset(indices=[1], seed=7)
    after = batch.step_batch([1, 1, 1], return_state=True)
    origin = np.stack([moved[0], fresh[0], moved[2]])
    assert_equal(after, serial.step_batch([1, 1, 1], origin), "one of three reset")


def test_envs_may_be_reset_one_after_another_from_the_start():
    with_two = BatchEnv([ExternalProcess(Faulty, index=i) for i in range(2)])
    try:
        with pytest.raises(ResetNeeded, match="only rows that were reset can go on"):
            with_two.step_batch([0, 0])
        first = with_two.reset(indices=[0], seed=0)[1]
        assert with_two.step_batch([0]).rewards.tolist() == [1.0]
        with pytest.raises(ResetNeeded, match="Call reset"):
            with_two.step_batch([0, 0])
        with_two.reset(indices=[1], seed=0)
        assert with_two.step_batch([0, 0]).rewards.tolist() == [1.0, 1.0]
        assert first.shape == (1, with_two.state_width)
    finally:
        with_two.close()


def test_row_that_was_reset_before_an_earlier_one_waits_for_it():
    with_two = BatchEnv([ExternalProcess(Faulty, index=i) for i in range(2)])
    try:
        _, second = with_two.reset(indices=[1], seed=0)
        with pytest.raises(ResetNeeded, match="Call reset"):
            with_two.step_batch([0, 0])
        _, first = with_two.reset(indices=[0], seed=0)
        got = with_two.step_batch([0, 0], return_state=True).states
        want = with_two.step_batch([0, 0], np.concatenate([first, second])).states
        assert got.tobytes() == want.tobytes()
    finally:
        with_two.close()


@pytest.mark.parametrize("indices", [[3], [-4], [0, 5]], ids=str)
def test_reset_of_an_env_that_is_not_there(batch, indices):
    with pytest.raises(IndexError):
        batch.reset(indices=indices)


def test_sync_states_brings_every_row_and_every_env_to_one_state(batch, serial):
    state, *_ = serial.reset(seed=5)
    for blocking in (True, False):
        batch.reset(seed=0)
        batch.sync_states(state, blocking=blocking)
        for process in batch:
            assert process.call("get_state")().tobytes() == state.tobytes()
        want = serial.step_batch([0, 1, 1], np.stack([state] * 3)).states
        assert batch.step_batch([0, 1, 1], return_state=True).states.tobytes() == want.tobytes()


@pytest.mark.parametrize("state", [None, 3, "x", np.zeros((3, 8), np.uint8)], ids=repr)
def test_sync_states_refuses_anything_but_one_state(batch, state):
    with pytest.raises(ValueError, match=r"state.* must be"):
        batch.sync_states(state)


def test_sync_states_refuses_a_damaged_state_before_any_row_moves(batch, serial):
    state, *_ = serial.reset(seed=5)
    batch.reset(seed=0)
    before = batch[0].call("get_state")()
    damaged = state.copy()
    damaged[-1] ^= 1
    with pytest.raises(DamagedState):
        batch.sync_states(damaged)
    assert batch[0].call("get_state")().tobytes() == before.tobytes()


def test_any_number_of_rows_is_stepped_from_states(batch, serial):
    states = states_of(batch, 7)
    actions = np.arange(7) % 2
    assert_equal(batch.make_transitions(actions, states), serial.step_batch(actions, states), "7")
    assert_equal(batch.step_batch(actions, states), serial.step_batch(actions, states), "7")


def test_no_more_rows_continue_than_there_are_envs(batch):
    batch.reset(seed=0)
    with pytest.raises(ResetNeeded, match="at most 3"):
        batch.step_batch([0] * 4)


# Envs that do not match -------------------------------------------------------------


class OtherBounds(Faulty):
    def __init__(self):
        super().__init__()
        self.observation_space = gym.spaces.Box(-1, 1, (4,), np.float32)


class OtherActions(Faulty):
    def __init__(self):
        super().__init__()
        self.action_space = gym.spaces.Discrete(2)


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (OtherBounds, "observation_space Box"),
        (OtherActions, r"action_space Discrete\(2\)"),
        (functools.partial(Faulty, sutton_barto_reward=True), "parts > .*barto_reward True"),
    ],
)
def test_envs_that_differ_are_refused_with_both_values(other, what):
    processes = [ExternalProcess(make, index=i) for i, make in enumerate([Faulty, other])]
    try:
        with pytest.raises(ValueError, match=rf"env 1 has {what}.*env 0 has") as caught:
            BatchEnv(processes)
        # What differs, and nothing that does not.
        assert len(str(caught.value)) < 600
        assert "TimeLimit" not in str(caught.value)
    finally:
        for process in processes:
            process.close()


def test_no_envs_are_refused():
    with pytest.raises(ValueError, match="at least one env; got none"):
        BatchEnv([])


def test_parallel_env_clones_with_its_settings():
    with ParallelEnv(Faulty, n_workers=1, frameskip=2, autoreset=False, blocking=True) as env:
        state, *_ = env.reset(seed=0)
        with env.clone() as twin:
            assert (twin.frameskip, twin.autoreset, twin.blocking) == (2, False, True)
            assert twin.n_workers == 1
            one, other = (e.step_batch([0, 1], [state, state]) for e in (env, twin))
            assert_equal(one, other, "clone")
        with env.clone(n_workers=2, frameskip=1) as wider:
            assert (len(wider.batch_env), wider.frameskip) == (2, 1)


@pytest.mark.parametrize("killed", [False, True], ids=["alive", "a worker has died"])
def test_reset_without_a_seed_draws_from_each_rows_own_random_numbers(killed, serial):
    with BatchEnv([ExternalProcess(Faulty, index=i) for i in range(2)]) as env:
        _, starts = env.reset(seed=3)
        ends = env.step_batch([0, 0], return_state=True).states
        # Rows of other batches leave the workers' envs elsewhere.
        env.step_batch([0] * 8, np.resize(starts, (8, starts.shape[1])))
        if killed:
            env[0].process.kill()
        obs, _ = env.reset()
        for row in range(2):
            serial.set_state(ends[row])
            assert np.array_equal(obs[row], serial.reset()[1])
