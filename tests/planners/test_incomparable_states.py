"""Planners that look for equal states refuse those whose bytes do not tell."""

from __future__ import annotations

import pytest
from pickled_env import PickledEnv

import plangym_ext
from plangym_ext.errors import InvalidOption
from plangym_ext.planners import MCTS, GraphSearch


@pytest.mark.parametrize("backend", ["serial", "process"])
def test_states_that_are_pickled_are_not_compared(backend):
    with plangym_ext.make(PickledEnv, backend=backend, capture="snapshot") as env:
        state, obs, _ = env.reset(seed=0)
        assert "PickledEnv.held holds a pickled_env.Slotted" in env.incomparable
        for planner, option in (
            (MCTS(4, keep_tree=True, rollout_depth=2), "keep_tree=False"),
            (GraphSearch(4), "state_key='obs'"),
        ):
            with pytest.raises(InvalidOption, match=option):
                planner.plan(env, state, rng=0, obs=obs)
        MCTS(4, rollout_depth=2).plan(env, state, rng=0, obs=obs)


def test_other_states_are():
    with plangym_ext.make("CartPole-v1", backend="serial") as env:
        state, obs, _ = env.reset(seed=0)
        assert env.incomparable == ""
        MCTS(4, keep_tree=True, rollout_depth=2).plan(env, state, rng=0, obs=obs)
