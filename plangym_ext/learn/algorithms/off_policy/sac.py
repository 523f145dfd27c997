"""SAC: soft actor-critic with a learned entropy temperature."""

from __future__ import annotations

import math
from typing import Any, final

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.algorithms.off_policy.actor_critic_config import SACConfig
from plangym_ext.learn.algorithms.off_policy.dense_actor_critic import DenseActorCritic
from plangym_ext.learn.algorithms.off_policy.drawn_steps import Steps
from plangym_ext.learn.algorithms.off_policy.replay_actor_critic import ReplayActorCritic
from plangym_ext.learn.distributions.categorical import Categorical
from plangym_ext.learn.distributions.masking import masked
from plangym_ext.learn.distributions.squashed_gaussian import SquashedGaussian
from plangym_ext.learn.distributions.torch_noise import TorchNoise
from plangym_ext.learn.losses.critics import (
    bootstrapped,
    discrete_soft_value,
    soft_value,
    temperature_loss,
)
from plangym_ext.learn.torch_extra import functional, nn, torch

#: Of the largest entropy of a Discrete space, what the policy keeps.
_DISCRETE_ENTROPY = 0.89


class SAC(ReplayActorCritic):
    """Soft actor-critic, over the actions of a Box or a Discrete space.

    Source: Haarnoja et al. 2018, "Soft actor-critic algorithms and applications"; for Discrete
    spaces Christodoulou 2019, "Soft actor-critic for discrete action settings".
    """

    config_class = SACConfig
    config: SACConfig

    def _build(self) -> None:
        super()._build()
        config = self.config
        temperature = Temperature(config.temperature, learned=config.learn_temperature)
        self._temperature = temperature.to(self._device)
        self.modules["temperature"] = self._temperature
        # One step of both: their gradients have no number in common.
        self.optimizers["policy"] = self._make_optimizer(
            nn.ModuleList([self.network, self._temperature])
        )
        self._target_entropy = self._target_of_entropy()
        self._make_dense()
        if self._dense is not None:
            # Here and not above: numba is of no use to other networks.
            from plangym_ext.learn.compiled.squashed_gaussian import SquashedDraws

            self._draws = SquashedDraws()
            views = self.optimizers["policy"].views()
            self._d_log_temperature = views.get(id(self._temperature.log), (None, None))[1]

    def _target_of_entropy(self) -> float:
        if self.config.target_entropy is not None:
            return self.config.target_entropy
        width: int = self.network.distribution.width
        # A Gaussian has a mean and a deviation for each number.
        return _DISCRETE_ENTROPY * math.log(width) if self._critics.by_action else -width / 2

    def _target_entropy_of(self, steps: Steps) -> Any:
        """Return the target entropy: of all rows, or `[N]` where masks bound it."""
        if steps.legal is None or self.config.target_entropy is not None:
            return self._target_entropy
        # More than this no policy has that plays what it may alone: without it the temperature
        # would rise for ever.
        return _DISCRETE_ENTROPY * steps.legal.sum(dim=1).clamp(min=1).log()

    def _check_policy(self) -> None:
        super()._check_policy()
        if not isinstance(self.network.distribution, SquashedGaussian | Categorical):
            raise InvalidOption(
                f"SAC: the policy must be a squashed Gaussian over a Box, or a Discrete one; the "
                f"network has a {type(self.network.distribution).__name__}. Make it with "
                f"SoftPolicyConfig()."
            )

    def _target(self, steps: Steps) -> Any:
        params = masked(self._params(self.network, steps.next_obs), steps.next_legal)
        temperature = self._temperature.log.exp()
        if self._dense is not None:
            action, log_prob = self._drawn(params)
            q = self._dense.next_values(steps.next_obs, action)
            value = soft_value(q, log_prob, temperature)
            return bootstrapped(steps.reward, steps.discount, value)
        # Actions of the present policy, rated by the critics that follow: there is no policy that
        # follows.
        value, _ = self._value(params, self._target_critics.module, steps.next_obs, temperature)
        return bootstrapped(steps.reward, steps.discount, value)

    def _update_policy(self, steps: Steps) -> dict[str, Any]:
        if self._dense is not None:
            with torch.no_grad():
                return self._update_dense_policy(self._dense, steps)
        params = masked(self._params(self.network, steps.obs), steps.legal)
        # Detached in the policy's loss, in which a lower temperature would be a gain of its own.
        log, temperature = self._temperature.log, self._temperature.log.detach().exp()
        value, log_prob = self._value(params, self._critics, steps.obs, temperature)
        loss = -value.mean()
        total = loss
        if self.config.learn_temperature:
            total = loss + temperature_loss(log, log_prob, self._target_entropy_of(steps))
        norm = self._descend("policy", total)
        return {
            "policy_loss": loss.detach(),
            "policy_grad_norm": norm,
            "entropy": -log_prob.detach().mean(),
            "temperature": temperature,
        }

    def _update_dense_policy(self, dense: DenseActorCritic, steps: Steps) -> dict[str, Any]:
        """Take the same step without autograd."""
        params, tape = dense.params(steps.obs)
        action, log_prob = self._drawn(params)
        q, q_tape = dense.values(steps.obs, action)
        temperature = float(self._temperature.log.exp())
        value = soft_value(q, log_prob, temperature)
        lowest = (q == q.amin(dim=0)).float()
        # Minus the mean of q is minimised; of critics that agree each counts for its share.
        d_q = lowest / (-len(value) * lowest.sum(dim=0))
        d_action = dense.action_gradient(q_tape, d_q)
        dense.learn_policy(tape, self._draws.gradient(d_action, temperature / len(value)))
        entropy, loss = -float(log_prob.mean()), -float(value.mean())
        total = loss
        if self.config.learn_temperature:
            total += float(self._temperature.log) * (entropy - self._target_entropy)
            # The gradient of `temperature_loss`: its logarithm falls while the entropy is above the
            # target.
            self._d_log_temperature[...] = entropy - self._target_entropy
        return {
            "policy_loss": loss,
            "policy_grad_norm": self._descend("policy", total),
            "entropy": entropy,
            "temperature": temperature,
        }

    def _drawn(self, params: Any) -> tuple[Any, Any]:
        """Return actions in units of their bounds, and their log density."""
        noise = TorchNoise(params.shape[:-1]).normal(params.shape[-1] // 2)
        return self._draws.draw(params, noise)

    def _value(self, params: Any, critics: Any, obs: Any, temperature: Any) -> tuple[Any, Any]:
        """Return the soft values of rows, and log-probabilities: of draws, or their means."""
        if self._critics.by_action:
            log_probs = functional.log_softmax(params, dim=1)
            with torch.no_grad():
                # The mean over all actions needs no gradient of the critics: it reaches the policy
                # by the probabilities.
                q = self._asked(critics)(obs)
            value = discrete_soft_value(q, log_probs, temperature)
            return value, (log_probs.exp() * log_probs).sum(dim=1)
        noise = TorchNoise(params.shape[:-1], device=params.device)
        action, log_prob = self.network.distribution.rsample_with_log_prob(params, noise)
        return soft_value(
            self._asked(critics)(obs, action, frozen=True), log_prob, temperature
        ), log_prob


@final
class Temperature(nn.Module):
    """The weight of entropy relative to rewards, with a learned logarithm.

    Args:
        start: what it is at first.
        learned: whether it gets a gradient.
    """

    def __init__(self, start: float, *, learned: bool) -> None:
        super().__init__()
        self.log = nn.Parameter(
            torch.tensor(math.log(start), dtype=torch.float32), requires_grad=learned
        )
