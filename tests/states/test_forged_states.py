"""Whatever a state says, none of its names runs code, and only the env's own things are built."""

from __future__ import annotations

import array
import contextlib
import datetime
import fractions
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import types
import zipfile
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import numpy as np
import ordinary_envs
import pytest
from forging import blocks_of, sealed, snapshot_of, with_attribute
from ordinary_envs import Heading, Key, Maze

import plangym_ext
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import DamagedState, StateError, UntrustedState
from plangym_ext.states.graph.data_types import data_type

OWN = ("Maze", "Files", "Programs")


class Stand_in:  # noqa: N801 - renamed in the table
    """Written where another class is to be named."""


@pytest.fixture
def maze():
    with GymEnv(Maze) as env:
        env.reset(seed=1)
        yield env


def closer_of(path):
    """An object whose finaliser deletes a file."""
    cls = tempfile._TemporaryFileCloser
    none, bomb = object.__new__(cls), object.__new__(cls)
    none.file = None
    defuse(none)
    vars(bomb).update(file=none, name=os.fspath(path), delete=True)
    return bomb


def defuse(closer):
    """Have its finaliser do nothing."""
    closer.close_called = closer.cleanup_called = True  # the latter from Python 3.12 on


_BY_PATH = ["ordinary_envs", "tempfile._TemporaryFileCloser"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["serial", "process", "vector"])
def test_a_finaliser_at_a_dotted_path_is_refused(maze, tmp_path, kind):
    precious = tmp_path / "precious"
    precious.write_text("x")
    bomb = closer_of(precious)
    row = with_attribute(maze, "zz", bomb, {("tempfile", "_TemporaryFileCloser"): _BY_PATH})
    defuse(bomb)
    message = r"ordinary_envs\.tempfile\._TemporaryFileCloser"
    if kind == "vector":
        with plangym_ext.make_vec(Maze, 1, n_workers=1) as envs:
            envs.reset(seed=0)
            before = envs.get_states()
            with pytest.raises(UntrustedState, match=message):
                envs.set_states(row[None])
            envs.set_states(before)
    else:
        with (
            GymEnv(Maze) if kind == "serial" else plangym_ext.ParallelEnv(Maze, n_workers=1) as env
        ):
            here, *_ = env.reset(seed=0)
            with pytest.raises(UntrustedState, match=message):
                env.step_batch(np.array([0]), row[None])
            env.step_batch(np.array([0]), here[None])
    assert precious.exists()


@pytest.mark.slow
def test_a_state_file_runs_no_program(tmp_path):
    # A closed archive is written as a whole by its finaliser, which calls what data says.
    lock, file, bomb = object.__new__(zipfile.ZipFile), Stand_in(), object.__new__(zipfile.ZipFile)
    lock.fp, file.seek = None, os.system
    marker = tmp_path / "marker"
    vars(bomb).update(_writing=False, mode="w", _didModify=True, _lock=lock, _seekable=True)
    vars(bomb).update(fp=file, start_dir=f"touch {marker}", _fpclose=None)
    renamed = {
        ("zipfile", "ZipFile"): [
            "minigrid.minigrid_env",
            "gym.wrappers.importlib.metadata.zipfile.ZipFile",
        ],
        (__name__, "Stand_in"): ["minigrid.core.grid", "Grid"],
        ("posix", "system"): ["minigrid.minigrid_env", "gym.os.system"],
    }
    pytest.importorskip("minigrid", reason="pip install plangym-ext[minigrid]")
    with plangym_ext.make("MiniGrid-Empty-5x5-v0", backend="serial") as env:
        env.reset(seed=1)
        row = with_attribute(env, "zz", bomb, renamed)
        bomb.fp = None
        plangym_ext.save_states(tmp_path / "evil.npz", row, env)
        loaded = plangym_ext.load_states(tmp_path / "evil.npz", env)
        with pytest.raises(UntrustedState, match="zipfile"):
            env.step_batch([0], loaded)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        ("Journal", "Journal, whose __del__ could run"),
        ("Proxy", "Proxy, whose __getattr__ could run"),
        ("subprocess.Popen", r"subprocess\.Popen, which this env's"),
        ("gym.Env", r"gym\.Env, which this env's"),
        ("Maze.reset", r"Maze\.reset, which this env's"),
        ("LOG", "LOG, which this env's"),
        ("np.ndarray", r"np\.ndarray, which this env's"),
        ("nothing", "nothing, which this env's"),
        ("", r"ordinary_envs\., which this env's"),
    ],
)
def test_only_harmless_classes_of_the_env_are_built(maze, cls, message):
    row = with_attribute(maze, "zz", Stand_in(), {(__name__, "Stand_in"): ["ordinary_envs", cls]})
    with pytest.raises(UntrustedState, match=message):
        maze.set_state(row)


