"""Updates of our algorithms, in compiled code and by autograd."""

from __future__ import annotations

import functools

import torch
from table.contest import Runner
from table.tasks import Task

import plangym_ext
from plangym_ext.learn import (
    A2C,
    PPO,
    A2CConfig,
    ActorCriticAgent,
    AgentConfig,
    PPOConfig,
    SerialSampler,
    make_agent_network,
)
from updating.sizes import A2C_STEPS, BATCH, EPOCHS, PPO_STEPS


def _updates(task: Task, rows: int, *, from_states: bool, compiled: bool, is_a2c: bool) -> Runner:
    """Returns, advantages and updates of one fragment, again and again."""
    del from_states
    torch.set_num_threads(1)
    venv = plangym_ext.make_vec(task.env_id, rows, autoreset_mode="same_step")
    spaces = venv.single_observation_space, venv.single_action_space
    config = AgentConfig(hidden=(64, 64), activation="tanh", init="orthogonal", shared_body=False)
    network = make_agent_network(*spaces, config, seed=0)
    steps = A2C_STEPS if is_a2c else PPO_STEPS
    algorithm = (
        A2C(network, A2CConfig(compiled=compiled))
        if is_a2c
        else PPO(network, PPOConfig(compiled=compiled, epochs=EPOCHS, batch_size=BATCH))
    )
    sampler = SerialSampler(venv, ActorCriticAgent(network), steps, seed=0)
    fragment = sampler.collect()

    def learn() -> None:
        algorithm.take(fragment)
        algorithm.train()

    count = 1 if is_a2c else EPOCHS * rows * steps // BATCH
    return Runner(learn, count, sampler.close, warm_up=2)


ppo = functools.partial(_updates, compiled=True, is_a2c=False)
ppo_by_autograd = functools.partial(_updates, compiled=False, is_a2c=False)
a2c = functools.partial(_updates, compiled=True, is_a2c=True)
a2c_by_autograd = functools.partial(_updates, compiled=False, is_a2c=True)
