"""The agent of algorithms that learn from replay."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete

from plangym_ext.errors import InvalidAnswer, InvalidOption
from plangym_ext.learn import (
    AgentConfig,
    DeterministicPolicyConfig,
    PolicyAgent,
    SoftPolicyConfig,
    make_agent_network,
)
from plangym_ext.learn.agents.inputs import first_inputs
from plangym_ext.learn.sampling.noise import RowNoise

VECTOR = Box(-np.inf, np.inf, (4,), np.float32)
BOX = Box(np.array([-2, 0], np.float32), np.array([2, 1], np.float32))
MANY = 2000


def made(space=BOX, config=None, bias=(), **options):
    network = make_agent_network(VECTOR, space, config or DeterministicPolicyConfig(), seed=0)
    with torch.no_grad():
        for i, number in enumerate(bias):
            network.heads.bias[i] = number
    return PolicyAgent(network, **options)


def seen(rows=MANY, space=BOX):
    noise = RowNoise(0, np.arange(rows))
    return first_inputs(np.zeros((rows, 4), np.float32), space, rows, noise=noise)


def test_actions_are_even_until_the_first_update_and_then_those_of_the_policy():
    agent = made(bias=(0.5, -0.5), exploration=0.1)
    before = agent.step(seen(), None).action
    assert all(BOX.contains(row) for row in before)
    assert before.mean(axis=0) == pytest.approx([0, 0.5], abs=0.1)
    assert before.std(axis=0) == pytest.approx([4 / 12**0.5, 1 / 12**0.5], rel=0.05)
    agent.version = 1
    after = agent.step(seen(), None).action
    wanted = np.tanh([0.5, -0.5]) * [2, 0.5] + [0, 0.5]
    assert after.mean(axis=0) == pytest.approx(wanted, abs=0.02)
    assert after.std(axis=0) == pytest.approx([0.2, 0.05], rel=0.05)


def test_evaluation_plays_the_policy_without_noise_even_before_the_first_update():
    agent = made(bias=(0.5, -0.5))
    agent.set_mode("eval")
    acted = agent.step(seen(3)._replace(noise=None), None)
    wanted = np.tanh([0.5, -0.5]) * [2, 0.5] + [0, 0.5]
    np.testing.assert_allclose(acted.action, np.tile(wanted, (3, 1)), rtol=1e-6)
    assert acted.info == {}


def test_noise_is_clipped_into_the_bounds_and_scales_the_policys_own():
    agent = made(bias=(9.0, 9.0), exploration=0.5)
    agent.version = 1
    drawn = agent.step(seen(), None).action
    assert (drawn <= BOX.high).all()
    assert (drawn == BOX.high).mean() == pytest.approx(0.5, abs=0.05)
    soft = made(config=SoftPolicyConfig(), exploration=0.0)
    soft.version = 1
    middle = soft.step(seen(3), None).action
    np.testing.assert_allclose(middle, np.tile([0, 0.5], (3, 1)))


def test_what_the_learner_set_travels_with_the_weights():
    agent, other = made(bias=(0.5, -0.5), exploration=0.3), made()
    agent.version = 7
    other.load_state_dict(agent.state_dict())
    assert (other.version, other.exploration) == (7, 0.3)
    np.testing.assert_array_equal(
        agent.step(seen(5), None).action, other.step(seen(5), None).action
    )


def test_discrete_policies_are_drawn_from():
    space = Discrete(3, start=5)
    agent = made(space, SoftPolicyConfig(), bias=(np.log(2), 0.0, -np.inf))
    agent.version = 1
    with pytest.raises(InvalidAnswer, match="finite"):
        agent.step(seen(2, space), None)
    agent = made(space, SoftPolicyConfig(), bias=(np.log(2), 0.0, -50.0))
    agent.version = 1
    drawn = agent.step(seen(space=space), None).action
    shares = np.bincount(drawn - 5, minlength=3) / MANY
    assert shares == pytest.approx([2 / 3, 1 / 3, 0], abs=0.03)


def test_a_network_without_a_policy_is_refused():
    agent = made(Discrete(3), AgentConfig(heads=("q",)))
    agent.version = 1
    with pytest.raises(InvalidOption, match="policy head"):
        agent.step(seen(2, Discrete(3)), None)
    with pytest.raises(InvalidOption, match="two finite bounds"):
        made(Box(-np.inf, 1.0, (2,), np.float32))