@pytest.mark.parametrize(
    "thing", [os.system, eval, ordinary_envs.rate, tempfile.NamedTemporaryFile]
)
def test_a_function_is_referred_to_only_if_the_first_state_did(maze, thing):
    row = with_attribute(maze, "zz", [thing], {})
    with pytest.raises(UntrustedState, match=thing.__qualname__):
        maze.set_state(row)


def test_nothing_is_imported_for_a_state(maze):
    assert "this" not in sys.modules
    for module in ("this", "ordinary_envs.__main__"):
        row = with_attribute(maze, "zz", Stand_in(), {(__name__, "Stand_in"): [module, "Zen"]})
        with pytest.raises(UntrustedState):
            maze.set_state(row)
    assert "this" not in sys.modules


def test_a_function_that_the_env_itself_keeps_needs_no_word_of_the_session():
    with GymEnv(ordinary_envs.Programs) as env:
        env.reset(seed=1)
        blocks = blocks_of(env)
        assert not any(blocks.digest)
        assert ["ordinary_envs", "rate"] in blocks.table[2]
        env.set_state(sealed(env, blocks.data()))


def test_a_function_from_elsewhere_needs_the_word_of_the_session():
    # In another place of a state it would be called with other data.
    with GymEnv(ordinary_envs.Foreign) as env:
        state, *_ = env.reset(seed=1)
        env.set_state(state)
        blocks = blocks_of(env)
        assert any(blocks.digest)
        blocks.digest = bytes(16)
        with pytest.raises(UntrustedState, match=r"subprocess\.run"):
            env.set_state(sealed(env, blocks.data()))


def test_a_hash_runs_only_for_states_of_this_session():
    with GymEnv(ordinary_envs.Keyed) as env:
        state, *_ = env.reset(seed=1)
        env.set_state(state)
        blocks = blocks_of(env)
        blocks.digest = bytes(16)
        before = ordinary_envs.Position.hashed
        with pytest.raises(UntrustedState, match=r"Position, whose __hash__ would run"):
            env.set_state(sealed(env, blocks.data()))
        assert ordinary_envs.Position.hashed == before


@dataclass(frozen=True)
class Spot:
    x: int


class Frozen(Maze):
    """Uses frozen dataclasses as keys."""

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed)
        self.at = {Spot(1): 2, (Spot(3), Heading.LEFT): 4}
        return result


def test_frozen_dataclasses_are_keys_without_anyones_word():
    with GymEnv(Frozen) as env:
        env.reset(seed=1)
        blocks = blocks_of(env)
        assert not any(blocks.digest)
        env.gym_env.at = {}
        env.set_state(sealed(env, blocks.data()))
        assert env.gym_env.at == {Spot(1): 2, (Spot(3), Heading.LEFT): 4}


def test_a_class_that_comes_later_is_read_by_another_session(maze):
    maze.step(8)
    blocks = blocks_of(maze)
    assert any(blocks.digest)
    blocks.digest = b"\1" * 16  # of another session
    maze.gym_env.grid.key = None
    maze.set_state(sealed(maze, blocks.data()))
    assert type(maze.gym_env.grid.key) is Key
    assert maze.gym_env.grid.key.color is Heading.RIGHT


@pytest.mark.parametrize("name", ["step", "reset", "close", "unwrapped"])
def test_data_takes_no_methods_place(maze, name):
    before = maze.get_state()
    with pytest.raises(UntrustedState, match=f"Maze.{name}, in the place of a method"):
        maze.set_state(with_attribute(maze, name, Stand_in(), own_grid()))
    maze.set_state(before)
    maze.gym_env.grid.sum = 5
    blocks = blocks_of(maze)
    assert any(blocks.digest)
    blocks.digest = bytes(16)
    with pytest.raises(UntrustedState, match=r"Grid\.sum, in the place of a method"):
        maze.set_state(sealed(maze, blocks.data()))


def own_grid():
    return {(__name__, "Stand_in"): ["ordinary_envs", "Grid"]}


@pytest.mark.parametrize("name", ["spec", "metadata", "_action_space", "render_mode"])
def test_constants_of_the_env_are_not_replaced(maze, name):
    with pytest.raises(DamagedState, match=f"Maze.{name} is no part of a state"):
        maze.set_state(with_attribute(maze, name, [1], {}))


def test_a_refused_state_leaves_the_env_as_it_was(maze):
    before = maze.get_state()
    maze.step(1)
    there = maze.get_state()
    blocks = blocks_of(maze)
    blocks.ints[-1] = 2**62
    with pytest.raises(StateError):
        maze.set_state(sealed(maze, blocks.data()))
    assert maze.get_state().tobytes() == there.tobytes() != before.tobytes()


