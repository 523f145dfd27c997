"""No name that libraries look up on any object becomes an attribute by a row's word."""

from __future__ import annotations

import contextlib

import gymnasium as gym
import numpy as np
import pytest
from forging import forged, namespaces
from gymnasium.envs.classic_control import CartPoleEnv
from structures import Structured, structures

import plangym_ext
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import DamagedState, StateError, UntrustedState
from plangym_ext.states import plain
from plangym_ext.states.envelope import HEADER, state_content
from plangym_ext.states.part import get_block, put_block

SECRET = np.frombuffer(
    b"what no state of this env ever held, and no row is ever to show!", np.uint8
)
#: Of the kind that each library wants.
NAMES = {
    "__array_interface__": {
        "data": (SECRET.ctypes.data, False),
        "shape": (9,),
        "typestr": "<f4",
        "version": 3,
    },
    "__array_struct__": 0x10,
    "__array__": None,
    "__cuda_array_interface__": {"data": (0x10, True), "shape": (9,), "typestr": "<f4"},
    "__array_priority__": 1e9,
    "__deepcopy__": None,
    "__class__": 1,
    "__dict__": {},
    "__anything__": 1,
    "_as_parameter_": 0x10,
}
FAMILIES = {
    "MiniGrid-DoorKey-5x5-v0": "minigrid",
    "highway-fast-v0": "highway_env",
    "dm_control/cartpole-swingup-v0": "dm_control",
}


def refused_everywhere(env):
    """Put every name in every place of a snapshot; return the places."""
    good = env.get_state()
    places = [(what, found) for what, found in namespaces(env)]
    for what, found in places:
        for name, value in NAMES.items():
            found[name] = value
            try:
                row = forged(env)
            finally:
                del found[name]
            with pytest.raises(StateError) as caught:
                env.set_state(row)
            assert name in str(caught.value), (what, name)
            assert state_content(env.get_state()) == state_content(good), (what, name)
    env.set_state(good)
    return {what for what, _ in places}


@pytest.mark.parametrize(("number", "container"), structures())
def test_no_place_of_any_structure_takes_such_a_name(number, container):
    with GymEnv(lambda: Structured(number, container)) as env:
        env.reset(seed=1)
        assert env.codec.method == "snapshot"
        assert "layer Structured" in refused_everywhere(env)
        env.step_batch(np.array([1]), forged(env)[None])


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_no_place_of_a_shipped_family_takes_such_a_name(name):
    pytest.importorskip(FAMILIES[name], reason=f"pip install plangym-ext[{FAMILIES[name]}]")
    with plangym_ext.make(name, backend="serial") as env:
        env.reset(seed=1)
        with contextlib.suppress(AssertionError):  # of a family with another codec at the end
            assert refused_everywhere(env)


@pytest.mark.parametrize("name", ["moved", "width", "Part", "kind"])
def test_nothing_that_a_class_has_is_replaced_in_an_instance(name):
    with GymEnv(lambda: Structured(1, "held")) as env:
        env.reset(seed=1)
        vars(env.gym_env.board)[name] = 1
        row = forged(env)
        del vars(env.gym_env.board)[name]
        with pytest.raises(UntrustedState, match=f"Heir.{name}, in the place of a method"):
            env.set_state(row)


def test_what_a_cached_property_has_found_is_state():
    with GymEnv(lambda: Structured(1, "held")) as env:
        env.reset(seed=1)
        assert env.gym_env.board.total == 0
        row = forged(env)
        env.reset(seed=2)
        env.set_state(row)
        assert vars(env.gym_env.board)["total"] == 0


class Everyone(Structured):
    """Keeps such names itself, as envs of several agents do."""

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed)
        self.done = {"__all__": False, "one": True}
        return result


def test_an_env_that_has_such_names_itself_reads_its_own_states():
    with GymEnv(lambda: Everyone(0, "held")) as env:
        env.reset(seed=1)
        here = env.get_state()
        env.gym_env.done["__all__"] = True
        env.set_state(here)
        assert env.gym_env.done == {"__all__": False, "one": True}
        # As it came from another session.
        with pytest.raises(UntrustedState, match="__all__"):
            env.set_state(forged(env))


