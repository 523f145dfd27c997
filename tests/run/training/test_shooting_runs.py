"""Runs of planners whose rollouts or walks follow the policy that is taught."""

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.errors import InvalidOption
from plangym_ext.planners import play
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.parts import Parts
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.trained import Trained

pytestmark = pytest.mark.slow

OPTIONS = {
    "bandit": {"num_simulations": 16, "c_puct": 0.5, "rollout_depth": 5},
    "shooting": {"num_simulations": 16},
    "mcts": {"num_simulations": 16},
    # pi-IW; five steps a move see the goal only where they go the right way.
    "rollout-iw": {"num_simulations": 5, "features": "whole", "temperature": 0.2},
}


def settings(planner="bandit", **changed):
    """Return those of a small run on a lake where a wrong step ends the episode."""
    return compose(
        [
            {
                "env": {
                    "id": "FrozenLake-v1",
                    "kwargs": {"is_slippery": False, "desc": ["SFH", "HFF", "HHG"]},
                    "max_steps": 8,
                },
                "planner": {"name": planner, **OPTIONS[planner]},
                "agent": {"name": "network", "hidden": [16], "heads": ["policy"]},
                "algorithm": {
                    "name": "histogram",
                    "value_target": None,
                    "learning_rate": 0.02,
                    "batch_size": 32,
                    "learning_starts": 16,
                    "capacity": 600,
                    "updates_per_round": 60,
                },
                "collector": {"num_envs": 8, "moves": 8},
                "evaluation": {"player": "planner", "every": 0},
                "rounds": 16,
                "seed": 1,
            },
            changed,
        ]
    )


@pytest.mark.parametrize(("planner", "most"), [("bandit", 0.5), ("rollout-iw", 0.8)])
def test_rollouts_follow_the_policy_that_is_taught(tmp_path, planner, most):
    config = settings(planner)
    with Parts(config).env() as env:
        alone = play(env, config.planner.make(), seed=100, num_episodes=20, max_steps=8)
    with Runner(config, tmp_path) as runner:
        runner.run()
    with Trained(tmp_path) as trained:
        taught = trained.play(20)
    before, after = (np.mean([sum(e.rewards) for e in es]) for es in (alone, taught))
    assert before < most
    assert after > 0.9


@pytest.mark.parametrize("planner", ["bandit", "shooting", "rollout-iw"])
def test_only_what_is_taught_is_played(planner):
    parts = Parts(settings(planner))
    with parts.env() as env:
        agent = parts.agent(parts.network(env))
    evaluator = agent.evaluator
    assert parts.player(agent).rollout_policy == evaluator.policy
    np.testing.assert_allclose(evaluator.policy(np.arange(9)), 1 / 4)
    values = {
        "agent": {"name": "network", "heads": ["value"]},
        "algorithm": {"name": "histogram", "policy_target": None, "value_target": "return"},
    }
    parts = Parts(settings(planner, **values))
    with parts.env() as env:
        agent = parts.agent(parts.network(env))
    evaluator = agent.evaluator
    assert parts.player(agent).rollout_policy is None
    with pytest.raises(InvalidOption, match="must have a policy head"):
        evaluator.policy(np.arange(9))
    # Trees have it as the prior of their evaluator.
    assert settings("mcts").planner.make(evaluator, evaluator.policy).rollout_policy is None
