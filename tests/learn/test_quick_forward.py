"""An agent asks its network without torch's modules in between, and to the same bits."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from plangym_ext.learn import (
    ActorCriticAgent,
    AgentConfig,
    Inputs,
    NetworkConfig,
    NetworkEvaluator,
    RowNoise,
    make_agent_network,
    make_network,
)
from plangym_ext.learn.networks.bodies import Tanh
from plangym_ext.learn.networks.quick_forward import (
    QuickForward,
    QuickNetwork,
    is_plain,
    is_simple,
)

VECTOR = Box(-np.inf, np.inf, (5,), np.float32)
SCREEN = Box(0, 255, (4, 36, 36), np.uint8)
TORQUES = Box(-2.0, 2.0, (2,), np.float32)
TANH = AgentConfig(init="orthogonal", activation="tanh", shared_body=False)
SIMPLE = {
    "apart": (VECTOR, TORQUES, TANH),
    "shared": (VECTOR, Discrete(3), AgentConfig(init="orthogonal", layer_norm=True)),
    "all heads": (VECTOR, Discrete(3), AgentConfig(heads=("policy", "value", "q"))),
    "scaled": (VECTOR, TORQUES, AgentConfig(init="orthogonal", value_scale=3.0, log_std="state")),
    "nature": (SCREEN, Discrete(4), AgentConfig(init="orthogonal", kind="nature", hidden=(32,))),
    "normalized": (VECTOR, TORQUES, AgentConfig(init="orthogonal", normalize_obs=True)),
    "planes": (Box(0, 1, (2, 3, 3), np.uint8), Discrete(4), AgentConfig(hidden=(8,))),
    "wide planes": (Box(-1.0, 1.0, (2, 8, 8), np.float64), Discrete(4), AgentConfig(hidden=(8,))),
    "bits": (MultiBinary(5), Discrete(4), AgentConfig(init="orthogonal")),
    "number": (Discrete(7), Discrete(4), AgentConfig(init="orthogonal")),
}
NOT_SIMPLE = {
    "recurrent": (VECTOR, Discrete(3), AgentConfig(recurrent="gru")),
    "previous action": (VECTOR, Discrete(3), AgentConfig(previous_action=True)),
    "previous reward": (VECTOR, Discrete(3), AgentConfig(previous_reward=True)),
    "parts": (Dict({"a": VECTOR, "b": VECTOR}), Discrete(3), AgentConfig()),
}


PLAIN = {
    "vector": (VECTOR, Discrete(3), NetworkConfig(hidden=(64, 64))),
    "doubles": (Box(-1.0, 1.0, (4,), np.float64), Discrete(3), NetworkConfig(hidden=(8,))),
    "all heads": (VECTOR, Discrete(3), NetworkConfig(heads=("policy", "value", "q"))),
    "scaled": (VECTOR, TORQUES, NetworkConfig(value_scale=3.0)),
    "no layers": (VECTOR, Discrete(3), NetworkConfig(hidden=())),
    "board": (Box(0, 1, (8, 8, 7), np.uint8), Discrete(4), NetworkConfig(hidden=(8,))),
    "residual": (Box(0, 1, (8, 8, 7), np.uint8), Discrete(4), NetworkConfig(kind="residual")),
    "normalised": (VECTOR, Discrete(3), NetworkConfig(layer_norm=True)),
    "number": (Discrete(7), Discrete(4), NetworkConfig()),
    "bits": (MultiBinary(5), Discrete(4), NetworkConfig()),
}


def observed(space, rows=32):
    space.seed(0)
    return np.stack([space.sample() for _ in range(rows)])


def asked(network, obs):
    """Return the answers of the network itself."""
    first = torch.zeros(len(obs), dtype=torch.bool)
    return network(Inputs(torch.from_numpy(obs), None, None, first))[0]


def assert_equal(ours, theirs):
    for mine, other in zip(ours, theirs, strict=True):
        assert (mine is None) == (other is None)
        assert mine is None or torch.equal(mine, other)


@pytest.mark.parametrize("name", SIMPLE)
def test_it_says_what_the_network_says_after_every_change_of_weights(name):
    network, obs = make_agent_network(*SIMPLE[name], seed=0), observed(SIMPLE[name][0])
    assert is_simple(network)
    quick = QuickForward(network)
    for _ in range(2):
        with torch.inference_mode():
            assert_equal(quick(torch.from_numpy(obs)), asked(network, obs))
        # As a learner asks: with gradients.
        assert_equal(quick(torch.from_numpy(obs)), asked(network, obs))
        with torch.no_grad():
            for part in (*network.parameters(), *network.buffers()):
                # Numbers of places are whole.
                part.add_(0.01 if part.is_floating_point() else 1)


@pytest.mark.parametrize("name", SIMPLE)
def test_rows_that_dense_layers_alone_see_change_nothing(name):
    network, obs = make_agent_network(*SIMPLE[name], seed=0), observed(SIMPLE[name][0])
    whole = obs[:16]
    with torch.inference_mode():
        wanted = asked(network, whole)
        found = QuickForward(network)(torch.from_numpy(whole[:4]), 12)
    for mine, other in zip(found, wanted, strict=True):
        assert (mine is None) == (other is None)
        assert mine is None or (len(mine) == 16 and torch.equal(mine[:4], other[:4]))


@pytest.mark.parametrize("name", NOT_SIMPLE)
def test_other_networks_are_asked_as_they_are(name):
    assert not is_simple(make_agent_network(*NOT_SIMPLE[name], seed=0))


def test_a_layer_that_was_replaced_counts_from_the_next_change_of_mode_on():
    network = make_agent_network(VECTOR, Discrete(3), TANH, seed=0)
    agent, obs = ActorCriticAgent(network), observed(VECTOR)
    agent.set_mode("sample")
    network.value_body.dense[0] = torch.nn.Linear(5, 64)
    agent.set_mode("sample")
    found = value_of(agent, obs)
    np.testing.assert_array_equal(found, asked(network, obs).value.detach().numpy())


def test_who_looks_on_sees_every_pass():
    network = make_agent_network(VECTOR, Discrete(3), TANH, seed=0)
    seen = []
    network.heads.register_forward_hook(lambda *parts: seen.append(len(parts)))
    agent = ActorCriticAgent(network)
    agent.set_mode("sample")
    value_of(agent, observed(VECTOR))
    assert seen == [3]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda agent: pickle.loads(pickle.dumps(agent))])
def test_a_copy_of_an_agent_has_weights_of_its_own(copied):
    obs = observed(VECTOR)
    agent = ActorCriticAgent(make_agent_network(VECTOR, Discrete(3), TANH, seed=0))
    agent.set_mode("sample")
    before, other = value_of(agent, obs), copied(agent)
    with torch.no_grad():
        agent.network.value_head.bias.add_(1.0)
    np.testing.assert_array_equal(value_of(other, obs), before)
    assert (value_of(agent, obs) != before).all()


@pytest.mark.parametrize("name", PLAIN)
def test_planners_networks_are_asked_to_the_same_bits(name):
    network, obs = make_network(*PLAIN[name], seed=0), observed(PLAIN[name][0])
    assert is_plain(network)
    quick = QuickNetwork(network)
    # Heads begin at zero.
    torch.manual_seed(0)
    for _ in range(2):
        with torch.no_grad():
            for part in network.parameters():
                part.add_(0.1 * torch.randn(part.shape))
        with torch.inference_mode():
            assert_equal(quick(torch.from_numpy(obs)), network(torch.from_numpy(obs)))
        assert_equal(quick(torch.from_numpy(obs)), network(torch.from_numpy(obs)))
        prior, value = NetworkEvaluator(network)(obs)
        with torch.inference_mode():
            out = network(torch.from_numpy(obs))
        np.testing.assert_array_equal(value, out.value)
        if prior is not None:
            np.testing.assert_array_equal(prior, torch.softmax(out.policy_logits, dim=1))


def test_an_evaluator_sees_layers_that_were_replaced_and_those_who_look_on():
    network, obs = make_network(*PLAIN["vector"], seed=0), observed(VECTOR)
    evaluator, seen = NetworkEvaluator(network), []
    evaluator(obs)
    network.heads = torch.nn.Linear(64, 4)
    _, value = evaluator(obs)
    with torch.inference_mode():
        np.testing.assert_array_equal(value, network(torch.from_numpy(obs)).value)
    network.heads.register_forward_hook(lambda *parts: seen.append(len(parts)))
    evaluator(obs)
    assert seen == [3]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))])
def test_a_copy_of_an_evaluator_has_weights_of_its_own(copied):
    obs = observed(VECTOR)
    evaluator = NetworkEvaluator(make_network(*PLAIN["vector"], seed=0))
    _, before = evaluator(obs)
    other = copied(evaluator)
    with torch.no_grad():
        evaluator.network.heads.bias.add_(1.0)
    np.testing.assert_array_equal(other(obs)[1], before)
    assert (evaluator(obs)[1] != before).all()


def value_of(agent, obs):
    rows = len(obs)
    zeros = np.zeros(rows, np.float32)
    inputs = Inputs(obs, np.zeros(rows, int), zeros, zeros == 0, RowNoise(0, range(rows)))
    return agent.value(inputs, None)


def test_tanh_is_as_exact_as_torchs_and_the_same_in_learning_and_acting():
    x = torch.linspace(-12, 12, 100_001)
    exact = torch.tanh(x.double())
    found = Tanh()(x)
    unit = torch.from_numpy(np.spacing(exact.abs().float().numpy())).double()
    assert ((found - exact).abs() <= 2 * unit).all()
    with torch.inference_mode():
        assert torch.equal(Tanh()(x), found)
    assert torch.equal(Tanh()(x.clone().requires_grad_()), found)
    assert torch.isnan(Tanh()(torch.tensor([[np.nan]]))).all()
    assert torch.equal(Tanh()(x.double()), exact)


def test_gradients_of_tanh_are_those_of_torchs_of_the_first_and_second_order():
    x, weight = torch.randn(6, 3, requires_grad=True), torch.randn(6, 3)
    found = []
    for layer in (Tanh(), torch.nn.Tanh()):
        (first,) = torch.autograd.grad((layer(x) * weight).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad((first**2).sum(), x)
        found.append((first.detach(), second))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)
    mapped = torch.func.vmap(Tanh())(x)
    torch.testing.assert_close(mapped, torch.tanh(x))
