"""Updates of Q values in compiled code: the gradients of autograd."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gymnasium.spaces import Box, Discrete  # noqa: E402

from plangym_ext.learn import DQNConfig, QAgentConfig, make_agent_network  # noqa: E402
from plangym_ext.learn.algorithms.flat_optimizer import FlatOptimizer  # noqa: E402
from plangym_ext.learn.compiled.q_values import CompiledQ, can_compile_q  # noqa: E402
from plangym_ext.learn.losses.q_values import chosen, error_loss  # noqa: E402
from plangym_ext.learn.networks.quick_forward import shown  # noqa: E402


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("kind", ["huber", "squared"])
def test_compiled_gradients_of_q_values_are_those_of_autograd(activation, kind):
    made_of = {"hidden": (24, 9), "activation": activation, "init": "orthogonal"}
    config = QAgentConfig(**made_of, value_scale=3.0, normalize_obs=True)
    network = make_agent_network(Box(-1, 1, (5,)), Discrete(3), config, seed=1)
    assert can_compile_q(network)
    optimizer = FlatOptimizer(network, DQNConfig())
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(19, 5)).astype(np.float32)
    index, weight = rng.integers(3, size=19), rng.random(19).astype(np.float32)
    target = (4 * rng.normal(size=19)).astype(np.float32)
    inputs = shown(torch.from_numpy(obs))
    value = chosen(network(inputs)[0].q, torch.from_numpy(index))
    wanted = error_loss(value, torch.from_numpy(target), kind, torch.from_numpy(weight))
    optimizer.differentiate(wanted)
    gradient = [views[1].copy() for views in optimizer.views().values()]
    with torch.no_grad():
        features = network.features(inputs).numpy()
    huber = kind == "huber"
    found = CompiledQ(network, optimizer).learn(features, index, target, weight, huber=huber)
    assert found.loss == pytest.approx(float(wanted.detach()), rel=1e-5)
    assert found.q == pytest.approx(float(value.detach().mean()), rel=1e-5)
    np.testing.assert_allclose(found.errors, np.abs(value.detach().numpy() - target), rtol=1e-4)
    for mine, theirs in zip(optimizer.views().values(), gradient, strict=True):
        assert np.abs(theirs).max() > 0
        np.testing.assert_allclose(mine[1], theirs, rtol=1e-4, atol=1e-6)


def test_heads_that_are_more_than_a_layer_are_not_compiled():
    for options in ({"dueling": True}, {"returns": "atoms"}, {"heads": ("q", "value")}):
        config = QAgentConfig(**options)
        network = make_agent_network(Box(-1, 1, (5,)), Discrete(3), config, seed=1)
        assert not can_compile_q(network)
