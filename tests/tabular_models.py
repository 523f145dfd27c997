"""Latent networks that are exactly a table: a deterministic env given as weights."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch

from plangym_ext.learn import LatentConfig, LatentNetwork, make_latent_network


def table_of(env_id: str, **kwargs: Any) -> list[list[tuple[int, float, bool]]]:
    """Return (next state, reward, terminated) of each state and action of a toy text env."""
    env: Any = gym.make(env_id, **kwargs).unwrapped
    rows = []
    for state in range(len(env.P)):
        told = []
        for action in range(len(env.P[state])):
            ((probability, following, reward, over),) = env.P[state][action]
            assert probability == 1.0
            told.append((int(following), float(reward), bool(over)))
        rows.append(told)
    return rows


def exact_network(
    table: list[list[tuple[int, float, bool]]], value: Any = None, num_players: int = 1
) -> LatentNetwork:
    """Return a network whose latents are one-hot states, and whose steps are those of the table.

    Args:
        table: see `table_of`.
        value: `[S]`, what states are worth by the prediction; None: nothing.
        num_players: of the env.
    """
    states, actions = len(table), len(table[0])
    config = LatentConfig(
        representation=(),
        latent=states,
        hidden=(states * actions,),
        value_support=0,
        reward_support=0,
        num_players=num_players,
    )
    spaces = gym.spaces.Discrete(states), gym.spaces.Discrete(actions)
    network = make_latent_network(*spaces, config, seed=0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        network.representation[-1].weight.copy_(torch.eye(states))
        first, last = network.dynamics[0], network.dynamics[-1]
        first.bias.fill_(-1.0)
        for state in range(states):
            for action in range(actions):
                # A unit for each pair: 1 + 1 - 1 where both are there, at most 0 elsewhere.
                unit = state * actions + action
                first.weight[unit, state] = first.weight[unit, states + action] = 1.0
                following, reward, over = table[state][action]
                last.weight[following, unit] = 1.0
                last.weight[states, unit] = reward
                last.weight[states + 1, unit] = 1.0 if over else -1.0
        if value is not None:
            # The first units of the prediction pass the latent on.
            network.prediction[0].weight[:states] = torch.eye(states)
            worth = torch.tensor(np.asarray(value), dtype=torch.float32)
            network.prediction[-1].weight[actions, :states] = worth
    return network
