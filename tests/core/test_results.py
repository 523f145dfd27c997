"""Results unpack as plangym's tuples do, for every way of asking for states."""

import itertools

import numpy as np
import pytest

import plangym_ext

#: `(states given, return_state, states returned)`: present if asked for, or if None
#: was said and states were given.
CASES = [
    (given, asked, bool(asked) or (asked is None and given))
    for given, asked in itertools.product([False, True], [None, True, False])
]


@pytest.fixture(scope="module", params=[None, pytest.param(1, marks=pytest.mark.slow)])
def made(request):
    with plangym_ext.make("CartPole-v1", n_workers=request.param) as env:
        env.reset(seed=0)
        env.rollout_batch(np.zeros((4, 4), int), np.stack([env.get_state()] * 4))
        yield env


@pytest.fixture
def env(made):
    made.reset(seed=0)
    return made


@pytest.mark.parametrize(("given", "asked", "returned"), CASES)
def test_step_unpacks_in_plangyms_order(env, given, asked, returned):
    state = env.get_state() if given else None
    result = env.step(1, state, return_state=asked)
    assert isinstance(result, tuple)
    if returned:
        new, *result = result
        assert (new.shape, new.dtype) == ((env.state_width,), np.uint8)
        assert new.tobytes() == env.get_state().tobytes()
    obs, reward, terminated, truncated, info = result
    assert obs.shape == env.obs_shape == (4,)
    assert type(reward) is float
    assert type(terminated) is bool
    assert type(truncated) is bool
    assert (info["n_step"], info["dt"]) == (1, 1)


@pytest.mark.parametrize(("given", "asked", "returned"), CASES)
def test_step_batch_unpacks_in_plangyms_order(env, given, asked, returned):
    states = np.stack([env.get_state()] * 3) if given else None
    result = env.step_batch([0, 1, 1], states, return_state=asked)
    assert isinstance(result, tuple)
    if returned:
        new, *result = result
        assert (new.shape, new.dtype) == ((3, env.state_width), np.uint8)
    obs, rewards, terminateds, truncateds, infos = result
    assert obs.shape == (3, 4)
    assert (rewards.shape, rewards.dtype) == ((3,), np.float64)
    assert (terminateds.shape, terminateds.dtype) == ((3,), np.bool_)
    assert (truncateds.shape, truncateds.dtype) == ((3,), np.bool_)
    assert [info["n_step"] for info in infos] == [1, 1, 1]


@pytest.mark.parametrize("return_state", [True, False])
def test_reset_unpacks_in_plangyms_order(env, return_state):
    result = env.reset(seed=1, return_state=return_state)
    if return_state:
        state, *result = result
        assert state.shape == (env.state_width,)
    obs, info = result
    assert obs.shape == (4,)
    assert isinstance(info, dict)


def test_default_of_reset_is_with_the_state(env):
    assert len(env.reset(seed=1)) == 3


def test_rollouts_have_names(env):
    states = np.stack([env.get_state()] * 2)
    found = env.rollout_batch(np.zeros((2, 3), int), states)
    assert found._fields == (
        "states",
        "obs",
        "rewards",
        "terminateds",
        "truncateds",
        "steps",
        "infos",
    )
    assert (found.rewards.shape, found.steps.dtype) == ((2, 3), np.int32)


def test_states_may_be_a_list_of_rows(env):
    state = env.get_state()
    as_list = env.step_batch([0, 1], [state, state])
    as_array = env.step_batch([0, 1], np.stack([state, state]))
    assert as_list.states.tobytes() == as_array.states.tobytes()


def test_vocabulary_of_plangym(env):
    assert env.unwrapped is env
    assert env.action_shape == ()
    assert env.action_space.contains(env.sample_action())
    assert str(env) == repr(env)
    assert env.name == "CartPole-v1"
