"""Fingerprints by content: states fit envs that were made with the same, and no others."""

import dataclasses
import functools
import pathlib

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest

from plangym_ext import make
from plangym_ext.errors import ForeignState
from plangym_ext.states.content_hash import content_digest


@dataclasses.dataclass
class Config:
    scale: float = 1.0
    extra: object = None


class Silent:
    """An object whose text tells nothing."""

    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return "Silent()"


class Table(gym.Env):
    """Shows what it was made with, and has a state of its own: where it stands."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, data=None, render_mode=None):
        self.at = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return np.zeros(1), {}

    def step(self, action):
        self.at += 1
        return np.full(1, float(self.at)), 0.0, False, False, {}

    def get_state(self):
        return self.at

    def set_state(self, state):
        self.at = state


gym.register("ContentTable-v0", entry_point=Table)


def _times(factor):
    return lambda x: factor * x


def _frame(place, value):
    found = pd.DataFrame({"a": np.arange(4000.0), "b": ["x"] * 4000})
    found.loc[place, "a"] = value
    return found


def _array(value):
    found = np.zeros(5000)
    found[2500] = value
    return found


#: Makers of two values that differ, by an argument.
KINDS = {
    "array": _array,
    "nested arrays": lambda x: [{"a": (_array(x),)}],
    "frame": lambda x: _frame(2000, x),
    "labels": lambda x: _frame(0, 0.0).rename(columns={"a": f"column {x}"}),
    "series": lambda x: _frame(2000, x)["a"],
    "dataclass": lambda x: Config(extra=Config(scale=x)),
    "object with a fixed text": lambda x: Silent(Silent(x)),
    "objects in an array": lambda x: np.array([None, Silent(x)], object),
    "path": lambda x: pathlib.Path(f"data_{x}.csv"),
    "closure": lambda x: _times(x),
    "partial": lambda x: functools.partial(_times, x),
    "default": lambda x: lambda y, z=x: y * z,
    "method": lambda x: Silent(x).__repr__,
    "set of tuples": lambda x: {("a", 1.0), ("b", x)},
    "random state": lambda x: np.random.default_rng(int(x)),
    "space": lambda x: gym.spaces.Box(-np.inf, x + np.zeros(3000), dtype=np.float64),
}


@pytest.mark.parametrize("kind", KINDS)
def test_values_have_one_digest_if_they_hold_the_same(kind):
    make_value = KINDS[kind]
    assert content_digest(make_value(1.0)) == content_digest(make_value(1.0))
    assert content_digest(make_value(1.0)) != content_digest(make_value(2.0))


def test_functions_differ_by_their_code():
    assert content_digest(lambda x: x + 1) != content_digest(lambda x: x + 2)
    assert content_digest(lambda x: x + 1) != content_digest(lambda x: x - 1)


def test_what_cannot_be_taken_apart_is_itself_alone():
    one, two = (i for i in range(3)), (i for i in range(3))
    assert content_digest(one) == content_digest(one)
    assert content_digest(one) != content_digest(two)


def _are_exchanged(first, second):
    """Return whether a state of one env fits another, each of (what to make, arguments)."""
    (one, a), (two, b) = first, second
    with make(one, backend="serial", **a) as giver, make(two, backend="serial", **b) as taker:
        giver.reset(seed=0)
        state = giver.step(1, return_state=True).state
        try:
            taker.set_state(state)
        except ForeignState:
            return False
        return True


@pytest.mark.parametrize("kind", ["frame", "dataclass", "closure", "objects in an array"])
@pytest.mark.parametrize("how", ["argument", "partial", "closure", "global", "wrapped"])
def test_states_fit_envs_that_were_made_with_the_same(kind, how):
    def made(value):
        data = KINDS[kind](value)
        if how == "argument":
            return "ContentTable-v0", {"data": data}
        if how == "partial":
            return functools.partial(Table, data), {}
        if how == "closure":
            return (lambda: Table(data)), {}
        if how == "wrapped":
            return (lambda: gym.wrappers.TransformReward(Table(), lambda r: r * len([data]))), {}
        space = {"Table": Table, "data": data}
        exec("def build(): return Table(data)", space)
        space["build"].__module__ = __name__
        return space["build"], {}

    assert _are_exchanged(made(1.0), made(1.0))
    assert not _are_exchanged(made(1.0), made(2.0))


def test_a_class_and_functions_that_enclose_nothing_make_the_same():
    assert _are_exchanged((Table, {}), (lambda: Table(), {}))


def _ranked(rank, size):
    return lambda seed=rank: Table(np.zeros(size) + 0 * seed + 0 * rank)


def test_the_number_of_a_sub_env_and_its_seed_do_not_count():
    assert _are_exchanged((_ranked(0, 3), {}), (_ranked(1, 3), {}))
    assert not _are_exchanged((_ranked(0, 3), {}), (_ranked(0, 4), {}))


def test_workers_know_the_data_that_their_function_encloses():
    data = _array(3.0)
    build = functools.partial(Table, data)
    with make(build, backend="serial") as env, make(build, n_workers=2) as parallel:
        state, _, _ = env.reset(seed=0)
        found = parallel.step_batch(np.zeros(2, np.int64), [state, state])
        assert found.obs.tolist() == [[1.0], [1.0]]


def test_a_space_is_known_by_its_values_and_not_by_how_numpy_prints_them():
    def space(low, kind=gym.spaces.Box):
        box = gym.spaces.Box(np.array([low, -2.0]), np.array([1.0, 2.0]), dtype=np.float64)
        return box if kind is gym.spaces.Box else kind((box, gym.spaces.Discrete(3)))

    for kind in (gym.spaces.Box, gym.spaces.Tuple):
        found = content_digest(space(-1.123456789, kind))
        with np.printoptions(precision=3):
            assert content_digest(space(-1.123456789, kind)) == found
            assert content_digest(space(-1.123456788, kind)) != found
    boxes = [
        gym.spaces.Box(0, 1, (2, 2), np.uint8),
        gym.spaces.Box(0, 1, (4,), np.uint8),
        gym.spaces.Dict(a=gym.spaces.Discrete(2), b=gym.spaces.Discrete(3)),
        gym.spaces.Dict(a=gym.spaces.Discrete(3), b=gym.spaces.Discrete(2)),
        gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.Discrete(3)]),
        gym.spaces.Text(5),
        gym.spaces.Text(6),
    ]
    assert len({content_digest(one) for one in boxes}) == len(boxes)
