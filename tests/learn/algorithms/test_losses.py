"""Losses: tables worked out by hand, and a second implementation row by row."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from plangym_ext.learn.distributions.gaussian import Gaussian  # noqa: E402
from plangym_ext.learn.losses.policies import (  # noqa: E402
    approximate_kl,
    clip_share,
    clipped_policy_loss,
    clipped_value_loss,
    explained_variance,
    mean_of,
    policy_gradient_loss,
    value_loss,
    vtrace_estimates,
)

NAN = math.nan


def tensor(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def log(*numbers):
    return tensor(*numbers).log()


# What counts ------------------------------------------------------------------------------


def test_a_mean_divides_by_the_rows_that_count_not_by_those_that_differ_from_zero():
    assert mean_of(tensor(0, 2)) == 1
    assert mean_of(tensor(0, 2, 9), torch.tensor([True, True, False])) == 1
    assert mean_of(tensor(3, 9), torch.tensor([False, False])) == 0


def test_rows_that_do_not_count_may_be_anything_and_get_no_gradient():
    rows = tensor(1, NAN, 3).requires_grad_()
    mean = mean_of(rows, torch.tensor([True, False, True]))
    mean.backward()
    assert mean == 2
    assert rows.grad.tolist() == [0.5, 0, 0.5]


VALID = torch.tensor([True, True, False])


@pytest.mark.parametrize(
    "loss",
    [
        lambda new, old, x, v: policy_gradient_loss(new, x, v),
        lambda new, old, x, v: clipped_policy_loss(new, old, x, 0.2, v),
        lambda new, old, x, v: value_loss(new, x, v),
        lambda new, old, x, v: clipped_value_loss(new, old, x, 0.2, v),
        lambda new, old, x, v: approximate_kl(new, old, v),
        lambda new, old, x, v: clip_share(new, old, 0.2, v),
        lambda new, old, x, v: explained_variance(new, x, v),
    ],
)
def test_every_loss_is_that_of_the_valid_rows_alone(loss):
    new, old, x = tensor(-0.5, -1, NAN), tensor(-0.7, -0.4, NAN), tensor(2, -3, NAN)
    found = loss(new, old, x, VALID)
    assert torch.isfinite(found)
    torch.testing.assert_close(found, loss(new[:2], old[:2], x[:2], None))


# Tables -----------------------------------------------------------------------------------


def test_clipped_policy_loss_is_the_table():
    # Ratio, advantage, min(r A, clip(r) A):
    # 1.5, 2: 1.2 * 2; 0.5, 2: 0.5 * 2; 1.5, -1: 1.5 * -1; 0.5, -1: 0.8 * -1.
    new, advantage = log(1.5, 0.5, 1.5, 0.5), tensor(2, 2, -1, -1)
    found = clipped_policy_loss(new, torch.zeros_like(new), advantage, 0.2)
    assert float(found) == pytest.approx(-(2.4 + 1 - 1.5 - 0.8) / 4)


def test_what_is_clipped_gets_no_gradient():
    new = log(1.5, 0.5, 1.5, 0.5).requires_grad_()
    clipped_policy_loss(new, torch.zeros(4), tensor(2, 2, -1, -1), 0.2).backward()
    # d(-r A / 4) / d log r = -r A / 4 where it is not clipped.
    torch.testing.assert_close(new.grad, tensor(0, -0.25, 0.375, 0))


def test_equal_policies_have_the_ratio_one_exactly_for_actions_of_many_numbers():
    distribution = Gaussian(np.full(3, -1.0), np.full(3, 1.0), np.float32)
    params = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    actions = torch.rand(5, 3, generator=torch.Generator().manual_seed(1))
    log_prob = distribution.log_prob(params, actions)
    assert log_prob.shape == (5,)
    ones = torch.ones(5)
    assert clipped_policy_loss(log_prob, log_prob.clone(), ones, 0.2) == -1
    assert approximate_kl(log_prob, log_prob.clone()) == 0


def test_clipped_value_loss_is_the_table():
    # Old 1; value, target: max((v - R)^2, (near - R)^2) with near = 1 + clip(v - 1, -.5, .5).
    value, target = tensor(3, 3, 1.2), tensor(3, 0, 2)
    # 0 against (1.5 - 3)^2; 9 against 1.5^2; both .8^2.
    found = clipped_value_loss(value, torch.ones(3), target, 0.5)
    assert float(found) == pytest.approx((2.25 + 9 + 0.64) / 3)


def test_policy_gradient_value_and_divergence_are_the_tables():
    assert float(policy_gradient_loss(tensor(-1, -2), tensor(3, -1))) == pytest.approx(0.5)
    assert float(value_loss(tensor(1, 2), tensor(3, 2))) == pytest.approx(2)
    # r - 1 - log r of 2 and 1/2.
    found = approximate_kl(log(2, 0.5), torch.zeros(2))
    assert float(found) == pytest.approx((1 - math.log(2) + -0.5 + math.log(2)) / 2)
    assert float(clip_share(log(1.5, 0.9, 0.7, 1), torch.zeros(4), 0.2)) == 0.5
    assert float(explained_variance(tensor(1, 2), tensor(1, 2))) == 1
    assert float(explained_variance(tensor(0, 0), tensor(1, 3))) == 0
    assert float(explained_variance(tensor(0, 1), tensor(2, 2))) == 0


# V-trace ----------------------------------------------------------------------------------


def impala(new, old, value, reward, done, cut, final, last, gamma):
    """One env, straight from the paper's definition: sums over what follows, no recursion."""
    steps = len(reward)
    ratio = [math.exp(a - b) for a, b in zip(new, old, strict=True)]
    after = [
        0.0 if done[t] else final[t] if cut[t] else value[t + 1] if t + 1 < steps else last
        for t in range(steps)
    ]
    targets = []
    for s in range(steps):
        total, weight = value[s], 1.0
        for t in range(s, steps):
            error = min(1.0, ratio[t]) * (reward[t] + gamma * after[t] - value[t])
            total += weight * error
            if done[t] or cut[t]:
                break
            weight *= gamma * min(1.0, ratio[t])
        targets.append(total)
    policy = squared = 0.0
    for t in range(steps):
        follows = targets[t + 1] if t + 1 < steps else last
        follows = 0.0 if done[t] else final[t] if cut[t] else follows
        advantage = min(1.0, ratio[t]) * (reward[t] + gamma * follows - value[t])
        policy -= advantage * new[t] / steps
        squared += (value[t] - targets[t]) ** 2 / steps
    return policy, squared


def test_vtrace_losses_are_those_of_the_papers_definition():
    rng = np.random.default_rng(0)
    new, old = -rng.random((2, 8))
    value, reward, final = rng.normal(size=(3, 8))
    done, cut = np.arange(8) == 2, np.arange(8) == 5
    log_ratio, learned, of_value = (torch.as_tensor(x)[:, None] for x in (new - old, new, value))
    advantage, target = vtrace_estimates(
        log_ratio,
        of_value,
        *(torch.as_tensor(x)[:, None] for x in (reward, done)),
        discount=0.9,
        bootstrap=torch.tensor([0.7], dtype=torch.float64),
        truncated=torch.as_tensor(cut)[:, None],
        final_value=torch.as_tensor(final)[:, None],
    )
    wanted = impala(new, old, value, reward, done, cut, final, 0.7, 0.9)
    found = policy_gradient_loss(learned, advantage), value_loss(of_value, target)
    assert [float(loss) for loss in found] == pytest.approx(wanted)
