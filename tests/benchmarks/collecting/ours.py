"""Our samplers."""

from __future__ import annotations

import functools
from typing import Any

import torch
from table.contest import Runner
from table.tasks import Task

import plangym_ext
from collecting.policies import NUM_STEPS
from plangym_ext.learn import (
    ActorCriticAgent,
    AgentConfig,
    SerialSampler,
    WorkerSampler,
    make_agent_network,
)


def made(task: Task, rows: int, *, n_workers: int | None = None) -> Any:
    """Return a vector env of the task: natively where there is one, else with workers."""
    name = task.ours.get("name", task.env_id)
    options = {key: value for key, value in task.ours.items() if key != "name"}
    if n_workers is not None:
        options["n_workers"] = n_workers
    return plangym_ext.make_vec(name, rows, autoreset_mode="same_step", **options)


def agent_for(venv: Any) -> ActorCriticAgent:
    """Return an agent with the network that all contestants have."""
    torch.set_num_threads(1)
    image = len(venv.single_observation_space.shape) == 3
    config = (
        AgentConfig(kind="nature")
        if image
        else AgentConfig(hidden=(64, 64), activation="tanh", shared_body=False)
    )
    spaces = venv.single_observation_space, venv.single_action_space
    return ActorCriticAgent(make_agent_network(*spaces, config, seed=0))


def serial(task: Task, rows: int, *, from_states: bool, n_workers: int | None = None) -> Runner:
    """`SerialSampler`: central inference where the vector env has workers."""
    del from_states
    venv = made(task, rows, n_workers=n_workers)
    return _runner(SerialSampler(venv, agent_for(venv), NUM_STEPS), rows)


def envs_alone(task: Task, rows: int, *, from_states: bool) -> Runner:
    """Step the same envs with the same actions again and again: no agent, and nothing is kept."""
    del from_states
    venv = made(task, rows)
    venv.reset(seed=0)
    venv.action_space.seed(0)
    actions = venv.action_space.sample()

    def steps() -> None:
        for _ in range(NUM_STEPS):
            venv.step(actions)

    return Runner(steps, rows * NUM_STEPS, venv.close, warm_up=2)


def in_workers(task: Task, rows: int, *, from_states: bool) -> Runner:
    """`WorkerSampler` with two workers."""
    del from_states
    probe = made(task, 1)
    agent = agent_for(probe)
    probe.close()
    make = functools.partial(_rows, task)
    return _runner(WorkerSampler(make, agent, NUM_STEPS, rows, n_workers=2), rows)


def _rows(task: Task, rows: range) -> Any:
    if task.native == "mujoco":  # one thread each: the other workers have the processors
        return plangym_ext.make_vec(
            task.env_id, len(rows), backend="mujoco", threads=1, autoreset_mode="same_step"
        )
    return made(task, len(rows), n_workers=None if task.native else 0)


def _runner(sampler: Any, rows: int) -> Runner:
    return Runner(sampler.collect, rows * NUM_STEPS, sampler.close, warm_up=2)


two_workers = functools.partial(serial, n_workers=2)
