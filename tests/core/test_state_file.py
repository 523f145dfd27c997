from __future__ import annotations

import os
import resource
import zipfile

import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import DamagedState, ForeignState, StateError


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


@pytest.fixture
def saved(tmp_path):
    with plangym_ext.make("CartPole-v1", backend="serial") as env:
        state, *_ = env.reset(seed=1)
        states = env.step_batch(np.array([0, 1]), np.stack([state] * 2)).states
        plangym_ext.save_states(tmp_path / "a.npz", states, env)
        yield env, states, tmp_path / "a.npz"


def test_any_flipped_bit_is_refused_or_changes_nothing(saved, tmp_path):
    env, states, path = saved
    data, damaged = path.read_bytes(), tmp_path / "b.npz"
    every = 1 if os.environ.get("PYTEST_LONG") else 41
    refused = 0
    for bit in range(0, len(data) * 8, every):
        altered = bytearray(data)
        altered[bit // 8] ^= 1 << bit % 8
        damaged.write_bytes(altered)
        try:
            np.testing.assert_array_equal(plangym_ext.load_states(damaged, env), states)
        except StateError:
            refused += 1
    assert refused > len(data) * 8 // every // 2


def test_a_file_of_anything_else_is_refused(saved, tmp_path):
    env, states, path = saved
    other = tmp_path / "b.npz"

    def archive(shape, data=b"\0" * 9):
        with zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED) as made:
            for name in ("states.npy", "identity.npy"):
                with made.open(name, "w") as file:
                    head = {"descr": "|u1", "fortran_order": False, "shape": shape}
                    np.lib.format.write_array_header_1_0(file, head)
                    file.write(data)

    def array(value, **options):
        with other.open("wb") as file:
            np.save(file, value, **options)

    writers = [
        lambda: array(states),
        lambda: array(np.array([{}]), allow_pickle=True),
        lambda: archive((1 << 40, 144)),
        lambda: archive((-1,)),
        lambda: archive((3, 3)),
        lambda: np.savez(other, states=np.array([[{}]]), identity=np.array("x")),
        lambda: np.savez(other, states=states.astype(float), identity=np.array("x")),
        lambda: np.savez(other, states=states),
        lambda: other.write_bytes(b""),
        lambda: other.write_bytes(path.read_bytes()[:100]),
    ]
    for write in writers:
        write()
        with pytest.raises((StateError, ValueError), match=r"b\.npz"):
            plangym_ext.load_states(other, env)


def test_a_header_that_promises_a_terabyte_takes_no_memory(saved, tmp_path):
    env, _, path = saved
    data = bytearray(path.read_bytes())
    # The size of the first member, in the list at the end of the archive.
    at = data.find(b"PK\x01\x02")
    data[at + 24 : at + 28] = (2**32 - 2).to_bytes(4, "little")
    (tmp_path / "b.npz").write_bytes(data)
    with pytest.raises(DamagedState, match=r"would take 4,294,967,294 bytes"):
        plangym_ext.load_states(tmp_path / "b.npz", env)


def test_a_full_disk_leaves_the_old_file_and_nothing_else(saved):
    env, states, path = saved
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            plangym_ext.save_states(path, states, env)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
