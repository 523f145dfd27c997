"""Critics whose products are one operation of autograd, beside layer by layer."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete
from torch.nn import functional

from plangym_ext.errors import InvalidOption
from plangym_ext.learn import AgentConfig, SoftPolicyConfig, make_agent_network
from plangym_ext.learn.agents.inputs import Inputs
from plangym_ext.learn.networks import dense_product
from plangym_ext.learn.networks.bodies import DenseLayers
from plangym_ext.learn.networks.critics import Critics, make_critics
from plangym_ext.learn.networks.dense_product import dense_layers_product

VECTOR = Box(-np.inf, np.inf, (5,), np.float64)
TURN = Box(np.array([-2, 0], np.float32), np.array([2, 1], np.float32))


def stacks(count, widths):
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape):
        part = torch.randn(*shape, generator=generator) / shape[-1] ** 0.5
        return part.requires_grad_()

    weights = [drawn(count, n, m) for m, n in itertools.pairwise(widths)]
    return weights, [drawn(count, n) for n in widths[1:]]


def layer_by_layer(x, weights, biases, rectify_last):
    """Return `[E, N, out]`, each stack by itself."""
    found = []
    for e in range(len(weights[0])):
        rows = x
        for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            rows = functional.linear(rows, weight[e], bias[e])
            if rectify_last or i < len(weights) - 1:
                rows = rows.relu()
        found.append(rows)
    return torch.stack(found)


# Products of the second size are left to oneDNN, where torch has it.
SIZES = [(1, 7, (3, 4, 2)), (3, 130, (20, 100, 90, 1))]


@pytest.mark.parametrize("rectify_last", [False, True])
@pytest.mark.parametrize(("count", "rows", "widths"), SIZES)
def test_products_and_their_gradients_are_those_of_layers(count, rows, widths, rectify_last):
    weights, biases = stacks(count, widths)
    x = torch.randn(rows, widths[0]).requires_grad_()
    mine = dense_layers_product(x, weights, biases, precision="float32", rectify_last=rectify_last)
    theirs = layer_by_layer(x, weights, biases, rectify_last)
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    given = torch.randn_like(theirs)
    asked = [x, *weights, *biases]
    mine, theirs = (torch.autograd.grad(q, asked, given) for q in (mine, theirs))
    torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4)


def test_the_second_size_is_one_that_onednn_is_asked_for(monkeypatch):
    count, rows, widths = SIZES[1]
    asked = []
    kept = dense_product._LINEAR
    if kept is None:
        pytest.skip("this torch has no oneDNN")

    def linear(*args):
        asked.append(args)
        return kept(*args)

    monkeypatch.setattr(dense_product, "_LINEAR", linear)
    weights, biases = stacks(count, widths)
    dense_layers_product(
        torch.randn(rows, widths[0]), weights, biases, precision="float32", rectify_last=False
    )
    assert len(asked) == count


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own
def test_what_torch_compiles_holds_no_call_that_its_compiler_refuses():
    (weight,), (bias,) = stacks(1, (128, 64))  # of a size that oneDNN is asked for
    graphs = []

    def compiler(graph, _):
        graphs.append(graph.print_readable(print_output=False))
        return graph.forward

    @torch.compile(backend=compiler)
    def called(x):
        return dense_layers_product(x, [weight], [bias], precision="float32", rectify_last=True)

    called(torch.randn(64, 128))
    assert "linear" in graphs[0]
    assert "mkldnn" not in graphs[0]


def test_products_of_bfloat16_are_near_and_keep_float32_outside():
    weights, biases = stacks(2, (20, 100, 90, 1))
    x = torch.randn(130, 20).requires_grad_()
    mine = dense_layers_product(x, weights, biases, precision="bfloat16", rectify_last=False)
    theirs = layer_by_layer(x, weights, biases, rectify_last=False)
    assert mine.dtype == torch.float32
    assert 0 < (mine - theirs).norm() < 0.02 * theirs.norm()
    for near, exact in zip(
        torch.autograd.grad(mine.sum(), [x, *weights]),
        torch.autograd.grad(theirs.sum(), [x, *weights]),
        strict=True,
    ):
        assert near.dtype == torch.float32
        assert (near - exact).norm() < 0.1 * exact.norm()


def test_bfloat16_is_multiplied_as_float32_where_the_processor_has_no_product(monkeypatch):
    monkeypatch.setattr(dense_product, "_MULTIPLIES_BFLOAT16", False)
    x, weight, bias = (torch.randn(*shape).bfloat16() for shape in ((130, 100), (90, 100), (90,)))
    exact = x.float() @ weight.float().T
    got = dense_product.product(x, weight)
    assert got.dtype == torch.bfloat16
    assert (got.float() - exact).abs().max() <= exact.abs().max() / 128
    near = (exact + bias.float()).relu()
    layer = dense_product.layer_product(x, weight, bias, rectify=True)
    assert layer.dtype == torch.bfloat16
    assert (layer.float() - near).abs().max() <= near.abs().max() / 128


def test_only_what_needs_a_gradient_gets_one():
    weights, biases = stacks(2, (3, 4, 1))
    x = torch.randn(5, 3).requires_grad_()
    still = [part.detach() for part in weights]
    q = dense_layers_product(x, still, [b.detach() for b in biases], **KINDS)
    (alone,) = torch.autograd.grad(q.sum(), [x])
    q = dense_layers_product(x, weights, biases, **KINDS)
    (among,) = torch.autograd.grad(q.sum(), [x])
    assert torch.equal(alone, among)
    top = [*still[:1], weights[1]]
    q = dense_layers_product(x.detach(), top, [b.detach() for b in biases], **KINDS)
    (grad,) = torch.autograd.grad(q.sum(), [weights[1]])
    assert grad.shape == weights[1].shape


KINDS = {"precision": "float32", "rectify_last": False}


# Critics ----------------------------------------------------------------------------------


def critics_of(obs, action, **options):
    torch.manual_seed(0)
    return Critics(obs, action, **{"count": 2, "hidden": (16, 8), **options})


def test_a_critic_says_what_its_layers_make_of_observation_and_action():
    critics = critics_of(VECTOR, TURN, count=3)
    obs, action = torch.randn(4, 5, dtype=torch.float64), torch.tensor([[-2.0, 0.5]]).repeat(4, 1)
    # Bounds are -1 and 1 to it.
    x = torch.cat([obs.float(), torch.tensor([[-1.0, 0.0]]).repeat(4, 1)], dim=1)
    wanted = layer_by_layer(x, critics.weights, critics.biases, rectify_last=False)[..., 0]
    q = critics(obs, action)
    assert q.shape == (3, 4)
    torch.testing.assert_close(q, wanted)
    assert not torch.equal(q[0], q[1])
    torch.testing.assert_close(critics(obs, action, first=1), q[:1])


def test_frozen_critics_pass_gradients_to_the_action_alone():
    critics = critics_of(VECTOR, TURN)
    obs, action = torch.randn(4, 5), torch.zeros(4, 2).requires_grad_()
    q = critics(obs, action, frozen=True)
    torch.testing.assert_close(q, critics(obs, action))
    q.sum().backward()
    assert action.grad.abs().sum() > 0
    assert all(p.grad is None for p in critics.parameters())


def test_normalised_critics_are_those_of_layers_apart():
    critics = critics_of(VECTOR, TURN, count=3, layer_norm=True)
    with torch.no_grad():
        for part in (*critics.scales, *critics.offsets):
            part.uniform_(-2, 2)
    obs, action = torch.randn(4, 5), torch.tensor([[-2.0, 0.5]]).repeat(4, 1).requires_grad_()
    x = torch.cat([obs, torch.tensor([[-1.0, 0.0]]).repeat(4, 1)], dim=1)
    q = critics(obs, action)
    for e in range(3):
        rows = x
        for i, size in enumerate((16, 8)):
            layer, norm = torch.nn.Linear(rows.shape[1], size), torch.nn.LayerNorm(size)
            layer.weight.data, layer.bias.data = critics.weights[i][e], critics.biases[i][e]
            norm.weight.data, norm.bias.data = critics.scales[i][e], critics.offsets[i][e]
            rows = norm(layer(rows)).relu()
        wanted = rows @ critics.weights[2][e].T + critics.biases[2][e]
        torch.testing.assert_close(q[e], wanted[:, 0])
    torch.testing.assert_close(critics(obs, action, first=1), q[:1])
    critics(obs, action, frozen=True).sum().backward()
    assert action.grad.abs().sum() > 0
    assert all(p.grad is None for p in critics.parameters())
    q.sum().backward()
    assert all(p.grad is not None for p in critics.parameters())


def test_normalised_critics_round_what_is_multiplied_alone():
    exact = critics_of(VECTOR, TURN, layer_norm=True)
    rounded = critics_of(VECTOR, TURN, layer_norm=True, precision="bfloat16")
    obs, action = torch.randn(40, 5), torch.zeros(40, 2)
    wanted, q = exact(obs, action), rounded(obs, action)
    assert q.dtype == torch.float32
    assert 0 < (q - wanted).norm() < 0.03 * wanted.norm()


def test_critics_of_discrete_actions_say_what_each_is_worth():
    obs = Dict({"place": Discrete(3), "speed": Box(-1.0, 1.0, (2,), np.float32)})
    critics = critics_of(obs, Discrete(4, start=2))
    seen = {"place": torch.tensor([0, 2]), "speed": torch.zeros(2, 2)}
    assert critics.by_action
    assert critics(seen).shape == (2, 2, 4)


def test_images_go_through_convolutions_that_frozen_critics_leave_alone():
    screen = Box(0, 255, (36, 36, 3), np.uint8)
    critics = critics_of(screen, TURN)
    obs, action = torch.zeros(2, 36, 36, 3, dtype=torch.uint8), torch.zeros(2, 2).requires_grad_()
    critics(obs, action, frozen=True).sum().backward()
    assert all(p.grad is None for p in critics.parameters())
    critics(obs, action).sum().backward()
    assert all(p.grad is not None for p in critics.parameters())


def test_a_network_with_a_carry_has_no_critics():
    network = make_agent_network(VECTOR, TURN, AgentConfig(recurrent="gru"), seed=0)
    with pytest.raises(InvalidOption, match="no carry"):
        make_critics(network, count=2, hidden=(4,), precision="float32")


# The layers of a policy -------------------------------------------------------------------


def test_a_policy_learns_by_the_same_products_and_plays_by_those_of_torch():
    network = make_agent_network(VECTOR, TURN, SoftPolicyConfig(init="orthogonal"), seed=0)
    seen = Inputs(torch.randn(64, 5), None, None, torch.zeros(64, dtype=torch.bool))
    plain, _ = network(seen)
    for module in network.modules():
        if isinstance(module, DenseLayers):
            module.use("bfloat16")
    assert torch.equal(network.eval()(seen)[0].policy_logits, plain.policy_logits)
    near = network.train()(seen)[0].policy_logits
    assert 0 < (near - plain.policy_logits).norm() < 0.02 * plain.policy_logits.norm()


def test_other_layers_than_rectified_ones_remain_as_torch_has_them():
    config = SoftPolicyConfig(activation="tanh")
    network = make_agent_network(VECTOR, TURN, config, seed=0)
    network.body.dense.use("bfloat16")
    assert network.body.dense.precision is None
