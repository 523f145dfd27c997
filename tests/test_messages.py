"""A caller's mistake is one typed error that says what was expected, what came, what to do."""

from __future__ import annotations

import importlib
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import (
    ForeignState,
    InvalidAction,
    PlangymExtError,
    UnknownName,
    UnknownOption,
    WrongKind,
)
from plangym_ext.planners import CEM, MCTS, play


@pytest.fixture(scope="module")
def env():
    with plangym_ext.make("CartPole-v1", backend="serial") as made:
        made.reset(seed=0)
        yield made


def test_a_state_of_another_env_is_told_by_what_differs(env):
    with plangym_ext.make("CartPole-v1", backend="serial", sutton_barto_reward=True) as other:
        state, *_ = other.reset(seed=0)
    with pytest.raises(ForeignState) as caught:
        env.step_batch([0], state[None])
    said = str(caught.value)
    assert said.startswith(
        "step_batch: states[0] belongs to another env: its arguments is "
        "{'sutton_barto_reward': True} there and {} here."
    )
    assert len(said) < 300


def test_a_state_of_another_process_is_told_without_a_dump(env):
    from plangym_ext.states import envelope

    with plangym_ext.make("CartPole-v1", backend="serial", sutton_barto_reward=True) as other:
        state, *_ = other.reset(seed=0)
        # As if it came from a file.
        envelope._identities.pop(state[16:32].tobytes())
    with pytest.raises(ForeignState, match=r"one that was not made in this process; here it is"):
        env.step_batch([0], state[None])


def test_one_state_is_told_how_it_becomes_a_batch(env):
    with pytest.raises(ValueError, match=r"got \(144,\) uint8. One state is .* as state\[None\]"):
        env.step_batch([0], env.get_state())


def test_float_actions_are_told_to_be_cast(env):
    with pytest.raises(InvalidAction, match=r"whole numbers .* got .*float64. Cast them with"):
        env.step_batch(np.zeros(1), env.get_state()[None])


def test_an_option_that_there_is_not():
    with pytest.raises(UnknownOption, match=r"MCTS: there is no option 'num_simulation' .did you"):
        MCTS(num_simulation=8)
    # Both as an unknown name and as Python has it.
    assert issubclass(UnknownOption, TypeError)
    assert issubclass(UnknownOption, PlangymExtError)
    assert MCTS(8).num_simulations == 8


def test_threads_are_for_native_backends():
    with pytest.raises(UnknownName, match=r"make_vec: .* no option 'threads'. It is for the ke"):
        plangym_ext.make_vec("CartPole-v1", 2, backend="serial", threads=2)


@pytest.mark.parametrize(
    "rngs", [0, None, [0], np.random.default_rng(0)], ids=["number", "None", "list", "generator"]
)
def test_generators_that_are_none(env, rngs):
    with pytest.raises(WrongKind, match=r"MCTS: rngs must be a list of numpy generators"):
        MCTS(4).plan_batch(env, env.get_state()[None], rngs=rngs)


def test_a_gymnasium_env_and_the_class_of_a_planner_cannot_be_played(env):
    plain = gym.make("CartPole-v1")
    with pytest.raises(WrongKind, match=r"play: env must step batches .* Make it with plangym_ext"):
        play(plain, MCTS(4), seed=0, max_steps=2)
    with pytest.raises(WrongKind, match=r"MCTS: env must step batches from states"):
        MCTS(4).plan(plain, env.get_state(), rng=0)
    with pytest.raises(WrongKind, match=r"got the class CEM. Write CEM\(...\)"):
        play(env, CEM, seed=0, max_steps=2)
    with pytest.raises(WrongKind, match=r"got the name 'mcts'. plangym_ext.planners.load_planner"):
        play(env, "mcts", seed=0, max_steps=2)


def test_a_name_is_no_constructor():
    with pytest.raises(WrongKind, match=r"got 'CartPole-v1'. For a name use plangym_ext.make\('Ca"):
        plangym_ext.ParallelEnv("CartPole-v1")


class OldEnv(gym.Env):
    observation_space = gym.spaces.Box(0, 1, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1), {}

    def step(self, action):
        return np.zeros(1), 0.0, False, {}


@pytest.mark.parametrize("make", [OldEnv, lambda: gym.wrappers.TimeLimit(OldEnv(), 9)])
def test_a_step_of_the_old_gym(make):
    with pytest.raises(WrongKind, match=r"OldEnv: step must return .* got 4 values. .*done, False"):
        plangym_ext.make(make)


@pytest.mark.parametrize("n_workers", [None, 1])
def test_a_step_of_the_old_gym_in_a_vector_env(n_workers):
    with plangym_ext.make_vec([OldEnv, OldEnv], n_workers=n_workers) as venv:
        venv.reset(seed=0)
        with pytest.raises(ValueError, match="not enough values") as caught:
            venv.step(np.array([0, 1]))
    notes = caught.value.__notes__
    assert any("OldEnv: step must return" in note and "done, False" in note for note in notes)


def test_names_that_are_elsewhere_or_misspelt():
    with pytest.raises(AttributeError, match=r"from plangym_ext.planners import MCTS"):
        _ = plangym_ext.MCTS
    with pytest.raises(AttributeError, match="did you mean 'make_vec'"):
        _ = plangym_ext.make_vecs


@pytest.mark.slow
def test_dir_shows_public_names_alone():
    script = "import plangym_ext; print(set(dir(plangym_ext)) == set(plangym_ext.__all__))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "True\n"


def test_contracts_without_pytest_say_how_it_is_had(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytest", None)
    monkeypatch.delitem(sys.modules, "plangym_ext.testing", raising=False)
    with pytest.raises(ImportError, match=r"testing: pytest must .* with: pip install pytest"):
        importlib.import_module("plangym_ext.testing")
