"""Actor-critics of dense layers learn without autograd what they learn with it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from fractions import Fraction  # noqa: E402

from gymnasium import spaces  # noqa: E402

from plangym_ext.arrays import Array, ArrayDict  # noqa: E402
from plangym_ext.learn import (  # noqa: E402
    DDPG,
    SAC,
    TD3,
    TQC,
    DeterministicPolicyConfig,
    SoftPolicyConfig,
    make_agent_network,
)
from plangym_ext.learn.engines.dense_stacks import DenseStacks, StackNorms  # noqa: E402
from plangym_ext.learn.networks.dense_product import product  # noqa: E402

STEPS, ENVS = 40, 2
OBS = spaces.Box(-np.inf, np.inf, (5,), np.float64)
ACTIONS = spaces.Box(np.array([-2.0, -1.0], np.float32), np.array([3.0, 1.0], np.float32))
POLICIES = {
    SAC: SoftPolicyConfig,
    TQC: SoftPolicyConfig,
    TD3: DeterministicPolicyConfig,
    DDPG: DeterministicPolicyConfig,
}


def played() -> ArrayDict:
    """Return a fragment of noise with episodes that end, and some that are cut off."""
    rng = np.random.default_rng(3)
    size = STEPS, ENVS

    def array(values, padding=0):
        made = Array(size, values.dtype, feature_shape=values.shape[2:], padding=padding)
        made[0 : len(values)] = values
        return made

    ends = rng.random(size) < 0.2
    terminated = ends & (rng.random(size) < 0.5)
    first = np.zeros((STEPS + 1, ENVS), np.bool_)
    first[1:] = ends
    return ArrayDict(
        {
            "obs": array(rng.normal(size=(STEPS + 1, ENVS, 5)), 1),
            "action": array(rng.uniform(ACTIONS.low, ACTIONS.high, (*size, 2)).astype(np.float32)),
            "reward": array(rng.normal(size=size).astype(np.float32)),
            "terminated": array(terminated),
            "truncated": array(ends & ~terminated),
            "final_obs": array(rng.normal(size=(*size, 5))),
            "valid": array(np.ones(size, np.bool_)),
            "first": array(first, 1),
        }
    )


def learned(kind, num_updates, *, compiled, normalize_obs=False, **options):
    """Return what an algorithm logs, and the weights of all its networks."""
    policy = POLICIES[kind](hidden=(24, 9), normalize_obs=normalize_obs)
    network = make_agent_network(OBS, ACTIONS, policy, seed=1)
    given = {"batch_size": 16, "critic_hidden": (20, 11), "learning_rate": 3e-3, **options}
    algorithm = kind(network, kind.config_class(capacity=100, compiled=compiled, **given), seed=2)
    assert algorithm.engine.is_dense == compiled
    tree = played()
    algorithm.replay.add(tree)
    if normalize_obs:
        # As after a round that was played before there was enough to learn from.
        network.normalizer.add(network.normalizer.moments(tree))
    algorithm._owed = Fraction(num_updates)
    logged = algorithm.train()
    modules = [network, *algorithm.modules.values()]
    return logged, [p.detach().clone() for module in modules for p in module.parameters()]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"critics": 3, "critic_hidden": (20,), "n_steps": 3, "prioritized": True},
        {"normalize_obs": True, "max_grad_norm": 0.5, "policy_every": 2, "critics": 1},
        {"critic_layer_norm": True, "max_grad_norm": 0.5},
        {"target_every": 7, "target_rate": 0.5},
    ],
    ids=["plain", "prioritised", "normalised", "normalised layers", "late targets"],
)
@pytest.mark.parametrize("kind", list(POLICIES))
def test_updates_are_those_of_autograd(kind, options):
    logged, mine = learned(kind, 20, compiled=True, **options)
    wanted, theirs = learned(kind, 20, compiled=False, **options)
    assert logged == {name: pytest.approx(number, rel=1e-3) for name, number in wanted.items()}
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def test_targets_of_updates_between_two_changes_are_worked_out_at_once(monkeypatch):
    rows = []
    target = TD3._target

    def counted(self, steps):
        rows.append(len(steps.reward))
        return target(self, steps)

    monkeypatch.setattr(TD3, "_target", counted)
    network = make_agent_network(OBS, ACTIONS, DeterministicPolicyConfig(hidden=(24,)), seed=1)
    algorithm = TD3(network, TD3.config_class(capacity=100, batch_size=16, target_every=6), seed=2)
    algorithm.replay.add(played())
    for count in (5, 8):
        algorithm._owed = Fraction(count)
        algorithm.train()
    # Of updates 0 to 5, 6 to 11 and 12, at most four at once, in rounds of five and eight.
    assert rows == [4 * 16, 16, 16, 4 * 16, 2 * 16, 16]


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("kind", list(POLICIES))
def test_updates_in_bfloat16_are_near_those_in_float32(kind, layer_norm):
    options = {"compiled": True, "critic_layer_norm": layer_norm}
    logged, _ = learned(kind, 4, precision="bfloat16", **options)
    wanted, _ = learned(kind, 4, **options)
    assert logged != wanted
    close = {n: pytest.approx(x, rel=0.05, abs=0.05) for n, x in wanted.items()}
    assert logged == close


def test_a_fixed_temperature_stays():
    for compiled in (True, False):
        logged, _ = learned(SAC, 5, compiled=compiled, learn_temperature=False, temperature=0.3)
        assert logged["train/temperature"] == pytest.approx(0.3)


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("hidden", [(), (8,), (8, 6, 5)])
def test_gradients_of_stacks_are_those_of_autograd(hidden, count, normalised):
    torch.manual_seed(0)

    def parameters(*shapes):
        return [torch.randn(count, *shape, requires_grad=True) for shape in shapes]

    sizes = [7, *hidden, 2]
    weights = parameters(*((b, a) for a, b in itertools.pairwise(sizes)))
    biases = parameters(*((size,) for size in sizes[1:]))
    scales, offsets = (parameters(*((size,) for size in hidden)) for _ in range(2))
    x, d_out = torch.randn(13, 7, requires_grad=True), torch.randn(count, 13, 2)
    y = x.expand(count, -1, -1)
    for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        y = torch.baddbmm(bias[:, None], y, weight.transpose(1, 2))
        if i < len(hidden) and normalised:
            deviation = (y.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
            y = (y - y.mean(-1, keepdim=True)) / deviation
            y = y * scales[i][:, None] + offsets[i][:, None]
        y = y.relu() if i < len(hidden) else y
    learned = [*weights, *biases, *(scales + offsets if normalised else [])]
    wanted = torch.autograd.grad((y * d_out).sum(), [x, *learned])
    found = {id(p): torch.zeros_like(p) for p in learned}
    norms = StackNorms(scales, offsets, found) if normalised else None
    stacks = DenseStacks(weights, biases, precision="float32", gradients=found, norms=norms)
    with torch.no_grad():
        out, tape = stacks.forward(x)
        stacks.backward(tape, d_out)
        of_x = stacks.input_gradient(tape, d_out, begin=4)
        one, _ = stacks.forward(x, first=1)
    torch.testing.assert_close(out, y)
    torch.testing.assert_close(one, y[:1])
    torch.testing.assert_close(of_x, wanted[0][:, 4:])
    for parameter, gradient in zip(learned, wanted[1:], strict=True):
        torch.testing.assert_close(found[id(parameter)], gradient)


def test_products_of_rows_that_lie_apart_are_right():
    torch.manual_seed(0)
    x, wide = torch.randn(128, 96), torch.randn(96, 200)
    for rows in (wide[:, ::2].t(), wide[:, 100:].t(), wide[:, :100].t().contiguous()):
        torch.testing.assert_close(product(x, rows), x @ rows.t())
