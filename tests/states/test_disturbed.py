"""Envs whose futures depend on what differs from process to process, or on the order of a set."""

from __future__ import annotations

import datetime
import os
import secrets
import subprocess
import sys
import time
import uuid
import weakref
from pathlib import Path
from time import perf_counter_ns

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import IncompleteState
from plangym_ext.states.trials import settings
from plangym_ext.states.trials.disturbed import _reorder
from plangym_ext.states.trials.round_trip import Trip

pytestmark = pytest.mark.slow


class Base(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Discrete(3)

    def __init__(self):
        self.names = {str(n) for n in range(30)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.array([0.0, 0.0]), {}

    def step(self, action):
        self.t += 1
        return np.array([float(self.t), self.shown()]), 1.0, self.t >= 40, False, {}

    def shown(self):
        return float("7" in self.names)


class Hashes(Base):
    def shown(self):
        return float(hash(str(self.t)) % 1009)


class HashesLate(Base):
    """Shows the hash of a text long after the proof."""

    def shown(self):
        return float(hash(str(self.t)) % 1009) * (self.t > 10_000)


class Orders(Base):
    def shown(self):
        return float(next(iter(self.names)))


class Late(Base):
    """Is slow to show that it looks at the clock: a minute has to pass."""

    def __init__(self):
        super().__init__()
        self.begun = time.monotonic()

    def shown(self):
        return float(time.monotonic() > self.begun + 60)


class ByName(Late):
    """The same with a function that its module has imported."""

    def __init__(self):
        super().__init__()
        self.ends = perf_counter_ns() + 60 * 10**9

    def shown(self):
        return float(perf_counter_ns() > self.ends)


class Dated(Late):
    """The same by dates."""

    def __init__(self):
        super().__init__()
        self.ends = datetime.datetime.now() + datetime.timedelta(minutes=1)

    def shown(self):
        return float(datetime.datetime.now() > self.ends)


class Lucky(Base):
    """Draws from the system in each step, and shows one in ten thousand of them."""

    def shown(self):
        return float(secrets.randbelow(10_000) == 0)


class Unlucky(Base):
    """The same with the highest number, by a function that it holds itself."""

    urandom = staticmethod(os.urandom)

    def shown(self):
        return float(os.urandom(2) == b"\xff\xff" or self.urandom(4) == b"\0\0\0\0")


class Labelled(Base):
    """Draws a name from the system, which shows nowhere."""

    def step(self, action):
        uuid.uuid4()
        return super().step(action)


class Measured(Base):
    """Measures its steps, and shows nothing of it."""

    def shown(self):
        self.seconds = time.perf_counter()
        return super().shown()


class Named:
    """Is found by its hash, which is that of a text."""

    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return self.name == other.name


class Finds(Base):
    """Asks for hashes, and depends on none."""

    def reset(self, **options):
        self.found = {Named(name): int(name) for name in sorted(self.names)}
        return super().reset(**options)

    def shown(self):
        return float(self.found[Named("7")] + hash((1, 2)) % 5)


#: What a new process runs: it plays from a state that a file holds, which it may have to make.
PROGRAM = """
import sys, numpy as np, plangym_ext
from plangym_ext.errors import ForeignState
from test_disturbed import Orders
with plangym_ext.make(Orders, backend="serial") as env:
    state, *_ = env.reset(seed=0)
    if sys.argv[1] == "made":
        np.save(sys.argv[2], state)
    try:
        print(env.step(1, np.load(sys.argv[2])).obs[1])
    except ForeignState as error:
        print("refused", error)
"""


def played(role, path, seed):
    folder = str(Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, role, str(path)],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": folder},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("make", "who"),
    [
        (Late, "time.monotonic in Late.shown"),
        (ByName, "perf_counter_ns in ByName.shown"),
        (Dated, "datetime.now in Dated.shown"),
    ],
)
@pytest.mark.parametrize("capture", ["snapshot", "replay"])
def test_what_the_clock_decides_is_refused_although_it_shows_late(make, who, capture):
    with pytest.raises(IncompleteState, match=f"asks for the time .*{who}"):
        plangym_ext.make(make, backend="serial", capture=capture)


def test_a_clock_that_decides_nothing_is_no_matter():
    with plangym_ext.make(Measured, backend="serial") as env:
        assert env.exact
        assert not any("asks" in note for note in env.exactness.notes)


@pytest.mark.parametrize("make", [Lucky, Unlucky])
def test_draws_from_the_system_are_refused_although_few_show(make):
    who = rf"asks the system for random numbers \({make.__name__}.shown"
    with pytest.raises(IncompleteState, match=who):
        plangym_ext.make(make, backend="serial", capture="snapshot")


@pytest.mark.parametrize("make", [Lucky, Unlucky])
def test_they_are_refused_where_a_proof_has_no_time(make, monkeypatch):
    # As on a busy machine: only what every proof looks at is looked at.
    monkeypatch.setattr(Trip, "_is_over", lambda *_: True)
    test_draws_from_the_system_are_refused_although_few_show(make)


def test_draws_from_the_system_that_show_nowhere_are_told():
    with plangym_ext.make(Labelled, backend="serial") as env:
        assert env.exact
        assert any("Labelled.step asks the system" in note for note in env.exactness.notes)


@pytest.mark.timeout(300)
def test_states_of_other_hashes_are_refused_in_another_session(tmp_path):
    path = tmp_path / "state.npy"
    first = played("made", path, "1")
    assert played("found", path, "1") == first
    assert "PYTHONHASHSEED" in played("found", path, "2")


@pytest.mark.parametrize("make", [Hashes, HashesLate, Orders])
def test_workers_with_other_hashes_are_refused(make):
    with plangym_ext.make(make, backend="serial") as env:
        assert "hashes of texts" in env.exactness.notes[0]
        state, *_ = env.reset(seed=0)
        expected = env.step(1, state).obs
        assert (env.step_batch([1, 1], [state, state]).obs == expected).all()
    if os.environ.get("PYTHONHASHSEED", "random") == "random":
        with pytest.raises(IncompleteState, match="PYTHONHASHSEED"):
            plangym_ext.make(make, n_workers=1)


@pytest.mark.parametrize("make", [Base, Finds])
def test_what_does_not_depend_on_them_goes_everywhere(make):
    with plangym_ext.make(make, n_workers=1) as env:
        assert not env.exactness.notes
        state, *_ = env.reset(seed=0)
        assert (env.step_batch([1], [state]).obs[0] == env.step(1, state).obs).all()


class Part:
    def __init__(self, mass):
        self.mass = mass


class WeakParts(Base):
    """Sums up in the order of addresses, which decides the last bit of few sums."""

    def reset(self, **options):
        self.parts = [Part(0.1), Part(0.7)]
        self.held = weakref.WeakSet(self.parts)
        return super().reset(**options)

    def shown(self):
        return sum(part.mass for part in self.held)


class Parts(WeakParts):
    """Goes through a set of objects, whose order shows at once."""

    def reset(self, **options):
        shown = super().reset(**options)
        self.held = {*self.parts, *map(Part, range(8))}
        return shown

    def shown(self):
        return float(next(iter(self.held)).mass)


class Cells(Base):
    """Another order of the same whole numbers, in few episodes."""

    def reset(self, *, seed=None, options=None):
        shown = super().reset(seed=seed)
        self.cells = {8, 0} if self.np_random.random() < 0.001 else {0, 8}
        return shown

    def shown(self):
        return float(next(iter(self.cells)))


class FixedCells(Cells):
    """An order that nothing changes."""

    def __init__(self):
        super().__init__()
        self.cells = {0, 8}

    def reset(self, *, seed=None, options=None):
        return Base.reset(self, seed=seed)


@pytest.mark.parametrize(
    ("make", "holder"), [(WeakParts, "Part in shown"), (Parts, "order of a set in Parts.held")]
)
def test_the_order_of_objects_is_refused(make, holder):
    with pytest.raises(IncompleteState, match=f"{holder}.*addresses") as caught:
        plangym_ext.make(make, backend="serial", capture="replay")
    assert "list or a dict" in str(caught.value)


def test_states_with_an_order_that_elements_do_not_tell_are_replayed():
    with plangym_ext.make(FixedCells, backend="serial") as env:
        assert env.exactness.method == "snapshot"
    with plangym_ext.make(Cells, backend="serial") as env:
        assert env.exactness.method == "replay"
    with pytest.raises(IncompleteState, match=r"Cells\.cells"):
        plangym_ext.make(Cells, backend="serial", capture="snapshot")


def test_sets_of_texts_get_another_order_where_hash_is_made_another(monkeypatch):
    plain = hash
    monkeypatch.setattr("builtins.hash", lambda value: plain(value) + 1_000_003)
    for number in range(60):
        found = {f"{number} {k}" for k in range(30)}
        before = list(found)
        _reorder(found)
        assert found == {*before}
        assert next(iter(found)) != before[0]


def test_every_setting_of_the_process_answers():
    # One that raises is left out, and its changes would never be named.
    assert settings.settings().keys() == settings._SETTINGS.keys()


def test_large_numbers_of_modules_have_marks(monkeypatch):
    monkeypatch.setattr(sys, "a_large_number", 10**5000, raising=False)
    first = settings.scalars()["sys.a_large_number"]
    monkeypatch.setattr(sys, "a_large_number", 10**5000 + 1)
    assert settings.scalars()["sys.a_large_number"] != first
