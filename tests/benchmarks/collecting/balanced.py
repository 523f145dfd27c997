"""Envs that take as long as the network: what alternating halves are for."""

from __future__ import annotations

import functools
import time
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from table.contest import Runner
from table.tasks import Task

import plangym_ext
from collecting.policies import NUM_STEPS
from plangym_ext.learn import (
    ActorCriticAgent,
    AgentConfig,
    AlternatingSampler,
    Inputs,
    RowNoise,
    SerialSampler,
    make_agent_network,
)


class Busy(gym.Env[Any, Any]):
    """Takes so many nanoseconds of the processor for a step."""

    observation_space = spaces.Box(-1, 1, (64,), np.float32)
    action_space = spaces.Discrete(4)

    def __init__(self, nanoseconds: int) -> None:
        self._nanoseconds = nanoseconds
        self._seen = np.zeros(64, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._seen, {}

    def step(self, action: Any) -> Any:
        del action
        end = time.thread_time_ns() + self._nanoseconds
        while time.thread_time_ns() < end:
            pass
        return self._seen, 0.0, False, False, {}


def _agent() -> ActorCriticAgent:
    torch.set_num_threads(1)
    config = AgentConfig(hidden=(2048, 2048))
    network = make_agent_network(Busy.observation_space, Busy.action_space, config, seed=0)
    return ActorCriticAgent(network)


def _nanoseconds(agent: ActorCriticAgent, rows: int) -> int:
    """Return what a row's share of one step of the agent is."""
    noise = RowNoise(0, range(rows))
    inputs = Inputs(
        np.zeros((rows, 64), np.float32),
        np.zeros(rows, np.int64),
        np.zeros(rows, np.float32),
        np.zeros(rows, bool),
        noise,
    )
    times = []
    for _ in range(40):
        noise.advance()
        began = time.perf_counter_ns()
        agent.step(inputs, None)
        times.append(time.perf_counter_ns() - began)
    return int(np.median(times)) // rows


def _made(rows: int, nanoseconds: int, n_workers: int) -> Any:
    make = functools.partial(Busy, nanoseconds)
    return plangym_ext.make_vec(
        make, rows, n_workers=n_workers, autoreset_mode="same_step", capture="off"
    )


def central(task: Task, rows: int, *, from_states: bool, n_workers: int = 1) -> Runner:
    """All envs step, then the agent acts for all of them."""
    del task, from_states
    agent = _agent()
    venv = _made(rows, _nanoseconds(agent, rows), n_workers)
    sampler = SerialSampler(venv, agent, NUM_STEPS)
    return Runner(sampler.collect, rows * NUM_STEPS, sampler.close, warm_up=2)


def alternating(task: Task, rows: int, *, from_states: bool) -> Runner:
    """One half of the envs steps while the agent acts for the other."""
    del task, from_states
    agent = _agent()
    each = _nanoseconds(agent, rows)
    sampler = AlternatingSampler(_made(rows, each, 2), agent, NUM_STEPS)
    return Runner(sampler.collect, rows * NUM_STEPS, sampler.close, warm_up=2)


two_workers = functools.partial(central, n_workers=2)
