"""Ids that a family resolves: what to install, what is refused, how users add their own."""

from __future__ import annotations

import importlib.util
import sys

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import MissingExtra, UnknownName
from plangym_ext.states import families
from plangym_ext.states.families import Family, register_family

SIMULATORS = {
    "dm_control/cheetah-run-v0": ("dm_control", "dm_control"),
    "retro/Airstriker-Genesis-v0": ("stable_retro", "retro"),
    "MiniGrid-Empty-5x5-v0": ("minigrid", "minigrid"),
    "highway-fast-v0": ("highway_env", "highway"),
}


@pytest.mark.parametrize("name", SIMULATORS)
def test_what_to_install_is_said(name, monkeypatch):
    module, extra = SIMULATORS[name]
    monkeypatch.delitem(gym.registry, name, raising=False)
    if importlib.util.find_spec(module) is not None:
        monkeypatch.setitem(sys.modules, module, None)
        monkeypatch.setitem(sys.modules, f"{module}.suite", None)
    with pytest.raises(MissingExtra, match=rf"{name}: .*pip install .*\.\[{extra}\]"):
        plangym_ext.make(name)


@pytest.mark.parametrize("name", ["SuperMarioBros-v0", "SuperMarioBros-1-1-v3"])
def test_mario_says_which_packages_it_needs(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "gym_super_mario_bros", None)
    with pytest.raises(MissingExtra, match=rf"{name}: needs gym-super-mario-bros 9.*retro/Super"):
        plangym_ext.make(name)


def test_close_names_of_a_family_are_suggested():
    pytest.importorskip("minigrid")
    with pytest.raises(UnknownName, match="did you mean 'MiniGrid-DoorKey-5x5-v0'"):
        plangym_ext.make("MiniGrid-DorKey-5x5-v0")


def test_users_resolve_names_of_their_own(monkeypatch):
    def resolve(name):
        length = float(name.partition("/")[2])
        return gym.envs.registration.EnvSpec(
            id=name,
            entry_point="gymnasium.envs.classic_control:PendulumEnv",
            kwargs={"g": length},
        )

    monkeypatch.setattr(families, "_families", list(families._families))
    monkeypatch.setattr(families, "_custom", list(families._custom))
    register_family(Family("planets", "planets", None, names=("planet/*",), resolve=resolve))
    with plangym_ext.make("planet/3.7") as env:
        assert env.name == "planet/3.7"
        assert env.gym_env.unwrapped.g == 3.7
        state, *_ = env.reset(seed=0)
        assert env.step(np.zeros(1, np.float32), state).truncated is False


def test_the_family_of_the_nearest_module_counts_and_of_two_the_later(monkeypatch):
    monkeypatch.setattr(families, "_families", list(families._families))
    monkeypatch.setattr(families, "_custom", list(families._custom))
    # The library's own envs lie around the file of dm_control.
    assert families.family_of_entry_point("plangym_ext.envs.dm_control:x").name == "dm_control"
    assert families.family_of_entry_point("plangym_ext.envs.sokoban.env:x").name == "own"
    for name, module in (("wide", "a"), ("near", "a.b"), ("late", "a.b"), ("other", "a.bc")):
        register_family(Family(name, module, None))
    found = [families.family_of_entry_point(f"{module}:x").name for module in ("a.b.c", "a.c")]
    assert found == ["late", "wide"]


def test_states_of_nes_py_are_exact():
    # By replay; for Python 3.13 alone: in tox -e mario.
    pytest.importorskip("gym_super_mario_bros")
    with plangym_ext.make("SuperMarioBros-v0", n_workers=0) as env:
        state, *_ = env.reset(seed=0)
        went_on = [(env.get_state(), *env.step(3, dt=4)[:3]) for _ in range(20)]
        assert env.exact
        for state, obs, *results in reversed(went_on):
            found = env.step(3, state, dt=4)
            assert found[1].tobytes() == obs.tobytes()
            assert [*found[2:4]] == results
