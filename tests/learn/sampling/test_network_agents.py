"""Samplers give equal trees for agents with networks, too: recurrent ones, on any split of rows."""

from __future__ import annotations

import functools

import pytest
from sampling_envs import assert_same, cartpole_rows, copied

from plangym_ext import make_vec
from plangym_ext.learn.sampling.local import AlternatingSampler, SerialSampler
from plangym_ext.learn.sampling.worker import WorkerSampler

torch = pytest.importorskip("torch")

from plangym_ext.learn import ActorCriticAgent, AgentConfig, make_agent_network  # noqa: E402

ROWS, STEPS = 7, 25


def agent_of(config, name="CartPole-v1"):
    with make_vec(name, 1, autoreset_mode="same_step") as venv:
        spaces = venv.single_observation_space, venv.single_action_space
    return ActorCriticAgent(make_agent_network(*spaces, config, seed=4))


def fragments(sampler, count=2):
    with sampler:
        return [copied(sampler.collect().data) for _ in range(count)]


@pytest.mark.parametrize("recurrent", ["none", "lstm", "gru"])
def test_every_sampler_gives_the_same_bytes(recurrent):
    memory = recurrent != "none"
    agent = agent_of(
        AgentConfig(
            hidden=(16,),
            recurrent=recurrent,
            recurrent_size=8,
            previous_action=memory,
            previous_reward=memory,
        )
    )
    kernel = functools.partial(cartpole_rows, backend="kernel")
    wanted = fragments(SerialSampler(kernel(range(ROWS)), agent, STEPS))
    assert wanted[0]["terminated"].any()
    others = [AlternatingSampler(kernel(range(ROWS)), agent, STEPS)]
    if memory:  # workers import torch, which takes seconds
        venv = cartpole_rows(range(ROWS), "process")
        others.append(SerialSampler(venv, agent, STEPS))
    if recurrent == "lstm":
        others.append(WorkerSampler(cartpole_rows, agent, STEPS, ROWS, n_workers=2))
    for sampler in others:
        for found, want in zip(fragments(sampler), wanted, strict=True):
            assert_same(found, want)


def test_carries_of_networks_are_saved_and_go_on():
    agent = agent_of(AgentConfig(hidden=(16,), recurrent="lstm", recurrent_size=8))
    kernel = functools.partial(cartpole_rows, backend="kernel")

    def made():
        return SerialSampler(kernel(range(ROWS)), agent, STEPS)

    with made() as sampler, made() as other:
        sampler.collect()
        other.load_state_dict(sampler.state_dict())
        for _ in range(2):
            assert_same(copied(other.collect().data), copied(sampler.collect().data))


def test_actions_of_boxes_and_their_infos():
    pytest.importorskip("mujoco")
    agent = agent_of(AgentConfig(hidden=(16,)), "HalfCheetah-v5")
    found = [
        fragments(
            SerialSampler(
                make_vec("HalfCheetah-v5", 3, backend=backend, autoreset_mode="same_step"), agent, 6
            )
        )
        for backend in ("serial", "mujoco")
    ]
    for one, two in zip(*found, strict=True):
        assert_same(one, two)
