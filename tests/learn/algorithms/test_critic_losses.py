"""Losses of critics and of the policies they teach: tables by hand, and TorchRL where it is."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gymnasium.spaces import Box  # noqa: E402

from plangym_ext.learn.distributions.make import distribution_of  # noqa: E402
from plangym_ext.learn.losses.q_values import (  # noqa: E402
    bootstrapped,
    critic_loss,
    deterministic_policy_loss,
    discrete_soft_value,
    lowest_gradient,
    smoothed,
    soft_value,
    temperature_loss,
)

NAN = math.nan


def tensor(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def test_what_ended_bootstraps_from_nothing_not_even_from_what_is_no_number():
    reward, discount = tensor(1, 2, 3), tensor(0.5, 0, 1)
    assert bootstrapped(reward, discount, tensor(10, NAN, -1)).tolist() == [6, 2, 2]


def test_critics_are_wrong_by_half_their_squared_errors():
    q = tensor([1, 2], [0, 5]).requires_grad_()
    loss, gradient = critic_loss(q, tensor(3, 1))
    # Half of (4 + 1) / 2 and (9 + 16) / 2.
    assert loss.item() == 0.5 * (2.5 + 12.5)
    loss.backward()
    assert q.grad.tolist() == gradient.tolist() == [[-1, 0.5], [-1.5, 2]]
    loss, gradient = critic_loss(q, tensor(3, 1), tensor(1, 0))
    assert loss.item() == 0.5 * (2 + 4.5)
    assert gradient.tolist() == [[-1, 0], [-1.5, 0]]


def test_the_lowest_critic_of_each_row_is_climbed_and_equal_ones_alike():
    q = tensor([1, 4, 2], [3, 2, 2]).requires_grad_()
    (wanted,) = torch.autograd.grad(-q.amin(dim=0).mean(), q)
    torch.testing.assert_close(lowest_gradient(q.detach()), wanted)


def test_a_soft_value_is_the_lowest_critics_and_the_entropy():
    q, log_prob = tensor([1, 4], [3, 2]).requires_grad_(), tensor(-2, 1).requires_grad_()
    value = soft_value(q, log_prob, 0.5)
    assert value.tolist() == [1 + 1, 2 - 0.5]
    value.sum().backward()
    assert q.grad.tolist() == [[1, 0], [0, 1]]
    assert log_prob.grad.tolist() == [-0.5, -0.5]


def test_a_discrete_soft_value_is_the_mean_over_actions():
    q = tensor([[1, 4], [3, 2]], [[2, 0], [5, 7]])
    log_probs = tensor([0.25, 0.75], [0.5, 0.5]).log()
    wanted = [
        0.25 * (1 - 0.5 * math.log(0.25)) + 0.75 * (0 - 0.5 * math.log(0.75)),
        2.5 - 0.5 * math.log(0.5),
    ]
    assert discrete_soft_value(q, log_probs, 0.5).tolist() == pytest.approx(wanted)
    # Where one action alone is left, nothing is drawn: it is that action's value.
    sure = tensor([0.0, -1e9], [0.0, -1e9])
    assert discrete_soft_value(q, sure, 0.5).tolist() == [1, 3]


@pytest.mark.parametrize(("entropy", "sign"), [(1.0, -1), (2.0, 0), (3.0, 1)])
def test_the_temperature_rises_where_the_entropy_is_below_its_target(entropy, sign):
    log = tensor(0.3)[0].requires_grad_()
    loss, found = temperature_loss(log, entropy, 2.0)
    assert loss.item() == pytest.approx(-0.3 * (2 - entropy))
    (gradient,) = torch.autograd.grad(loss, log)
    assert gradient.item() == found == pytest.approx(sign)  # a step goes against it


def test_a_deterministic_policy_climbs_what_the_critic_says():
    assert deterministic_policy_loss(tensor(1, 5)).item() == -3


def test_smoothing_noise_is_clipped_and_so_are_the_actions():
    numbers, normal = tensor([0, 0, 0.9, -0.9]), tensor([1, 9, 1, -9])
    assert smoothed(numbers, normal, 0.2, 0.5).tolist() == [[0.2, 0.5, 1.0, -1.0]]


# TorchRL's, where it is installed ---------------------------------------------------------


def torchrl_sac():
    """Return TorchRL's SAC loss of linear networks, with these networks."""
    torchrl = pytest.importorskip("torchrl")
    from tensordict.nn import NormalParamExtractor, TensorDictModule, TensorDictSequential
    from torchrl.data import Bounded
    from torchrl.modules import ProbabilisticActor, TanhNormal, ValueOperator
    from torchrl.objectives import SACLoss, SoftUpdate

    assert torchrl
    torch.manual_seed(0)
    policy, critic = torch.nn.Linear(3, 4), torch.nn.Linear(5, 1)
    actor = ProbabilisticActor(
        TensorDictSequential(
            TensorDictModule(policy, in_keys=["observation"], out_keys=["params"]),
            TensorDictModule(
                NormalParamExtractor(scale_mapping="exp"),
                in_keys=["params"],
                out_keys=["loc", "scale"],
            ),
        ),
        in_keys=["loc", "scale"],
        spec=Bounded(-1.0, 1.0, (2,)),
        distribution_class=TanhNormal,
    )

    class Joined(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.critic = critic

        def forward(self, observation, action):
            return self.critic(torch.cat([observation, action], dim=-1))

    value = ValueOperator(Joined(), in_keys=["observation", "action"])
    loss = SACLoss(
        actor, value, num_qvalue_nets=2, alpha_init=0.5, target_entropy=-2.0, loss_function="l2"
    )
    loss.make_value_estimator(gamma=0.9)
    SoftUpdate(loss, tau=0.1)  # without which it warns
    return loss, policy


def test_losses_of_sac_are_those_of_torchrl():
    loss, policy = torchrl_sac()
    from tensordict import TensorDict

    rows = 6
    obs, next_obs = torch.randn(rows, 3), torch.randn(rows, 3)
    action, reward = torch.rand(rows, 2) * 2 - 1, torch.randn(rows, 1)
    ended = torch.tensor([True, *[False] * (rows - 1)])[:, None]
    batch = TensorDict(
        {
            "observation": obs,
            "action": action,
            "next": {
                "observation": next_obs,
                "reward": reward,
                "done": ended,
                "terminated": ended,
            },
        },
        [rows],
    )
    distribution = distribution_of(Box(-1.0, 1.0, (2,), np.float32), squash=True)
    weights = loss.qvalue_network_params["module", "critic", "weight"].data
    biases = loss.qvalue_network_params["module", "critic", "bias"].data

    def q(seen, played):
        x = torch.cat([seen, played], dim=1)
        return torch.stack([(x @ w.T + b)[:, 0] for w, b in zip(weights, biases, strict=True)])

    class Same:
        """The numbers that TorchRL's draw has with the same seed."""

        def normal(self, k):
            return torch.normal(torch.zeros(rows, k), torch.ones(rows, k))

    torch.manual_seed(1)
    theirs = loss(batch)
    torch.manual_seed(1)
    after, after_log_prob = distribution.rsample_with_log_prob(policy(next_obs), Same())
    value = soft_value(q(next_obs, after), after_log_prob, 0.5)
    target = bootstrapped(reward[:, 0], 0.9 * ~ended[:, 0], value).detach()
    # Theirs is without the half.
    wanted = 2 * critic_loss(q(obs, action), target)[0]
    torch.testing.assert_close(theirs["loss_qvalue"], wanted, rtol=1e-4, atol=1e-4)
    played, log_prob = distribution.rsample_with_log_prob(policy(obs), Same())
    policy_loss = -soft_value(q(obs, played), log_prob, 0.5).mean()
    torch.testing.assert_close(theirs["loss_actor"], policy_loss, rtol=1e-4, atol=1e-4)
    log = torch.tensor(0.5).log()
    wanted, _ = temperature_loss(log, -log_prob.mean(), -2.0)
    torch.testing.assert_close(theirs["loss_alpha"], wanted, rtol=1e-4, atol=1e-4)
