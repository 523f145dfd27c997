"""Whether algorithms learn what they are known to: minutes, so only in `tox -e long`."""

from __future__ import annotations

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from plangym_ext import make, make_vec  # noqa: E402
from plangym_ext.learn import (  # noqa: E402
    PPO,
    ActorCriticAgent,
    AgentConfig,
    PPOConfig,
    Schedule,
    SerialSampler,
    make_agent_network,
)
from plangym_ext.planners import play  # noqa: E402

pytestmark = pytest.mark.skipif(
    not os.environ.get("PYTEST_LONG"), reason="takes a minute; runs in tox -e long"
)


def trained(name, rows, steps, rounds, config, seed):
    """Return the agent after so many rounds, in mode "eval"."""
    venv = make_vec(name, rows, autoreset_mode="same_step")
    network = make_agent_network(
        venv.single_observation_space,
        venv.single_action_space,
        AgentConfig(activation="tanh", init="orthogonal", shared_body=False),
        seed=seed,
    )
    agent, algorithm = ActorCriticAgent(network), PPO(network, config, seed=seed)
    with SerialSampler(venv, agent, steps, seed=seed) as sampler:
        for _ in range(rounds):
            algorithm.take(sampler.collect(version=algorithm.updates))
            algorithm.train()
    agent.set_mode("eval")
    return agent


def evaluated(name, agent, max_steps):
    with make(name) as env:
        episodes = play(
            env, agent.as_planner(), seed=1_000_000, num_episodes=20, max_steps=max_steps
        )
    return np.mean([episode.return_ for episode in episodes])


def test_ppo_balances_cartpole_within_100_000_steps():
    config = PPOConfig(
        learning_rate=Schedule(start=1e-3, end=0.0, over=8000),
        gae_lambda=0.8,
        discount=0.98,
        epochs=20,
        batch_size=256,
    )
    agent = trained("CartPole-v1", 8, 32, 400, config, seed=0)
    assert evaluated("CartPole-v1", agent, 500) >= 475


def test_ppo_swings_the_pendulum_up_within_100_000_steps():
    config = PPOConfig(learning_rate=1e-3, discount=0.9)
    agent = trained("Pendulum-v1", 4, 1024, 25, config, seed=0)
    assert evaluated("Pendulum-v1", agent, 200) >= -250