class Counting(CartPoleEnv):
    """A field beside those that the codec of its family has."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def step(self, action):
        self.count += 1
        return super().step(action)


@pytest.mark.parametrize(
    ("changed", "gone"),
    [
        *(({name: 1}, []) for name in NAMES),
        ({"step": 1}, []),
        ({"np_random": 1}, []),
        ({"state": 1}, []),
        ({"_np_random": 1}, []),
        ({"spec": 1}, []),
        ({1: 1}, []),
        ({}, ["gravity2"]),
        ({}, [["x"]]),
        ([], []),
        ({}, None),
    ],
)
def test_fields_beside_a_codec_are_fields_and_nothing_else(changed, gone):
    with GymEnv(Counting) as env:
        env.reset(seed=1)
        env.step(1)
        good = env.get_state()
        if isinstance(changed, dict):
            changed = {name: plain.encode(value) for name, value in changed.items()}
        row = last_block(env, changed, gone)
        before = dict(vars(env.gym_env.unwrapped))
        with pytest.raises(StateError):
            env.set_state(row)
        assert vars(env.gym_env.unwrapped).keys() == before.keys()
        env.set_state(good)
        assert env.gym_env.unwrapped.count == before["count"]


def last_block(env, changed, gone):
    """A row in which the part after the codec says something else."""
    # Written by hand: `plain.encode` refuses such names, too.
    names = b"".join(
        plain.encode(name) + plain.encode(data) for name, data in dict(changed or {}).items()
    )
    made = b"d" + len(changed or {}).to_bytes(4, "little") + names
    if not isinstance(changed, dict):
        made = plain.encode(changed)
    data = b"t" + (2).to_bytes(4, "little") + made + plain.encode(gone)
    row = np.zeros((1, env.state_width + 1024), np.uint8)
    env.widen(row.shape[1])
    buffer, offset, end = row[0].data, HEADER, row.shape[1]
    for part in env.codec.parts:
        if type(part).__name__ == "ExtraFieldsPart":
            offset = put_block(buffer, offset, end, data)
        else:
            offset = part.capture(buffer, offset, end)
    env.envelope.seal(row, offset - HEADER)
    return row[0]


class Poured(gym.Env):
    """Its own `set_state` makes attributes of what it is given."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (9,), np.float64)
    action_space = gym.spaces.Discrete(9)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cells = [0.0] * 9
        return np.zeros(9), {}

    def step(self, action):
        self.cells[action] += 1
        return np.array(self.cells), 0.0, False, False, {}

    def get_state(self):
        return {"cells": self.cells, "luck": self.np_random}

    def set_state(self, state):
        self.np_random = state.pop("luck")
        vars(self).update(state)


@pytest.mark.parametrize("name", NAMES)
def test_what_an_env_is_given_has_no_such_key(name):
    with GymEnv(Poured) as env:
        env.reset(seed=1)
        good = env.get_state()
        data, _ = get_block(good[HEADER:].data, 0)
        assert data[:5] == b"d" + (2).to_bytes(4, "little")
        # One entry more, before the others.
        more = b"d" + (3).to_bytes(4, "little") + b"u" + len(name).to_bytes(4, "little")
        data = more + name.encode() + plain.encode(1) + data[5:]
        env.widen(env.state_width + 512)
        row = np.zeros((1, env.state_width), np.uint8)
        env.envelope.seal(row, 0)
        env.envelope.seal(row, put_block(row[0].data, HEADER, row.shape[1], data) - HEADER)
        with pytest.raises(DamagedState, match=name):
            env.set_state(row[0])
        env.set_state(good)


def test_plain_values_have_no_such_keys():
    for name in NAMES:
        with pytest.raises(plain.NotPlain, match=name):
            plain.encode({name: 1})
