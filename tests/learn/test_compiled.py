"""Updates in compiled code: the products of numpy, and the gradients of autograd."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gymnasium import spaces  # noqa: E402

from plangym_ext import make_vec  # noqa: E402
from plangym_ext.learn import (  # noqa: E402
    A2C,
    PPO,
    REINFORCE,
    A2CConfig,
    ActorCriticAgent,
    AgentConfig,
    Inputs,
    PPOConfig,
    SerialSampler,
    make_agent_network,
)
from plangym_ext.learn.engines.compiled import actor_critic, dense_network  # noqa: E402
from plangym_ext.learn.engines.compiled.actor_critic import CompiledLosses, can_compile  # noqa: E402
from plangym_ext.learn.engines.flat_optimizer import FlatOptimizer  # noqa: E402
from plangym_ext.learn.engines.policy_value import ActorCriticLosses, LossTerms  # noqa: E402
from plangym_ext.learn.engines.rows import Rows  # noqa: E402
from plangym_ext.learn.returns import normalized  # noqa: E402

VECTOR = spaces.Box(-3, 3, (5,), np.float32)
ACTIONS = {
    "discrete": spaces.Discrete(3, start=2),
    "multi-discrete": spaces.MultiDiscrete([2, 4, 3]),
    "box": spaces.Box(-2, 4, (2,), np.float32),
}
TERMS = {
    "plain": LossTerms(0.5, 0.0),
    "entropy": LossTerms(0.5, 0.1, normalize=True),
    "clip": LossTerms(0.5, 0.0, clip=0.1),
    "all": LossTerms(0.25, 0.02, clip=0.2, value_clip=0.3, normalize=True),
}


def rounded(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


# Layers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 3, 2), (4, 9, 17), (7, 17, 9)])
@pytest.mark.parametrize("compiled", [True, False])
def test_layers_are_products(shape, compiled):
    def run(kernel, *arrays):
        (kernel if compiled else kernel.py_func)(*arrays)

    rows, inner, width = shape
    rng = np.random.default_rng(0)
    x, weight, bias = rounded(rng, rows, inner), rounded(rng, width, inner), rounded(rng, width)
    turned, out = np.empty((inner, width), np.float32), np.empty((rows, width), np.float32)
    run(dense_network.affine, x, weight, bias, turned, out)
    np.testing.assert_allclose(out, x @ weight.T + bias, rtol=1e-4, atol=1e-5)
    d_out, d_weight, d_bias = rounded(rng, rows, width), np.empty_like(weight), np.empty_like(bias)
    run(dense_network.affine_gradient, x, d_out, turned, d_weight, d_bias)
    np.testing.assert_allclose(d_weight, d_out.T @ x, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(d_bias, d_out.sum(0), rtol=1e-4, atol=1e-5)
    d_x = np.zeros_like(x)
    run(dense_network.input_gradient, d_out, weight, d_x)
    np.testing.assert_allclose(d_x, d_out @ weight, rtol=1e-4, atol=1e-5)


def test_a_row_is_the_same_among_any_number_of_rows():
    rng = np.random.default_rng(1)
    x, weight, bias = rounded(rng, 9, 19), rounded(rng, 12, 19), rounded(rng, 12)
    turned, whole = np.empty((19, 12), np.float32), np.empty((9, 12), np.float32)
    dense_network.affine(x, weight, bias, turned, whole)
    for count in range(1, 9):
        some = np.empty((count, 12), np.float32)
        dense_network.affine(x[:count], weight, bias, turned, some)
        assert np.array_equal(some, whole[:count])


def test_advantages_are_normalised_as_elsewhere():
    rows = rounded(np.random.default_rng(2), 11) * 5 + 2
    wanted = normalized(rows[None].T)[:, 0]
    actor_critic.standardize(rows, 1e-6)
    np.testing.assert_allclose(rows, wanted, rtol=1e-5)


# Gradients --------------------------------------------------------------------------------


def rows_of(network, action_space, count=33):
    """Return steps of a policy that has moved, some of them out of the clips."""
    rng = np.random.default_rng(3)
    action_space.seed(4)
    obs = torch.from_numpy(rounded(rng, count, 5))
    action = torch.from_numpy(np.stack([action_space.sample() for _ in range(count)]))
    first = torch.zeros(count, dtype=torch.bool)
    inputs = Inputs(obs, None, None, first)
    with torch.no_grad():
        out, _ = network(inputs)
        log_prob = network.distribution.log_prob(out.policy_logits, action)
    moved, error, advantage, target = torch.from_numpy(rounded(rng, 4, count))
    parts = log_prob + 0.2 * moved, out.value + 0.5 * error, advantage, target
    return Rows(inputs, action, *parts, None, None)


def made(action_space, **config):
    """Return a network with weights that are far from where they begin."""
    network = make_agent_network(VECTOR, action_space, AgentConfig(hidden=(9, 8), **config), seed=1)
    torch.manual_seed(5)
    with torch.no_grad():
        for part in network.parameters():
            part.add_(0.4 * torch.randn_like(part))
    return network


NETWORKS = {
    "shared relu": {"activation": "relu", "value_scale": 3.0},
    "apart tanh": {"activation": "tanh", "shared_body": False, "normalize_obs": True},
    "deviations of the state": {"activation": "tanh", "log_std": "state"},
}


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("config", NETWORKS)
@pytest.mark.parametrize("actions", ACTIONS)
def test_losses_and_gradients_are_those_of_autograd(actions, config, terms):
    network = made(ACTIONS[actions], **NETWORKS[config])
    optimizer = FlatOptimizer(network, PPOConfig())
    rows = rows_of(network, ACTIONS[actions])
    found = []
    assert can_compile(network)
    for gradients in (ActorCriticLosses(network, optimizer), CompiledLosses(network, optimizer)):
        losses = gradients.losses(gradients.batch(rows), TERMS[terms])
        gradients.leave()
        vectors = [np.array(gradient) for _, gradient in optimizer.views().values()]
        found.append((losses, vectors))
    (wanted, gradient), (losses, compiled) = found
    for name, number in wanted.items():
        assert losses[name] == pytest.approx(float(number), rel=1e-4, abs=1e-6), name
    assert all(part.any() for part in gradient)
    for mine, theirs in zip(compiled, gradient, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=2e-6)


def test_deviations_at_their_bounds_get_no_gradient():
    network = made(ACTIONS["box"])
    with torch.no_grad():
        network.log_std.fill_(3.0)
    optimizer = FlatOptimizer(network, PPOConfig())
    gradients = CompiledLosses(network, optimizer)
    gradients.losses(gradients.batch(rows_of(network, ACTIONS["box"])), TERMS["all"])
    gradients.leave()
    assert not optimizer.views()[id(network.log_std)][1].any()


def test_other_networks_learn_by_autograd():
    discrete = ACTIONS["discrete"]
    for config in (
        {"layer_norm": True},
        {"recurrent": "gru"},
        {"activation": "gelu"},
        {"heads": ("policy",)},
        {"heads": ("policy", "value", "q")},
    ):
        network = make_agent_network(VECTOR, discrete, AgentConfig(**config), seed=0)
        assert not can_compile(network), config
    image = make_agent_network(spaces.Box(0, 1, (9, 9, 1)), discrete, AgentConfig(), seed=0)
    squashed = make_agent_network(VECTOR, ACTIONS["box"], AgentConfig(squash=True), seed=0)
    assert not can_compile(image)
    assert not can_compile(squashed)
    algorithm = PPO(made(discrete), PPOConfig(compiled=False))
    assert isinstance(algorithm.gradients, ActorCriticLosses)
    assert isinstance(PPO(made(discrete)).gradients, CompiledLosses)


# Algorithms -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PPO, A2C, REINFORCE])
@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_rounds_in_compiled_code_learn_what_rounds_by_autograd_do(kind, name):
    """Until the last digits have grown: the first round, and what it logs."""
    found = []
    for compiled in (True, False):
        config = {"compiled": compiled, "max_grad_norm": 0.3}
        if kind is PPO:
            config |= {"epochs": 2, "batch_size": 50, "target_kl": 10.0}
        with make_vec(name, 6, autoreset_mode="same_step") as venv:
            space, actions = venv.single_observation_space, venv.single_action_space
            network = make_agent_network(
                space, actions, AgentConfig(activation="tanh", init="orthogonal"), seed=0
            )
            agent = ActorCriticAgent(network)
            algorithm = kind(network, kind.config_class(**config))
            with SerialSampler(venv, agent, 30, seed=0) as sampler:
                algorithm.take(sampler.collect())
                found.append((algorithm.train(), network.state_dict()))
    (logged, weights), (wanted, others) = found
    assert logged.keys() - {"train/kl"} == wanted.keys() - {"train/kl"}
    for key in wanted:
        assert logged[key] == pytest.approx(wanted[key], rel=1e-2, abs=1e-4), key
    for key, part in weights.items():
        torch.testing.assert_close(part, others[key], rtol=1e-3, atol=2e-5)


def test_weights_are_those_before_an_update_that_is_not_finite():
    network = made(ACTIONS["discrete"])
    algorithm = A2C(network, A2CConfig())
    algorithm._rows = None
    before = {name: part.clone() for name, part in network.state_dict().items()}
    rows = rows_of(network, ACTIONS["discrete"])
    algorithm.optimizer.read()
    algorithm.gradients.losses(
        algorithm.gradients.batch(rows._replace(advantage=rows.advantage * np.inf)),
        TERMS["plain"],
    )
    from plangym_ext.errors import LossNotFinite

    with pytest.raises(LossNotFinite, match="update 0 must have a finite gradient"):
        algorithm._update(rows)
    algorithm.optimizer.write()
    assert all(torch.equal(before[name], part) for name, part in network.state_dict().items())


@pytest.mark.parametrize("plain", [False, True])
def test_advantages_are_those_of_the_definition(plain):
    from plangym_ext.learn.returns import gae, kernels

    rng = np.random.default_rng(0)
    shape = 40, 7
    reward, value, final = (rng.normal(size=shape).astype(np.float32) for _ in range(3))
    terminated, truncated = rng.random(shape) < 0.1, rng.random(shape) < 0.1
    bootstrap = rng.normal(size=shape[1]).astype(np.float32)
    assert (terminated & truncated).any(), "a termination counts for more"
    found = np.empty(shape, np.float32)
    run = getattr(kernels.gae, "py_func", kernels.gae) if plain else kernels.gae
    run(reward, value, terminated, truncated, final, bootstrap, 0.97, 0.9, found)
    wanted = gae(
        reward,
        value,
        terminated,
        discount=0.97,
        lam=0.9,
        bootstrap=bootstrap,
        truncated=truncated,
        final_value=final,
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
