"""Files of arrays take no more memory and time than their size allows, whatever they say."""

from __future__ import annotations

import io
import signal
import struct
import subprocess
import sys
import textwrap
import threading
import time
import zipfile

import numpy as np
import pytest
from clock_bounds import within

import plangym_ext
from plangym_ext.core.files import state_file
from plangym_ext.core.files.state_set import StateSet
from plangym_ext.errors import DamagedState
from plangym_ext.planners import read_tree


def bomb(path, megabytes, method, *, packed=None, descr="|u1"):
    """A file whose states are that many zeros; its directory says that they are `packed`."""
    size = megabytes << 20
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({size // 1024}, 1024), }}"
    header = header.ljust(117) + "\n"
    with zipfile.ZipFile(path, "w", method) as archive:
        text = io.BytesIO()
        np.save(text, np.array("{}"))
        archive.writestr("identity.npy", text.getvalue())
        with archive.open("states.npy", "w", force_zip64=True) as file:
            file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
            for _ in range(megabytes):
                file.write(bytes(1 << 20))
    if packed is not None:
        data = bytearray(path.read_bytes())
        struct.pack_into("<I", data, data.rfind(b"PK\x01\x02") + 20, packed)
        path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("method", "packed"),
    [
        (zipfile.ZIP_BZIP2, 1 << 20),
        (zipfile.ZIP_LZMA, None),
        (zipfile.ZIP_DEFLATED, None),
        (zipfile.ZIP_DEFLATED, 5),
    ],
)
@pytest.mark.slow
def test_a_file_takes_memory_by_its_own_size(tmp_path, method, packed):
    path = bomb(tmp_path / "b.npz", 256, method, packed=packed)
    program = """
        import sys, resource, plangym_ext
        from plangym_ext.core.files.state_set import StateSet
        from plangym_ext.explore import GoExplore
        from plangym_ext.planners import read_tree
        path = sys.argv[1]
        env = plangym_ext.make("CartPole-v1", backend="serial")
        env.reset(seed=0)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for load in (
            lambda: plangym_ext.load_states(path, env),
            lambda: StateSet.load(path, env),
            lambda: GoExplore.load(path, env),
            lambda: read_tree(path),
        ):
            try:
                load()
            except Exception as error:
                print(type(error).__name__)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    command = [sys.executable, "-P", "-c", textwrap.dedent(program), str(path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert said[:4] == ["DamagedState"] * 3 + ["UnreadableFile"]
    assert int(said[4]) < 60_000  # kB; what the file unpacks to is 262,144


@pytest.fixture
def env():
    with plangym_ext.make("Taxi-v4", backend="serial") as env:
        env.reset(seed=1)
        yield env


def test_what_packs_better_than_ten_times_is_read_back(env, tmp_path):
    states = np.repeat(env.get_state()[None], (24 << 20) // env.state_width, 0)
    plangym_ext.save_states(tmp_path / "s.npz", states, env)
    assert (tmp_path / "s.npz").stat().st_size < states.nbytes / 4
    assert np.array_equal(plangym_ext.load_states(tmp_path / "s.npz", env), states)
    with np.load(tmp_path / "s.npz") as content:
        assert np.array_equal(content["states"], states)


def test_flags_are_0_or_1(tmp_path):
    with (tmp_path / "f.npz").open("wb") as file:
        state_file.write(file, {"flags": np.array([0, 1, 2, 255], np.uint8).view(np.bool_)})
    with (tmp_path / "f.npz").open("rb") as file:
        assert state_file.read(file, ["flags"])["flags"].view(np.uint8).tolist() == [0, 1, 1, 1]


def test_reading_ends_with_ctrl_c(tmp_path):
    path, arrays = tmp_path / "large.npz", {"a": np.zeros(400 << 20, np.uint8)}
    with path.open("wb") as file:
        state_file.write(file, arrays)
    threading.Timer(0.02, signal.raise_signal, (signal.SIGINT,)).start()
    began = time.monotonic()

    def read_for_ever():
        with path.open("rb") as file:
            while True:
                state_file.read(file, ["a"])

    with pytest.raises(KeyboardInterrupt):
        read_for_ever()
    assert within(time.monotonic() - began, 10)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("legal", np.full((4, 6), 2.5)),
        ("legal", np.ones((4, 1), bool)),
        ("legal", np.ones((4, 6, 3), bool)),
        ("legal", np.zeros((4, 6), "<U3")),
        ("legal", np.array(True)),
        ("legal", np.ones((3, 6), bool)),
        ("to_go", np.zeros((4, 2))),
        ("to_go", np.full(4, np.nan)),
        ("to_go", np.zeros(4, np.float32)),
        ("to_go", np.array(1.0)),
        ("obs0", np.zeros((4, 1), np.int64)),
        ("states", np.zeros((4, 2, 8), np.uint8)),
        ("states", np.zeros((4, 144), np.int8)),
    ],
)
def test_masks_and_returns_are_of_the_env(env, tmp_path, name, value):
    out = env.step_batch(np.array([0, 1, 1, 0]), np.stack([env.get_state()] * 4))
    path = tmp_path / "s.npz"
    StateSet(out.states, out.obs, np.ones((4, 6), bool), np.arange(4.0)).save(path, env)
    assert len(StateSet.load(path, env)) == 4
    content = dict(np.load(path))
    np.savez(path, **{**content, name: value})
    with pytest.raises(DamagedState, match=name.rstrip("0")):
        StateSet.load(path, env)


def test_a_tree_of_before_is_read(tmp_path):
    columns = {"parent": np.int32, "action": np.int32, "visits": np.int32, "q": np.float32}
    columns |= {"reward": np.float64, "value": np.float64, "prior": np.float32, "ended": np.bool_}
    arrays = {name: np.zeros(1, dtype) for name, dtype in columns.items()}
    arrays["parent"][:] = arrays["action"][:] = -1
    np.savez_compressed(tmp_path / "t.npz", format=np.int32(1), **arrays)
    assert read_tree(tmp_path / "t.npz").parent.tolist() == [-1]
