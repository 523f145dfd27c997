"""What steps change and no state holds is found though no result shows it within a proof."""

from __future__ import annotations

import datetime
import decimal
import sys
import time

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import IncompleteState
from plangym_ext.states.trials.digests import Marking, digest, has_grown
from plangym_ext.states.trials.surroundings import changed

HERE = sys.modules[__name__]
BOARD, SCRATCH = np.zeros(64), np.zeros(8)
WHEN, PRICE = datetime.datetime(2020, 1, 1), decimal.Decimal(1)
TABLE = [[n] for n in range(30_000)]


class Late(gym.Env):
    """Turns something in each step, and shows it from the step 2,000 on."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(2), {}

    def step(self, action):
        self.t += 1
        value = float(self.turn(int(action) + 1))
        return np.array([self.t, value * (self.t > 2000)]), 0.0, self.t >= 3000, False, {}


class ViewOfModule(Late):
    def __init__(self):
        self.cells = BOARD[4:9]

    def turn(self, value):
        self.cells[0] += value
        return BOARD[4]


class DateOfModule(Late):
    def turn(self, value):
        HERE.WHEN += datetime.timedelta(days=value)
        return WHEN.toordinal()


class NumberOfModule(Late):
    def turn(self, value):
        HERE.PRICE += value
        return PRICE


class EndOfTable(Late):
    def turn(self, value):
        TABLE[-1][0] += value
        return TABLE[-1][0]


class ClassOfEnv(Late):
    def turn(self, value):
        if self.t == 5:
            self.__class__ = OtherClass
        return type(self) is OtherClass


class OtherClass(ClassOfEnv):
    pass


class KeptByReset(Late):
    """Has what pickle refuses, so that it is played again, and an array that resets leave."""

    def __init__(self):
        self.sums, self.steps, self.held = np.zeros(3), 0, (n for n in range(9))

    def turn(self, value):
        self.steps += 1
        self.sums[self.t % 3] += value
        return self.sums.sum()


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ViewOfModule, "BOARD"),
        (DateOfModule, "WHEN"),
        (NumberOfModule, "PRICE"),
        (EndOfTable, "TABLE"),
        (ClassOfEnv, "the class of"),
        (KeptByReset, "a replay does not bring back KeptByReset.sums"),
    ],
)
def test_what_no_state_holds_is_refused_before_it_shows(kind, name):
    with pytest.raises(IncompleteState, match=name):
        plangym_ext.make(kind, backend="serial", autoreset=False)


class Counts(KeptByReset):
    """Only counts the steps of all episodes."""

    def turn(self, value):
        self.steps += 1
        return value


class Part:
    """An object of the env's own, in a list and twice; it looks at the clock."""

    def __init__(self):
        self.sums, self.now = np.zeros(3), time.time()


class OtherPart(Part):
    pass


class Holds(KeptByReset):
    """Keeps what `KeptByReset` does in an object, which resets make anew."""

    def __init__(self):
        self.held = (n for n in range(9))

    def reset(self, **options):
        self.parts = [Part()] * 2
        return super().reset(**options)

    def turn(self, value):
        self.parts[0].sums[self.t % 3] += value
        return self.parts[0].sums.sum()


class HoldsOn(Holds):
    def reset(self, **options):
        kept = getattr(self, "parts", None)
        found = super().reset(**options)
        self.parts = kept or self.parts
        return found


class Rewrites(Late):
    """Writes an array of its module anew in each step before it reads it."""

    def turn(self, value):
        SCRATCH[:] = value * np.arange(8)
        return SCRATCH.sum()


def test_a_count_that_a_replay_leaves_is_told_and_a_buffer_is_no_state():
    with plangym_ext.make(Counts, backend="serial") as env:
        assert env.exactness.method == "replay"
        assert "a replay does not bring back Counts.steps" in env.exactness.notes
    with plangym_ext.make(Holds, backend="serial") as env:
        assert env.exactness.method == "replay"
        assert env.exactness.notes == ("a replay does not bring back Holds.parts[0].now",)
    with pytest.raises(IncompleteState, match=r"not bring back HoldsOn.parts\[0\].sums, which"):
        plangym_ext.make(HoldsOn, backend="serial", autoreset=False)
    with plangym_ext.make(Rewrites, backend="serial") as env:
        assert env.exactness.method == "snapshot"


def test_parts_that_are_gone_have_changed_and_new_ones_are_growth():
    def marks(value):
        marking = Marking()
        marking.add_parts("v", value)
        return marking.found

    two, one = [Part(), Part()], [Part()]
    one[0].now = two[0].now
    assert changed(marks(two), marks(one)) == ["v"]
    assert changed(marks(one), marks([*one, Part()])) == []
    assert changed(marks({"a": Part(), "b": 1}), marks({"b": 1, "c": Part()}))[0] == "v"
    other = Part()
    other.__class__ = OtherPart
    other.now = one[0].now
    assert changed(marks(one), marks([other])) == ["v[0]"]
    before = marks(two)
    two[1].now = two[0].now
    assert changed(marks(two), marks([two[0]] * 2)) == ["v[1]"]
    del two[1].now
    assert changed(before, marks(two)) == ["v[1]"]


def marked(value):
    marking = Marking()
    marking.add("value", value)
    return marking.found["value"]


@pytest.mark.parametrize("length", [10, 5000])
def test_marks_tell_growth_from_change(length):
    numbers = [[n] for n in range(length)]
    before, table = marked(numbers), marked(dict(enumerate(numbers)))
    assert has_grown(before, marked([*numbers, [1]]))
    assert has_grown(table, marked(dict(enumerate([*numbers, [1]]))))
    numbers[-1][0] = -1
    assert not has_grown(before, marked(numbers))
    assert not has_grown(table, marked(dict(enumerate(numbers))))


def test_digests_are_of_all_data():
    torch = pytest.importorskip("torch")
    base = torch.zeros(4)
    for one, two in (
        (WHEN, WHEN + datetime.timedelta(1)),
        (decimal.Decimal(1), decimal.Decimal(2)),
        (torch.zeros(2), torch.ones(2)),
        (base[1:], torch.ones(3)),
        (np.zeros(3 << 20), np.r_[np.zeros((3 << 20) - 1), 1.0]),
        (np.zeros(1 << 18, "M8[s]"), np.ones(1 << 18, "M8[s]")),
        (np.zeros(1 << 18, "i4,f8"), np.ones(1 << 18, "i4,f8")),
        (np.float64(1), np.float64(2)),
    ):
        assert digest(one) != digest(two)
        assert digest(one) == digest(one)
