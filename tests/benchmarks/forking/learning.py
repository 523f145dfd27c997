"""PPO with advantages of different kinds, at equal steps of the env, branches counted."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from plangym_ext import make, make_vec
from plangym_ext.learn import (
    PPO,
    ActorCriticAgent,
    AdvantageConfig,
    AgentConfig,
    EvaluationSampler,
    ForkingSampler,
    PPOConfig,
    SerialSampler,
    make_agent_network,
)


class Task(NamedTuple):
    """What is learned and how.

    Attributes:
        env_id: of the env.
        kwargs: of its constructor.
        agent: arguments of `AgentConfig`.
        algorithm: arguments of `PPOConfig`.
        shape: envs and moves of a round, by kind of advantage.
        horizon: of branches.
        steps: of each run, those of branches counted.
        looked_at: steps after which estimates are compared, and those by which the learning rate
            of that policy would have come to 0.
    """

    env_id: str
    kwargs: dict[str, Any]
    agent: dict[str, Any]
    algorithm: dict[str, Any]
    shape: dict[str, tuple[int, int]]
    horizon: int
    steps: int
    looked_at: tuple[int, int]


_APART = {"activation": "tanh", "init": "orthogonal", "shared_body": False}
TASKS = {
    "CartPole": Task(
        "CartPole-v1",
        {},
        _APART,
        {
            "learning_rate": 1e-3,
            "discount": 0.98,
            "gae_lambda": 0.8,
            "epochs": 20,
            "batch_size": 256,
        },
        {"gae": (8, 32), "forked": (8, 16)},
        16,
        50_000,
        (10_240, 50_000),
    ),
    "Hopper": Task(
        "Hopper-v5",
        {},
        {**_APART, "normalize_obs": True, "initial_log_std": -0.5},
        {
            "learning_rate": 3e-4,
            "epochs": 10,
            "batch_size": 64,
            "value_weight": 0.25,
            "normalize_reward": True,
        },
        {"gae": (64, 32), "forked": (32, 8)},
        8,
        60_000,
        (100_000, 150_000),
    ),
}
#: Name -> what advantages are estimated from, and whether branches draw alike.
KINDS = {
    "GAE": AdvantageConfig(),
    "forked, common numbers": AdvantageConfig(name="forked"),
    "forked, apart": AdvantageConfig(name="forked", common_random_numbers=False),
}
#: Shares of the steps after which agents are judged.
SHARES = (0.25, 0.5, 1.0)


class Learner:
    """PPO in a task.

    Args:
        task: what is learned.
        how: what advantages are estimated from.
        seed: of everything.
        steps: of the whole run, at the end of which the learning rate is 0.
    """

    def __init__(self, task: Task, how: AdvantageConfig, seed: int, steps: int) -> None:
        self._steps, self._rate = steps, task.algorithm["learning_rate"]
        envs, moves = task.shape[how.name]
        self.env = make(task.env_id, **task.kwargs)
        venv = make_vec(task.env_id, envs, autoreset_mode="same_step", **task.kwargs)
        spaces = venv.single_observation_space, venv.single_action_space
        network = make_agent_network(*spaces, AgentConfig(**task.agent), seed=seed)
        self.agent = ActorCriticAgent(network)
        self.algorithm = PPO(network, PPOConfig(**task.algorithm, advantages=how), seed=seed)
        self.sampler: Any
        if how.forked:
            self.sampler = ForkingSampler(
                venv, self.agent, moves, self.env, seed=seed, **how.branching
            )
        else:
            self.sampler = SerialSampler(venv, self.agent, moves, seed=seed)

    def learn(self, steps: int) -> None:
        """Learn until so many steps were taken, ever."""
        while self.algorithm.steps < steps:
            # By steps: rounds of the kinds differ in steps and updates.
            left = 1 - self.algorithm.steps / self._steps
            self.algorithm.config = replace(self.algorithm.config, learning_rate=left * self._rate)
            self.algorithm.take(self.sampler.collect(version=self.algorithm.updates))
            self.algorithm.train()

    def close(self) -> None:
        """Close the envs."""
        self.sampler.close()
        self.env.close()


def learned(task: Task, kind: str, seed: int, steps: int) -> dict[str, Any]:
    """Train, and judge now and then; mean returns of 20 episodes of the best actions."""
    how = KINDS[kind]
    if how.forked:
        how = AdvantageConfig(
            name="forked",
            horizon=task.horizon,
            common_random_numbers=how.common_random_numbers,
        )
    learner = Learner(task, how, seed, steps)
    judge = make_vec(task.env_id, 20, autoreset_mode="same_step", **task.kwargs)
    found: dict[str, Any] = {"returns": [], "steps": [], "seconds": 0.0}
    with EvaluationSampler(judge, learner.agent, 20, seed=1_000_000, max_steps=1000) as evaluation:
        for share in SHARES:
            began = time.perf_counter()
            learner.learn(int(share * steps))
            found["seconds"] += time.perf_counter() - began
            returns = evaluation.evaluate().episodes["return"]
            found["returns"].append(float(np.mean(returns)))
            found["steps"].append(learner.algorithm.steps)
    found["updates"] = learner.algorithm.updates
    learner.close()
    return found
