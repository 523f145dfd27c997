"""One env in a worker: promises, attributes, and steps as those of a local env."""

import functools

import leaks
import numpy as np
import pytest
import toy_envs
from toy_envs import faulty_env

from plangym_ext.errors import EnvClosed, InvalidAction, ResetNeeded
from plangym_ext.testing.backend import assert_equal
from plangym_ext.testing.episode import flat
from plangym_ext.workers.batch_env import ExternalProcess

pytestmark = pytest.mark.slow  # a worker takes about 0.3 s to start


@pytest.fixture(scope="module")
def process():
    with ExternalProcess(functools.partial(faulty_env, autoreset=False), index=2) as process:
        process.describe()
        yield process


@pytest.fixture(scope="module")
def local():
    with faulty_env(autoreset=False) as env:
        yield env


def test_steps_are_those_of_a_local_env(process, local):
    assert flat(process.reset(return_states=True, seed=3)) == flat(local.reset(seed=3))
    for t in range(10):
        got = process.step(t % 2, return_state=True)
        assert_equal(got, local.step(t % 2, return_state=True), f"step {t}")
    state = local.get_state()
    assert_equal(process.step(1, state, dt=3), local.step(1, state, dt=3), "from a state")
    states = np.stack([state] * 4)
    got = process.step_batch([0, 1, 0, 1], states, dt=[1, 2, 3, 4])
    assert_equal(got, local.step_batch([0, 1, 0, 1], states, dt=[1, 2, 3, 4]), "batch")


def test_promises_may_be_kept_in_any_order(process, local):
    local.reset(seed=0)
    states = [local.get_state()]
    for _ in range(4):
        states.append(local.step(1, states[-1]).state)
    promises = [process.step(0, state, blocking=False) for state in states]
    want = [local.step(0, state).state.tobytes() for state in states]
    order = [3, 0, 4, 1, 2]
    assert [promises[k]().state.tobytes() for k in order] == [want[k] for k in order]


def test_call_returns_a_promise_of_any_method(process):
    promise = process.call("reset", seed=1, return_state=False)
    assert callable(promise)
    obs, _ = promise()
    assert obs.shape == (4,)
    assert process.call("get_state")().dtype == np.uint8


def test_attributes_are_read_from_the_env_and_from_what_it_wraps(process):
    assert process.backend == "serial"
    assert process.frameskip == 1
    assert process.masscart == 1.0  # of gymnasium's env
    assert process.observation_space.shape == (4,)
    assert process.action_space.n == 17


def test_missing_attribute_is_an_attribute_error_and_the_worker_lives(process):
    pid = process.process.pid
    with pytest.raises(AttributeError, match="no_such_thing") as caught:
        _ = process.no_such_thing
    assert "worker 2" in caught.value.__notes__[0]
    assert not hasattr(process, "no_such_thing")
    assert getattr(process, "no_such_thing", 5) == 5
    with pytest.raises(AttributeError, match="no_such_method"):
        process.call("no_such_method")()
    assert process.process.pid == pid
    assert process.process.alive


def test_private_names_are_not_asked_for(process):
    with pytest.raises(AttributeError, match="_private"):
        _ = process._private


def test_attribute_that_cannot_travel_is_an_error_and_not_a_death(process):
    with pytest.raises(Exception, match=r"pickle|lambda|local"):
        _ = process.unpicklable
    assert process.process.alive
    assert process.step(0, process_state(process)).obs.shape == (4,)


def test_an_attribute_that_cannot_travel_is_named(process):
    with pytest.raises(TypeError, match=r"attribute 'unwrapped': a GymEnv lives in the worker"):
        _ = process.unwrapped


def process_state(process):
    return process.reset(return_states=True, seed=0)[0]


def test_arguments_that_cannot_travel_are_refused_here(process):
    import threading

    process.reset(seed=0)
    with pytest.raises(Exception, match="pickle"):
        process.reset(options={"lock": threading.Lock()})
    assert process.step(0).obs.shape == (4,)


def test_errors_of_the_contract_arrive_as_themselves(process):
    process.reset(seed=0)
    with pytest.raises(InvalidAction, match=r"got .*99"):
        process.step(99)
    with ExternalProcess(toy_envs.Faulty) as fresh, pytest.raises(ResetNeeded, match="never reset"):
        fresh.step(0)


def test_gymnasium_env_and_plan_env_are_served_alike():
    with ExternalProcess(toy_envs.Faulty) as one, ExternalProcess(faulty_env) as other:
        first, second = (p.reset(return_states=True, seed=4) for p in (one, other))
        np.testing.assert_array_equal(first[1], second[1])


def test_making_one_starts_nothing_and_the_first_call_does():
    before = leaks.children()
    with ExternalProcess(toy_envs.Faulty) as process:
        assert (process.ready, process.fallen, leaks.children()) == (False, None, before)
        with pytest.raises(AttributeError, match="process"):
            process.process  # noqa: B018
        obs, _ = process.reset(seed=0)
        process.build()  # and nothing more
        assert [pid for pid, *_ in leaks.children() - before] == [process.process.pid]
        assert obs.shape == (4,)


def test_one_that_was_never_started_is_closed_or_restarted_like_any_other():
    process = ExternalProcess(toy_envs.Faulty)
    process.kill()
    process.close()
    process.close()
    with pytest.raises(EnvClosed, match="worker 0"):
        process.build()
    with ExternalProcess(toy_envs.Faulty) as later:
        later.restart()
        assert later.reset(seed=0)[0].shape == (4,)
