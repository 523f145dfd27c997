"""What states cost is measured, and the attribute that makes them dear is named."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from pickled_env import PickledEnv

import plangym_ext
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.states.costs import attribute_costs, cost_note


class Wide(gym.Env):
    """Holds two numbers and a large array."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count, self.map, self.speed = 0, np.zeros(200_000), 0.5
        return np.zeros(1), {}

    def step(self, action):
        self.count += 1
        return np.array([float(self.count)]), 0.0, False, False, {}


def test_costs_are_those_of_the_state_as_it_is():
    with GymEnv(Wide) as env:
        env.reset(seed=0)
        before = env.get_state()
        costs = {cost.name: cost for cost in attribute_costs(env.codec)}
        assert costs["Wide.map"].bytes > 8 * 200_000 > 1000 > costs["Wide.count"].bytes
        assert not any(cost.pickled for cost in costs.values())
        assert env.get_state().tobytes() == before.tobytes()


def test_wide_and_pickled_states_are_told_once_they_are_made():
    with plangym_ext.make(Wide, backend="serial") as env:
        assert "bytes wide" in env.backend_note
    with plangym_ext.make(PickledEnv, backend="serial") as env:
        assert "pickled, for PickledEnv.held holds a pickled_env.Slotted" in env.backend_note
        (cost,) = (cost for cost in attribute_costs(env.codec) if cost.pickled)
        assert cost.name == "PickledEnv.held"
    with plangym_ext.make("CartPole-v1", backend="serial") as env:
        assert cost_note(env.codec) == ""


def test_the_doctor_names_the_attribute(capsys):
    cli = pytest.importorskip("plangym_ext.run.cli")
    gym.register("WideForDoctor-v0", Wide)
    try:
        assert cli.main(["doctor", "WideForDoctor-v0", "--steps", "3"]) == 0
    finally:
        del gym.registry["WideForDoctor-v0"]
    shown = capsys.readouterr().out
    assert "Wide.map: 1,600," in shown
    assert "bytes wide" in shown
