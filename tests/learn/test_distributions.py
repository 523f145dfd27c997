from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.distributions.base import masked
from plangym_ext.learn.distributions.box_units import BoxUnits
from plangym_ext.learn.distributions.make import distribution_of
from plangym_ext.learn.distributions.noise import GeneratorNoise


def noise(count):
    return GeneratorNoise([np.random.default_rng(i) for i in range(count)])


def test_probabilities_are_a_softmax_over_what_is_legal():
    three = distribution_of(Discrete(3, start=7))
    logits = np.log([[1.0, 2.0, 5.0], [1.0, 2.0, 5.0]])
    legal = np.array([[True, True, True], [True, True, False]])
    found = three.probabilities(masked(logits, legal))
    np.testing.assert_allclose(found, [[1 / 8, 2 / 8, 5 / 8], [1 / 3, 2 / 3, 0]], rtol=1e-6)
    np.testing.assert_array_equal(three.greedy(masked(logits, legal)), [9, 8])


def test_large_logits_do_not_overflow():
    three = distribution_of(Discrete(3))
    np.testing.assert_array_equal(three.probabilities(np.array([[1e4, 0, -1e4]])), [[1, 0, 0]])


def test_a_row_without_legal_actions_is_no_error():
    logits = masked(np.zeros((1, 2)), np.zeros((1, 2), bool))
    found = distribution_of(Discrete(2)).probabilities(logits)
    np.testing.assert_array_equal(found, [[0.5, 0.5]])


def test_samples_follow_the_probabilities():
    three = distribution_of(Discrete(3))
    logits = np.tile(np.log([[1.0, 2.0, 5.0]]), (4000, 1))
    legal = np.ones((4000, 3), bool)
    share = np.bincount(three.sample(masked(logits, legal), noise(4000)), minlength=3) / 4000
    # Four standard deviations of a share of 4,000 draws are at most 0.032.
    np.testing.assert_allclose(share, [1 / 8, 2 / 8, 5 / 8], atol=0.032)
    # p^2 at temperature 1/2: 1, 4, 25 of 30.
    share = np.bincount(three.sample(masked(logits, legal), noise(4000), 0.5), minlength=3) / 4000
    np.testing.assert_allclose(share, [1 / 30, 4 / 30, 25 / 30], atol=0.032)


def test_what_is_forbidden_is_never_drawn():
    three = distribution_of(Discrete(3))
    legal = np.tile([[True, False, True]], (500, 1))
    drawn = three.sample(masked(np.tile([[0.0, 50.0, 0.0]], (500, 1)), legal), noise(500))
    assert set(drawn.tolist()) == {0, 2}


@pytest.mark.parametrize(
    "space", [Discrete(3), MultiDiscrete([2, 3]), Box(-1.0, 3.0, (2,), np.float32)]
)
def test_a_row_is_drawn_by_its_own_generator(space):
    distribution = distribution_of(space)
    params = np.random.default_rng(0).normal(size=(5, distribution.width))
    together = distribution.sample(params, noise(5))
    for i in range(5):
        alone = distribution.sample(params[i : i + 1], GeneratorNoise([np.random.default_rng(i)]))
        np.testing.assert_array_equal(together[i], alone[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "space",
    [
        Discrete(4, start=-1),
        MultiDiscrete([2, 3, 4]),
        MultiDiscrete([[2, 3], [4, 2]], start=[[1, 0], [-2, 5]]),
        Box(np.array([-1, 0], np.float32), np.array([1, 10], np.float32)),
        Box(-np.inf, np.inf, (2, 2), np.float64),
    ],
)
def test_actions_are_in_the_space_and_are_taught_back(space):
    distribution = distribution_of(space)
    params = np.random.default_rng(1).normal(size=(6, distribution.width))
    for actions in (distribution.greedy(params), distribution.sample(params, noise(6))):
        assert all(space.contains(action) for action in actions)
        assert actions.dtype == space.dtype
    target = torch.from_numpy(distribution.encode(actions))
    assert target.shape == (6, distribution.target_width)
    learned = torch.zeros((6, distribution.width), requires_grad=True)
    optimizer = torch.optim.Adam([learned], lr=0.05)
    first = None
    for _ in range(1000):
        optimizer.zero_grad()
        loss = distribution.loss(learned, target)
        first = loss.detach() if first is None else first
        loss.sum().backward()
        optimizer.step()
    assert (distribution.loss(learned, target) < first).all()
    back = distribution.greedy(learned.detach().numpy())
    np.testing.assert_allclose(back, actions, atol=0.02 if isinstance(space, Box) else 0)


def test_multi_discrete_parts_lie_side_by_side():
    distribution = distribution_of(MultiDiscrete([2, 3]))
    assert distribution.encode(np.array([[1, 2]])).tolist() == [[0, 1, 0, 0, 1]]
    # Uniform in both parts: ln 2 + ln 3.
    loss = distribution.loss(torch.zeros(1, 5), torch.tensor([[0.0, 1, 0, 0, 1]]))
    assert loss.item() == pytest.approx(math.log(6), rel=1e-6)


def test_categorical_loss_by_hand():
    two = distribution_of(Discrete(3))
    logits = torch.log(torch.tensor([[1.0, 2.0, 5.0]]))
    target = torch.tensor([[0.25, 0.75, 0.0]])
    expected = -(0.25 * math.log(1 / 8) + 0.75 * math.log(2 / 8))
    assert two.loss(logits, target).item() == pytest.approx(expected, rel=1e-6)
    legal = torch.tensor([[True, True, False]])
    expected = -(0.25 * math.log(1 / 3) + 0.75 * math.log(2 / 3))
    assert two.loss(masked(logits, legal), target).item() == pytest.approx(expected, rel=1e-6)


def test_gaussian_loss_is_the_log_density():
    one = distribution_of(Box(-2.0, 6.0, (1,), np.float64))
    # The middle is 2 and half the width 4, so 4 is 0.5.
    assert one.encode(np.array([[4.0]])).tolist() == [[0.5]]
    found = one.loss(torch.tensor([[0.1, math.log(2.0)]]), torch.tensor([[0.5]])).item()
    density = math.exp(-0.5 * (0.4 / 2) ** 2) / (2 * math.sqrt(2 * math.pi))
    assert found == pytest.approx(-math.log(density), rel=1e-6)
    assert one.greedy(np.array([[0.5, 0.0]])).tolist() == [[4.0]]
    assert one.greedy(np.array([[3.0, 0.0]])).tolist() == [[6.0]]


def test_the_largest_number_of_a_float_is_no_bound():
    top = np.finfo(np.float32).max
    units = BoxUnits(*np.array([[-top, -1, 0], [top, 1, top]], np.float32), np.float32)
    drawn = np.array([[2.5, 0.5, -3.0]])
    np.testing.assert_array_equal(units.actions(drawn), drawn)
    np.testing.assert_array_equal(units.scaled(units.actions(drawn)), drawn)
    assert units.any_bound
    with pytest.raises(InvalidOption, match="must have two finite bounds"):
        units.check_bounded("SAC", "use PPO")
