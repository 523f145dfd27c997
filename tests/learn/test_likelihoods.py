"""log_prob, entropy, KL, draws and their gradients, beside torch.distributions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from torch import distributions as td

from plangym_ext.arrays.nested import mapped
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.distributions.base import masked
from plangym_ext.learn.distributions.make import distribution_of
from plangym_ext.learn.distributions.noise import GeneratorNoise
from plangym_ext.learn.distributions.torch_noise import TorchNoise

LOW, HIGH = np.array([-2, 0], np.float32), np.array([6, 1], np.float32)
BOX = Box(LOW, HIGH)
MIDDLE, HALF = torch.tensor([2.0, 0.5]), torch.tensor([4.0, 0.5])


class OneGenerator:
    """Random numbers of B rows from one generator: many rows, fast."""

    def __init__(self, rows, seed=0):
        self.rows, self.rng = rows, np.random.default_rng(seed)

    def uniform(self, k=1):
        return self.rng.random((self.rows, k))

    def normal(self, k=1):
        return self.rng.standard_normal((self.rows, k))


def normal(params):
    mean, log_std = params.chunk(2, dim=-1)
    return td.Independent(td.Normal(mean, log_std.exp()), 1)


def multi(params):
    return [td.Categorical(logits=p) for p in torch.split(params, [2, 3], dim=-1)]


class Summed:
    """Independent parts as one oracle."""

    def __init__(self, parts):
        self.parts = parts

    def log_prob(self, actions):
        return sum(part.log_prob(a) for part, a in zip(self.parts, actions, strict=True))

    def entropy(self):
        return sum(part.entropy() for part in self.parts)


def noisy(params):
    # 0 times, so that the entropy has a gradient to compare.
    return td.Independent(td.Normal(torch.tanh(params), 1 + 0 * params), 1)


# Space -> the oracle of its parameters, and its actions as the oracle wants them.
ORACLES = {
    "deterministic": (BOX, noisy, lambda a: (a - MIDDLE) / HALF),
    "categorical": (Discrete(4, start=3), lambda p: td.Categorical(logits=p), lambda a: a - 3),
    "multi": (
        MultiDiscrete([2, 3], start=[1, 5]),
        lambda p: Summed(multi(p)),
        lambda a: (a[..., 0] - 1, a[..., 1] - 5),
    ),
    "bernoulli": (
        MultiBinary((2, 2)),
        lambda p: td.Independent(td.Bernoulli(logits=p), 1),
        lambda a: a.flatten(-2).float(),
    ),
    "gaussian": (BOX, normal, lambda a: (a - MIDDLE) / HALF),
    "unbounded": (Box(-np.inf, np.inf, (1, 2), np.float32), normal, lambda a: a.flatten(-2)),
    "joint": (
        Dict({"a": Discrete(3), "b": Tuple((BOX, MultiBinary(2)))}),
        lambda p: Summed(
            [
                td.Categorical(logits=p[..., :3]),
                normal(p[..., 3:7]),
                td.Independent(td.Bernoulli(logits=p[..., 7:]), 1),
            ]
        ),
        lambda a: (a["a"], (a["b"][0] - MIDDLE) / HALF, a["b"][1].float()),
    ),
}


def params_of(distribution, *lead, seed=0):
    generator = torch.Generator().manual_seed(seed)
    # Within the range of log deviations, out of which they have no gradient.
    return torch.randn(*lead, distribution.width, generator=generator).clamp(-1.9, 1.9)


@pytest.mark.parametrize("name", ORACLES)
def test_likelihoods_and_their_gradients_are_those_of_the_oracle(name):
    space, oracle, as_oracle = ORACLES[name]
    distribution = distribution_of(space, deterministic=name == "deterministic")
    params = params_of(distribution, 5, 7).requires_grad_()
    actions = distribution.rsample(params.detach(), TorchNoise((5, 7)))
    twin = params.detach().clone().requires_grad_()
    for mine, theirs in (
        (distribution.log_prob(params, actions), oracle(twin).log_prob(as_oracle(actions))),
        (distribution.entropy(params), oracle(twin).entropy()),
    ):
        assert mine.shape == (5, 7)
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)
        (mine_grad,) = torch.autograd.grad(mine.sum(), params)
        (their_grad,) = torch.autograd.grad(theirs.sum(), twin)
        torch.testing.assert_close(mine_grad, their_grad, rtol=1e-4, atol=1e-5)
    # The ratio of a policy to itself is 1, however many parts an action has.
    ratio = (distribution.log_prob(params, actions) - distribution.log_prob(twin, actions)).exp()
    assert (ratio == 1).all()


@pytest.mark.parametrize(
    "name", ["categorical", "bernoulli", "gaussian", "unbounded", "deterministic"]
)
def test_divergences_are_those_of_the_oracle(name):
    space, oracle, _ = ORACLES[name]
    distribution = distribution_of(space, deterministic=name == "deterministic")
    p, q = (params_of(distribution, 6, seed=seed).requires_grad_() for seed in (1, 2))
    mine, theirs = distribution.kl(p, q), td.kl_divergence(oracle(p), oracle(q))
    torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)
    mine, theirs = (torch.autograd.grad(kl.sum(), (p, q)) for kl in (mine, theirs))
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    assert distribution.kl(p, p).abs().max() < 1e-6


def test_divergences_of_parts_add():
    distribution = distribution_of(ORACLES["joint"][0])
    p, q = params_of(distribution, 6, seed=1), params_of(distribution, 6, seed=2)
    ends = [(0, 3), (3, 7), (7, 9)]
    expected = sum(
        part.kl(p[:, a:b], q[:, a:b]) for part, (a, b) in zip(distribution.parts, ends, strict=True)
    )
    torch.testing.assert_close(distribution.kl(p, q), expected)
    two = distribution_of(MultiDiscrete([2, 3]))
    p, q = params_of(two, 6, seed=1), params_of(two, 6, seed=2)
    expected = sum(td.kl_divergence(a, b) for a, b in zip(multi(p), multi(q), strict=True))
    torch.testing.assert_close(two.kl(p, q), expected)


# The squashed Gaussian ------------------------------------------------------------


def squashed(params):
    transforms = [td.transforms.TanhTransform(cache_size=1)]
    return td.TransformedDistribution(normal(params), transforms)


def test_squashed_draws_reach_the_bounds_and_their_likelihood_is_the_oracle_s():
    distribution = distribution_of(BOX, squash=True)
    params = params_of(distribution, 200).requires_grad_()
    noise = OneGenerator(200)
    drawn = distribution.sample(params.detach().numpy(), noise)
    assert (drawn >= LOW).all()
    assert (drawn <= HIGH).all()
    assert np.ptp(drawn, axis=0) == pytest.approx([8, 1], rel=0.05)
    # In units in which the bounds are -1 and 1, through the draw itself, gradients and all.
    actions, mine = distribution.rsample_with_log_prob(
        params, TorchNoise((200,), torch.Generator().manual_seed(0))
    )
    twin = params.detach().clone().requires_grad_()
    torch.manual_seed(0)
    oracle = squashed(twin)
    x = oracle.rsample()
    theirs = oracle.log_prob(x)
    torch.testing.assert_close(actions, MIDDLE + HALF * x)
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)
    (mine_grad,) = torch.autograd.grad(mine.sum() + actions.sum(), params)
    (their_grad,) = torch.autograd.grad(theirs.sum() + (HALF * x).sum(), twin)
    torch.testing.assert_close(mine_grad, their_grad, rtol=1e-3, atol=1e-3)
    # Of actions away from the bounds, the likelihood can be told from the action alone.
    inside = (x.abs() < 0.999).all(dim=1)
    assert inside.sum() > 100
    again = distribution.log_prob(params, actions)[inside]
    torch.testing.assert_close(again, mine[inside], rtol=1e-3, atol=2e-3)


def test_squashed_likelihoods_stay_finite_at_the_bounds():
    distribution = distribution_of(BOX, squash=True)
    params = torch.tensor([[12.0, -12.0, 0.0, 0.0]], requires_grad=True)
    actions, log_prob = distribution.rsample_with_log_prob(params, TorchNoise((1,)))
    assert actions.tolist() == [[6.0, 0.0]]
    for found in (log_prob, distribution.log_prob(params, actions.detach())):
        (grad,) = torch.autograd.grad(found.sum(), params, retain_graph=True)
        assert found.isfinite().all()
        assert grad.isfinite().all()


def test_squashed_entropy_is_the_mean_over_draws():
    distribution = distribution_of(Box(-1.0, 1.0, (1,), np.float32), squash=True)
    params = torch.tensor([[0.3, -1.0], [-1.0, 0.0], [0.0, 2.0]])
    with torch.no_grad():
        rows = params[:, None].expand(3, 200_000, 2)
        generator = torch.Generator().manual_seed(0)
        _, logs = distribution.rsample_with_log_prob(rows, TorchNoise((3, 200_000), generator))
    # Four standard errors of 200,000 draws are 0.006, 0.01 and 0.11.
    error = (distribution.entropy(params) + logs.mean(dim=1)).abs()
    assert (error < torch.tensor([0.007, 0.011, 0.2])).all()
    other = torch.tensor([[0.0, -0.5]]).expand(3, 2)
    expected = td.kl_divergence(normal(params), normal(other))
    torch.testing.assert_close(distribution.kl(params, other), expected)


def test_what_has_no_bounds_cannot_be_squashed():
    with pytest.raises(InvalidOption, match=r"two finite bounds; got low \[-inf\].*RescaleAction"):
        distribution_of(Box(-np.inf, 1.0, (1,), np.float32), squash=True)


@pytest.mark.parametrize("options", [{"squash": True}, {"deterministic": True}])
def test_a_number_that_cannot_change_is_called_so(options):
    fixed = Box(np.float32([-3, 5]), np.float32([1, 5]))
    with pytest.raises(InvalidOption, match=r"numbers \[1\] .* no other value than \[5.0\]"):
        distribution_of(fixed, **options)


# Draws ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ORACLES)
def test_draws_of_numpy_and_of_tensors_are_the_same_function_of_the_noise(name):
    distribution = distribution_of(ORACLES[name][0])
    params = params_of(distribution, 64)

    class AsTensors(OneGenerator):
        def uniform(self, k=1):
            return torch.from_numpy(super().uniform(k))

        def normal(self, k=1):
            return torch.from_numpy(super().normal(k)).float()

    drawn = distribution.draw(params.numpy(), OneGenerator(64))
    tensors = distribution.rsample(params, AsTensors(64))
    mapped(lambda a, b: np.testing.assert_allclose(a, b.numpy(), atol=1e-5), drawn, tensors)


@pytest.mark.parametrize("name", [*ORACLES, "squashed"])
def test_a_row_s_draw_does_not_depend_on_the_other_rows(name):
    space = BOX if name == "squashed" else ORACLES[name][0]
    distribution = distribution_of(space, squash=name == "squashed")
    params = params_of(distribution, 64).numpy()
    rngs = np.random.default_rng(0).spawn(64)
    states = [rng.bit_generator.state for rng in rngs]
    together = distribution.sample(params, GeneratorNoise(rngs))
    for size in (1, 2, 3, 5, 7, 17, 33):
        for rng, state in zip(rngs, states, strict=True):
            rng.bit_generator.state = state
        some = distribution.sample(params[:size], GeneratorNoise(rngs[:size]))
        mapped(lambda a, b, n=size: np.testing.assert_array_equal(a[:n], b), together, some)


def test_draws_follow_the_distribution():
    rows = 20_000
    bernoulli = distribution_of(MultiBinary(2))
    # Logits 0 and ln 3; four standard deviations of a share of 20,000 draws are 0.0142.
    drawn = bernoulli.sample(np.tile([[0.0, np.log(3)]], (rows, 1)), OneGenerator(rows))
    np.testing.assert_allclose(drawn.mean(axis=0), [0.5, 0.75], atol=0.0142)
    drawn = bernoulli.sample(np.tile([[0.0, np.log(3)]], (rows, 1)), OneGenerator(rows), 0.5)
    np.testing.assert_allclose(drawn.mean(axis=0), [0.5, 0.9], atol=0.0142)
    two = distribution_of(MultiDiscrete([2, 3]))
    drawn = two.sample(np.tile(np.log([[1.0, 3, 1, 2, 5]]), (rows, 1)), OneGenerator(rows))
    joint = np.histogram2d(*drawn.T, bins=(2, 3))[0] / rows
    np.testing.assert_allclose(joint, np.outer([0.25, 0.75], [1 / 8, 2 / 8, 5 / 8]), atol=0.0142)


@pytest.mark.parametrize("squash", [False, True])
def test_continuous_draws_follow_the_distribution(squash):
    rows = 5_000
    distribution = distribution_of(BOX, squash=squash)
    params = np.tile([[0.25, -0.5, np.log(0.5), np.log(0.7)]], (rows, 1))
    drawn = distribution.draw(params, OneGenerator(rows, seed=1)).astype(np.float64)
    scaled = (drawn - MIDDLE.numpy()) / HALF.numpy()
    if squash:
        scaled = np.arctanh(scaled)
    for i, (mean, std) in enumerate([(0.25, 0.5), (-0.5, 0.7)]):
        expected = td.Normal(mean, std).cdf(torch.from_numpy(np.sort(scaled[:, i]))).numpy()
        # Kolmogorov and Smirnov: further off once in 1,000 fixed seeds.
        assert np.abs(expected - (np.arange(rows) + 0.5) / rows).max() < 1.95 / np.sqrt(rows)
    assert np.corrcoef(scaled.T)[0, 1] == pytest.approx(0, abs=4 / np.sqrt(rows))


def test_no_number_is_so_large_that_it_draws_what_has_no_chance():
    class AlmostOne:
        def uniform(self, k=1):
            return np.full((2, k), 1 - 2.0**-53)

    logits = np.array([[0.3, 1.7, -400.0], [-0.2, 0.9, 5.0]], np.float32)
    legal = np.array([[True, True, True], [True, True, False]])
    assert distribution_of(Discrete(3)).draw(masked(logits, legal), AlmostOne()).tolist() == [1, 1]


def test_plain_gaussians_are_clipped_and_the_likelihood_is_of_what_was_drawn():
    distribution = distribution_of(BOX)
    params = params_of(distribution, 500).numpy()
    raw = distribution.draw(params, OneGenerator(500))
    clipped = distribution.clip(raw)
    assert distribution.clips
    assert (raw > HIGH).any()
    assert (raw != clipped).any()
    assert (clipped <= HIGH).all()
    assert (clipped >= LOW).all()
    assert raw.dtype == np.float32
    both = (distribution.log_prob(torch.tensor(params), torch.tensor(a)) for a in (raw, clipped))
    assert (next(both) != next(both)).any()


def test_what_is_forbidden_has_no_part_in_likelihood_and_entropy():
    distribution = distribution_of(Discrete(4, start=3))
    params = params_of(distribution, 6).requires_grad_()
    legal = torch.tensor([[True, False, True, True]] * 6)
    oracle = td.Categorical(logits=params[:, [0, 2, 3]])
    for action, place in ((3, 0), (5, 1), (6, 2)):
        mine = distribution.log_prob(masked(params, legal), torch.full((6,), action))
        torch.testing.assert_close(mine, oracle.log_prob(torch.tensor(place)))
    entropy = distribution.entropy(masked(params, legal))
    torch.testing.assert_close(entropy, oracle.entropy())
    (grad,) = torch.autograd.grad(entropy.sum(), params)
    assert grad.isfinite().all()
    assert not grad[:, 1].any()