@pytest.mark.parametrize("position", [-1, 625, 2**31 - 1])
def test_a_generator_reads_no_memory_of_others(maze, position):
    # numpy takes any position and reads there.
    luck = np.random.RandomState(1)
    good = with_attribute(maze, "luck2", luck, {}).tobytes()
    state = np.int32(624).tobytes()
    assert good.count(b"M" + state) == 2
    blocks = blocks_of(maze)
    at = blocks.blob.index(b"M" + state) + 1
    blocks.blob = blocks.blob[:at] + np.int32(position).tobytes() + blocks.blob[at + 4 :]
    with pytest.raises(DamagedState, match="position"):
        maze.set_state(sealed(maze, blocks.data()))


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"[" * 100_000,
        b"[[], [], [], []]",
        b'[[1], [["ordinary_envs", "Grid"]], [], [], 1]',
        b'[[], [["ordinary_envs"]], [], [], 1]',
        b'[[], [["ordinary_envs", "Grid", null]], [], [], 1]',
        b'[[], [], [], [["<f8", 0, [-1]]], 1]',
        b'[[], [], [], [["|O8", 0, [1]]], 1]',
        b"[[], [], [], [], -1]",
        b"[[], [], [], [], [[1]]]",
        b'{"0": 1, "1": 2, "2": 3, "3": 4, "4": 5}',
        b"\xff\xfe",
        b"[[], [], [[" + b"9" * 9999 + b"]], [], 1]",
    ],
    ids=lambda head: repr(head[:20]),
)
def test_a_table_of_anything_else_is_damaged(maze, head):
    blocks = blocks_of(maze)
    blocks.head = head or b"\0"
    with pytest.raises(DamagedState, match="object graph"):
        maze.set_state(sealed(maze, blocks.data()))


class Views(gym.Env):
    """Holds an array and views of it, which a state refers to by where they lie."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.whole = np.zeros((4, 4))
        self.part, self.back = self.whole[::2, 1::2].T, self.whole.reshape(-1)[::-1]
        return np.zeros(1), {}

    def step(self, action):
        self.part[0, 1] += action
        self.back[0] += 1
        return np.array([self.whole.sum()]), 0.0, False, False, {}


def test_any_number_in_any_place_raises_nothing_but_state_errors():
    with GymEnv(Views) as env:
        env.reset(seed=0)
        env.step(1)
        good = env.get_state()
        for at in range(len(blocks_of(env).ints)):
            for number in (0, 1, 2, 3, 5, 12, 24, 25, 26, 100):
                changed = blocks_of(env)
                changed.ints[at] = number
                with contextlib.suppress(StateError):
                    env.set_state(sealed(env, changed.data()))
                env.set_state(good)


def test_any_kind_in_any_place_raises_nothing_but_state_errors():
    with GymEnv(Views) as env:
        env.reset(seed=0)
        env.step(1)
        good = env.get_state()
        for at in range(len(blocks_of(env).kinds)):
            for kind in range(40):
                changed = blocks_of(env)
                changed.kinds[at] = kind
                with contextlib.suppress(StateError):
                    env.set_state(sealed(env, changed.data()))
                env.set_state(good)


@pytest.mark.parametrize("number", [2**31 - 1, 2**63 - 1, -(2**63), -1])
def test_huge_and_negative_numbers_are_damage(maze, number):
    blocks = blocks_of(maze)
    for at in range(len(blocks.ints)):
        changed = blocks_of(maze)
        changed.ints[at] = number
        before = vars(maze.gym_env).copy()
        try:
            maze.set_state(sealed(maze, changed.data()))
        except StateError:
            assert vars(maze.gym_env) == before


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        (bytearray(b"ab"), (1 << 40,)),
        (array.array("d", [1.0]), ("d", 1 << 40)),
        (datetime.timedelta(1), (Key(None), 0, 0)),
        (pathlib.PurePosixPath("a"), (Key(None),)),
        (range(3), (Key(None), 1, 1)),
        (itertools.count(1), ((Key(None),), None)),
        (iter([1]), ((Key(None),), 0)),
        (zip([1], strict=False), ((Key(None),), None)),
        (fractions.Fraction(1, 2), (Key(None), 1)),
        (random.Random(1), (b"", None)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_data_of_other_parts_is_refused_before_anything_is_made_of_it(
    maze, value, wrong, monkeypatch
):
    found = data_type(type(value))
    forged = found._replace(parts=lambda _: wrong, holds_any=True)
    monkeypatch.setattr("plangym_ext.states.graph.writer.data_type", lambda _: forged)
    row = with_attribute(maze, "zz", [value], {})
    monkeypatch.undo()
    before = maze.get_state()
    with pytest.raises(DamagedState, match="object graph"):
        maze.set_state(row)
    assert maze.get_state().tobytes() == before.tobytes()


def test_rows_of_nothing_take_no_room(maze):
    blocks = blocks_of(maze)
    row = with_attribute(maze, "zz", [(1, 2), (3, 4)], {})
    assert len(row) > len(blocks.blob)
    for change in ((0, 1 << 31), (0, 1 << 62), (-1, 2), (1 << 31, 1 << 31)):
        changed = blocks_of_attribute(maze, [(1, 2)] * 77)
        at = changed.ints.index(77)
        assert changed.ints[at : at + 2] == [77, 2]
        changed.ints[at : at + 2] = change
        with pytest.raises(DamagedState, match="object graph"):
            maze.set_state(sealed(maze, changed.data()))


def blocks_of_attribute(env, value):
    """The present snapshot of an env that holds one more."""
    env.gym_env.zz = value
    try:
        return blocks_of(env)
    finally:
        del env.gym_env.zz


class Flat(gym.Env):
    """Holds one attribute of each kind that needs no graph, and a dict, which needs one."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number, self.count, self.on, self.none = 1.5, 3, True, None
        self.text, self.scalar, self.grid = "text", np.float32(2), np.arange(6.0).reshape(2, 3)
        self.floats, self.ints, self.place, self.speed = [1.0, 2.0], [1, 2], (1, 2), (0.5,)
        self.luck, self.fortune = random.Random(1), random.Random(2)
        self.fortune.gauss(0, 1)
        self.more = {"grid": self.grid, 1: [None], "luck": self.luck}
        return np.zeros(1), {}

    def step(self, action):
        self.count += int(action)
        return np.array([float(self.count)]), 0.0, False, False, {}


