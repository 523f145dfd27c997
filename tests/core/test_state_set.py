"""States with their observations, in memory and in files."""

from __future__ import annotations

import numpy as np
import pytest

import plangym_ext
from plangym_ext import StateSet
from plangym_ext.errors import DamagedState, ForeignState, NoSuchFile


@pytest.fixture
def cartpole():
    """An env and three states of it."""
    with plangym_ext.make("CartPole-v1", backend="serial") as env:
        state, *_ = env.reset(seed=1)
        found = env.step_batch(np.array([0, 1, 1]), np.stack([state] * 3))
        yield env, StateSet(found.states, found.obs, to_go=np.array([3.0, 2.0, 1.0]))


def test_states_and_observations_travel_through_a_file(cartpole, tmp_path):
    env, starts = cartpole
    starts.save(tmp_path / "s", env)
    found = StateSet.load(tmp_path / "s.npz", env)
    np.testing.assert_array_equal(found.states, starts.states)
    np.testing.assert_array_equal(found.obs, starts.obs)
    assert found.legal is None
    assert found.to_go.tolist() == [3.0, 2.0, 1.0]
    # It is a file of states besides.
    np.testing.assert_array_equal(plangym_ext.load_states(tmp_path / "s", env), starts.states)


def test_arrays_with_columns_first_travel_too(cartpole, tmp_path):
    env, starts = cartpole
    states, obs = np.asfortranarray(starts.states), np.asfortranarray(starts.obs)
    StateSet(states, obs).save(tmp_path / "s", env)
    found = StateSet.load(tmp_path / "s", env)
    np.testing.assert_array_equal(found.states, starts.states)
    np.testing.assert_array_equal(found.obs, starts.obs)


def test_nested_observations_and_masks_travel_too(tmp_path):
    with plangym_ext.make("plangym_ext/Sokoban-v0", backend="serial") as env:
        state, obs, info = env.reset(seed=0)
        legal = info["action_mask"][None].astype(bool) if "action_mask" in info else None
        StateSet(state[None], obs[None], legal).save(tmp_path / "s.npz", env)
        found = StateSet.load(tmp_path / "s.npz", env)
        np.testing.assert_array_equal(found.obs[0], obs)
        assert (found.legal is None) == (legal is None)


def test_some_of_the_states(cartpole):
    _, starts = cartpole
    some = starts[np.array([2, 0, 2])]
    assert (len(starts), len(some), len(starts[1:])) == (3, 3, 2)
    np.testing.assert_array_equal(some.obs, starts.obs[[2, 0, 2]])
    np.testing.assert_array_equal(some.states, starts.states[[2, 0, 2]])


def test_every_state_has_an_observation(cartpole):
    _, starts = cartpole
    with pytest.raises(ValueError, match=r"lengths \[2, 3\]"):
        StateSet(starts.states, starts.obs[:2])


def test_what_others_wrote_is_refused_without_running_anything(cartpole, tmp_path):
    env, starts = cartpole
    path = tmp_path / "s.npz"
    plangym_ext.save_states(path, starts.states, env)
    with pytest.raises(DamagedState, match="no item named 'obs0"):
        StateSet.load(path, env)
    content = {"states": starts.states, "identity": np.array("{}")}
    np.savez(path, obs0=np.array([object()] * 3, dtype=object), **content)
    with pytest.raises(DamagedState, match=r"s\.npz is no state file"):
        StateSet.load(path, env)
    for wrong in (starts.obs[:2], starts.obs.astype(np.float64), starts.obs[:, :2]):
        np.savez(path, obs0=wrong, **content)
        with pytest.raises(DamagedState, match=r"obs0 must be \(3, 4\) float32"):
            StateSet.load(path, env)
    np.savez(path, obs0=starts.obs, to_go=np.zeros(2), **content)
    with pytest.raises(DamagedState, match=r"s\.npz: to_go must be \(3,\) float64"):
        StateSet.load(path, env)
    starts.save(path, env)
    with plangym_ext.make("Pendulum-v1") as other, pytest.raises(ForeignState):
        StateSet.load(path, other)


def test_observations_of_another_shape_are_refused_before_anything_is_written(cartpole, tmp_path):
    env, starts = cartpole
    with pytest.raises(ValueError, match=r"observations must be \(3, 4\) here; got \(3, 2\)"):
        StateSet(starts.states, starts.obs[:, :2]).save(tmp_path / "s", env)
    with pytest.raises(NoSuchFile, match="there is no file"):
        StateSet.load(tmp_path / "s", env)
    assert not list(tmp_path.iterdir())
