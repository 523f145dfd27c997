"""The contract on the library's own envs: they offer their state themselves."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from contract.env_contract import EnvContract

import plangym_ext


class TestNarrowPath(EnvContract):
    """Nothing is random, so one seed is like another."""

    name = "plangym_ext/NarrowPath-v0"
    options: ClassVar = {"n": 30}
    all_bits = True
    renders = False  # a text

    @classmethod
    def policy(cls, env, seed):
        return lambda t: 0

    @classmethod
    def harmless_action(cls, env):
        return 0

    def test_seeds_differ(self, episodes):
        assert len({episode.states[17].tobytes() for episode in episodes.values()}) == 1


class TestChainMDP(EnvContract):
    name = "plangym_ext/ChainMDP-v0"
    options: ClassVar = {"n": 12, "p": 0.6}
    all_bits = True
    renders = False  # a text

    @classmethod
    def harmless_action(cls, env):
        return int(env.gym_env.unwrapped.cell < 6)  # away from the nearer end


class TestTMaze(EnvContract):
    """A side of two is drawn, so some seeds are alike."""

    name = "plangym_ext/TMaze-v0"
    options: ClassVar = {"n": 8}
    renders = False  # a text

    @classmethod
    def harmless_action(cls, env):
        return 3  # west, away from the junction


class TestSokoban(EnvContract):
    """Every reset generates a level."""

    name = "plangym_ext/Sokoban-v0"
    options: ClassVar = {"dim": (7, 7), "num_boxes": 2}


class TestSokobanInColour(EnvContract):
    """Levels in their order, and pictures of them."""

    name = "plangym_ext/Sokoban-v0"
    options: ClassVar = {
        "levels": ["#######\n#@ $. #\n#  *  #\n#######", "#######\n# @$. #\n#  *  #\n#######"],
        "level_order": "sequential",
        "observation": "rgb",
    }
    seeds = (0,)
    spread = False  # one seed

    @classmethod
    def harmless_action(cls, env):
        return 0  # against the wall

    def test_seeds_differ(self, episode):
        # The order of the levels does not depend on a seed, and every other one comes next.
        with plangym_ext.make(self.name, **self.options) as env:
            boards = [env.reset(seed=seed)[1] for seed in (0, 1, None, None)]
        assert [np.array_equal(boards[0], board) for board in boards] == [True, True, False, True]


@pytest.mark.parametrize(
    ("name", "whole", "shown"),
    [
        ("plangym_ext/CartPoleNoVelocity-v0", "CartPole-v1", [0, 2]),
        ("plangym_ext/PendulumNoVelocity-v0", "Pendulum-v1", [0, 1]),
    ],
)
def test_velocities_are_not_shown_and_restored_all_the_same(name, whole, shown):
    with plangym_ext.make(name) as env, plangym_ext.make(whole) as other:
        report = plangym_ext.check_env(env, num_steps=60)
        assert report.exact, report
        seen = [one.reset(seed=5)[1] for one in (env, other)]
        np.testing.assert_array_equal(seen[0], seen[1][shown])
        assert env.observation_space.contains(seen[0])
