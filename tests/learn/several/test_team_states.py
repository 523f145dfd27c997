"""Saved states of teams whose algorithms save more than all of them do."""

from __future__ import annotations

import copy

import numpy as np
from parallel_envs import numbered

import plangym_ext
from plangym_ext.learn import (
    PPO,
    ActorCriticAgent,
    AgentConfig,
    SerialSampler,
    SupervisedConfig,
    SupervisedLearning,
    TeamsAgent,
    TeamsLearning,
    TeamsNetwork,
    make_agent_network,
    make_teams,
)


class Counting(PPO):
    """Saves a number of its own."""

    taken = 0

    def take(self, collected):
        super().take(collected)
        self.taken += 1

    def state_dict(self):
        return {**super().state_dict(), "taken": self.taken}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.taken = state["taken"]


def test_what_an_algorithm_adds_to_its_state_is_saved():
    def learning():
        config = SupervisedConfig(
            value_target="return", policy_target="action", learning_starts=1, batch_size=4
        )
        plans = SupervisedLearning(network.parts["y"], config)
        return TeamsLearning(network, algorithms={"x": Counting(network.parts["x"]), "y": plans})

    venv = plangym_ext.make_vec(numbered, 2, autoreset_mode="same_step", n_workers=0)
    spaces_of = venv.single_observation_space, venv.single_action_space
    teams = make_teams(*spaces_of, {"x": [0], "y": [1, 2]})
    one = teams["x"].observation_space, teams["x"].action_space
    network = TeamsNetwork(
        teams, {name: make_agent_network(*one, AgentConfig(hidden=(4,)), seed=0) for name in teams}
    )
    agent = TeamsAgent(network, {name: ActorCriticAgent(network.parts[name]) for name in teams})
    first, then = learning(), learning()
    with SerialSampler(venv, agent, 3, env_info=agent.env_info) as sampler:
        first.take(sampler.collect())
        first.train()
        # Episodes are in progress.
        then.load_state_dict(copy.deepcopy(first.state_dict()))
        assert then.algorithms["x"].taken == 1
        collected = sampler.collect()
        for algorithm in (first, then):
            algorithm.take(collected)
    rows = [algorithm.algorithms["y"].replay.all() for algorithm in (first, then)]
    assert rows[0].keys() == rows[1].keys()
    for name, column in rows[0].items():
        np.testing.assert_array_equal(column, rows[1][name])