def test_any_byte_of_plain_attributes_raises_nothing_but_state_errors():
    rng = np.random.default_rng(0)
    with GymEnv(Flat) as env:
        good, *_ = env.reset(seed=0)
        data = snapshot_of(env)._data()
        assert data[:1] == b"G"
        env.set_state(sealed(env, data))
        assert env.gym_env.more["grid"] is env.gym_env.grid
        assert env.gym_env.more["luck"] is env.gym_env.luck
        outcomes = set()
        for at in (*range(900), *range(900, len(data), 97)):
            for _ in range(3):
                changed = bytearray(data)
                changed[at] = rng.integers(256)
                try:
                    env.set_state(sealed(env, bytes(changed)))
                    outcomes.add("loaded")
                except StateError:
                    outcomes.add("refused")
                env.set_state(good)
            with contextlib.suppress(StateError):
                env.set_state(sealed(env, data[:at]))
            env.set_state(good)
        assert outcomes == {"loaded", "refused"}
        assert env.get_state().tobytes()[64:] == good.tobytes()[64:]


@pytest.mark.slow
def test_no_name_leads_to_harm_and_altered_snapshots_are_refused_or_load_as_they_are(tmp_path):
    # All envs with 100,000 of them: see the program.
    program = Path(__file__).parents[1] / "benchmarks" / "forge.py"
    count = "100000" if os.environ.get("PYTEST_LONG") else "600"
    out = tmp_path / "out.json"
    command = [sys.executable, program, "--count", count, "--out", out, "--only", *OWN]
    subprocess.run(
        command, check=True, capture_output=True, timeout=300 if len(count) < 5 else None
    )
    found = json.loads(out.read_text())
    for name in OWN:
        assert sum(found[name]["fuzz"].values()) == int(count) // len(OWN)
        assert found[name]["fuzz"].keys() == {"DamagedState", "UntrustedState", "loaded"}
    functions = found["Programs"]["scan"]["can be referred to"]
    assert functions == ["ordinary_envs.Heading", "ordinary_envs.rate"]


class Bound(Maze):
    """Keeps a method of one of its objects in another."""

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed)
        self.grid.key = Key(None)
        self.grid.key.opens = self.grid.sum
        return result


def test_a_method_is_bound_only_to_an_object_that_has_it():
    with GymEnv(Bound) as env:
        env.reset(seed=1)
        blocks = blocks_of(env)
        assert not any(blocks.digest)
        env.set_state(sealed(env, blocks.data()))
        assert env.gym_env.grid.key.opens() == 0
        other = types.MethodType(ordinary_envs.Grid.sum, Key(None))
        with pytest.raises(DamagedState, match="is no method of a Key"):
            env.set_state(with_attribute(env, "zz", [other], {}))
