"""From a name to an env: names that are not there, and what the arguments do."""

import gymnasium as gym
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import plangym_ext
from plangym_ext.errors import NoKernel, UnknownName
from plangym_ext.registry import find_spec


@pytest.mark.parametrize(
    ("name", "close"),
    [
        ("CartPole-v2", "CartPole-v1"),
        ("cartpole-v1", "CartPole-v1"),
        ("CartPol-v1", "CartPole-v1"),
        ("ALE/MsPacmann-v5", "ALE/MsPacman-v5"),
        ("ale/pong-v5", "ALE/Pong-v5"),
    ],
)
def test_unknown_name_has_a_close_match_on_one_line(name, close):
    with pytest.raises(UnknownName) as caught:
        plangym_ext.make(name)
    message = str(caught.value)
    assert repr(name) in message
    assert f"did you mean {close!r}?" in message
    assert "\n" not in message


@pytest.mark.parametrize("name", ["", "qqqqqqqqqqqq-v0", "no such env", "a:b"])
def test_name_that_is_like_nothing_has_no_match(name):
    with pytest.raises(UnknownName) as caught:
        plangym_ext.make(name)
    assert f"got {name!r}" in str(caught.value)
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize("name", [None, 3, CartPoleEnv], ids=repr)
def test_name_that_is_no_text_is_refused(name):
    with pytest.raises(TypeError, match="expected a registered gymnasium id"):
        plangym_ext.make(name)


def test_unknown_backend_is_refused_with_those_there_are():
    known = "auto, serial, process, kernel, mujoco"
    with pytest.raises(UnknownName, match=rf"one of {known}; got 'proces'.*'process'"):
        plangym_ext.make("CartPole-v1", backend="proces")


def test_default_backend_is_the_kernel_where_there_is_one():
    with plangym_ext.make("CartPole-v1") as env:
        assert env.backend == "kernel"
        assert isinstance(env, plangym_ext.KernelEnv)
    with plangym_ext.make("Blackjack-v1") as env:
        assert env.backend == "serial"
        assert isinstance(env, plangym_ext.GymEnv)


def test_serial_backend_is_there_for_the_asking():
    with plangym_ext.make("CartPole-v1", backend="serial") as env:
        assert env.backend == "serial"
        assert isinstance(env, plangym_ext.GymEnv)


def test_a_kernel_that_is_asked_for_and_missing_is_an_error():
    with pytest.raises(NoKernel, match="BlackjackEnv: no kernel is known for this class"):
        plangym_ext.make("Blackjack-v1", backend="kernel")


@pytest.mark.parametrize(
    "settings", [{"backend": "serial"}, {"backend": "process"}, {"n_workers": 2}]
)
def test_threads_are_the_kernel_backends(settings):
    with pytest.raises(ValueError, match="threads=2"):
        plangym_ext.make("CartPole-v1", threads=2, **settings)
    with plangym_ext.make("CartPole-v1", threads=2) as env:
        assert env.threads == 2


@pytest.mark.slow
def test_number_of_workers_or_the_backend_start_processes():
    with plangym_ext.make("CartPole-v1", n_workers=1) as env:
        assert (env.backend, env.n_workers) == ("process", 1)
    with plangym_ext.make("CartPole-v1", backend="process", n_workers=2) as env:
        assert (env.backend, len(env.batch_env)) == ("process", 2)


def test_arguments_reach_the_constructor_and_the_settings():
    with plangym_ext.make(
        "Pendulum-v1", frameskip=3, autoreset=False, g=1.5, max_episode_steps=4
    ) as env:
        assert env.gym_env.unwrapped.g == 1.5
        assert (env.frameskip, env.autoreset) == (3, False)
        env.reset(seed=0)
        # Three steps pass, the fourth is the limit: the second call takes but one.
        assert not env.step([0.0]).truncated
        last = env.step([0.0])
        assert (last.truncated, last.info["n_step"]) == (True, 1)


def test_unknown_argument_is_refused():
    with pytest.raises(UnknownName, match="no_such_argument"):
        plangym_ext.make("CartPole-v1", no_such_argument=1)


def test_env_that_the_caller_registered_is_found():
    gym.register("Mine-v3", CartPoleEnv, max_episode_steps=2)
    try:
        with plangym_ext.make("Mine-v3") as env:
            env.reset(seed=0)
            assert [env.step(0).truncated for _ in range(2)] == [False, True]
        with pytest.raises(UnknownName, match="did you mean 'Mine-v3'"):
            plangym_ext.make("Mine-v4")
    finally:
        del gym.registry["Mine-v3"]


def test_spec_of_a_game_is_found_without_importing_it_first():
    assert find_spec("ALE/Pong-v5").id == "ALE/Pong-v5"


def test_without_a_seed_two_envs_differ():
    # The probe at construction seeds the env; nobody may notice.
    with plangym_ext.make("CartPole-v1") as one, plangym_ext.make("CartPole-v1") as other:
        assert one.reset()[0].tobytes() != other.reset()[0].tobytes()
