from __future__ import annotations

import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import DamagedState, ForeignState


def test_states_travel_through_a_file(tmp_path):
    actions = np.array([1, 0, 1])
    with plangym_ext.make("CartPole-v1") as env:
        state, *_ = env.reset(seed=1)
        result = env.step_batch(np.array([0, 1, 1]), np.stack([state] * 3))
        plangym_ext.save_states(tmp_path / "deep", result.states, env)
        expected = env.step_batch(actions, result.states)
    with plangym_ext.make("CartPole-v1") as other:
        loaded = plangym_ext.load_states(tmp_path / "deep.npz", other)
        np.testing.assert_array_equal(loaded, result.states)
        got = other.step_batch(actions, loaded)
    assert got.states.tobytes() == expected.states.tobytes()
    assert [path.name for path in tmp_path.iterdir()] == ["deep.npz"]


def test_a_file_is_readable_without_pickle_and_says_whose_it_is(tmp_path):
    with plangym_ext.make("CartPole-v1") as env:
        plangym_ext.save_states(tmp_path / "one.npz", env.reset(seed=1)[0], env)
    with np.load(tmp_path / "one.npz", allow_pickle=False) as content:
        assert content["states"].shape == (1, 144)
        assert "CartPole-v1" in str(content["identity"])


def test_a_file_of_another_env_or_a_damaged_one_is_refused(tmp_path):
    path = tmp_path / "states.npz"
    with plangym_ext.make("CartPole-v1") as env, plangym_ext.make("Acrobot-v1") as other:
        plangym_ext.save_states(path, env.reset(seed=1)[0], env)
        with pytest.raises(ForeignState) as raised:
            plangym_ext.load_states(path, other)
        assert "CartPole-v1" in raised.value.__notes__[0]
        path.write_bytes(path.read_bytes()[:-30])
        with pytest.raises(DamagedState, match=r"states\.npz"):
            plangym_ext.load_states(path, env)
        with pytest.raises(FileNotFoundError):
            plangym_ext.load_states(tmp_path / "none", env)
        with pytest.raises(ForeignState):
            plangym_ext.save_states(path, other.reset(seed=0)[0], env)
