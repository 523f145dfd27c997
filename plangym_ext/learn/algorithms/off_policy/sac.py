"""SAC: soft actor-critic with a learned entropy temperature."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.algorithms.off_policy.actor_critic_config import SACConfig
from plangym_ext.learn.algorithms.off_policy.drawn_steps import Steps
from plangym_ext.learn.algorithms.off_policy.replay_actor_critic import ReplayActorCritic
from plangym_ext.learn.distributions.base import masked
from plangym_ext.learn.distributions.categorical import Categorical
from plangym_ext.learn.distributions.squashed_gaussian import SquashedGaussian
from plangym_ext.learn.distributions.torch_noise import TorchNoise
from plangym_ext.learn.losses.critics import (
    bootstrapped,
    discrete_soft_value,
    lowest_gradient,
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

    config_class: ClassVar[type[SACConfig]] = SACConfig
    config: SACConfig
    #: Distributions of actions that can be learned.
    _policies: ClassVar[tuple[type[Any], ...]] = (SquashedGaussian, Categorical)

    def _learned_with_policy(self) -> nn.Module:
        config = self.config
        start = torch.tensor(math.log(config.temperature), dtype=torch.float32, device=self._device)
        # Of what a unit of entropy is worth the logarithm is learned.
        self._log_temperature = nn.Parameter(start, requires_grad=config.learn_temperature)
        temperature = self.modules["temperature"] = nn.ParameterDict({"log": self._log_temperature})
        #: Critics say what each action is worth; draws are of no use.
        self._is_discrete = isinstance(self.network.distribution, Categorical)
        self._target_entropy = self._target_of_entropy()
        # One step of both: their gradients have no number in common.
        return nn.ModuleList([self.network, temperature])

    def _target_of_entropy(self) -> float:
        if self.config.target_entropy is not None:
            return self.config.target_entropy
        width: int = self.network.distribution.width
        # A Gaussian has a mean and a deviation for each number.
        return _DISCRETE_ENTROPY * math.log(width) if self._is_discrete else -width / 2

    def _check_policy(self) -> None:
        super()._check_policy()
        if not isinstance(self.network.distribution, self._policies):
            raise InvalidOption(
                f"{type(self).__name__}: the policy must be a "
                f"{' or a '.join(kind.__name__ for kind in self._policies)}; the network has a "
                f"{type(self.network.distribution).__name__}. Make it with SoftPolicyConfig()."
            )

    def _target(self, steps: Steps) -> Any:
        # Actions of the present policy, valued by the target critics: there is no target policy.
        params = masked(self.engine.params(steps.next_obs), steps.next_legal)
        temperature = self._log_temperature.exp()
        if self._is_discrete:
            q, log_probs = (
                self.engine.next_values(steps.next_obs),
                functional.log_softmax(params, 1),
            )
            value = discrete_soft_value(q, log_probs, temperature)
        else:
            action, log_prob = self._drawn(params)
            q = self.engine.next_values(steps.next_obs, action)
            value = soft_value(q, log_prob, temperature)
        return bootstrapped(steps.reward, steps.discount, value)

    def _update_policy(self, steps: Steps) -> dict[str, Any]:
        engine, temperature = self.engine, self.engine.number(self._log_temperature.exp())
        params = masked(engine.params(steps.obs, learn=True), steps.legal)
        step = self._discrete_step if self._is_discrete else self._drawn_step
        value, log_prob, d_params = step(steps.obs, params, temperature)
        loss, entropy = -engine.number(value.mean()), -engine.number(log_prob.mean())
        total, learned = loss, []
        if self.config.learn_temperature:
            log = engine.number(self._log_temperature)
            more, d_log = temperature_loss(log, entropy, self._wanted_entropy(steps))
            total, learned = loss + more, [(self._log_temperature, d_log)]
        engine.learn_policy(d_params, *learned)
        return {
            "policy_loss": loss,
            "policy_grad_norm": self._descend("policy", total),
            "entropy": entropy,
            "temperature": temperature,
        }

    def _drawn_step(self, obs: Any, params: Any, temperature: Any) -> tuple[Any, Any, Any]:
        """Return soft values and log densities `[N]` of drawn actions, and the gradient `[N, P]`.

        It is the gradient of minus the mean of the values by the outputs of the policy.
        """
        action, log_prob = self._drawn(params)
        q, d_q = self._rated(self.engine.values(obs, action))
        d_action = self.engine.action_gradient(d_q)
        value = q - temperature * log_prob
        return value, log_prob, self.engine.draw_gradient(d_action, temperature / len(value))

    def _rated(self, q: Any) -> tuple[Any, Any]:
        """Return what critics say of N actions, and the gradient of minus its mean by `q`."""
        return q.amin(dim=0), lowest_gradient(q)

    def _discrete_step(self, obs: Any, params: Any, temperature: Any) -> tuple[Any, Any, Any]:
        """Return the same as `_drawn_step`, by means over all actions."""
        # The mean over all actions needs no gradient of the critics: it reaches the policy by the
        # probabilities.
        q = self.engine.values(obs)
        with torch.enable_grad():
            params = params.requires_grad_()
            log_probs = functional.log_softmax(params, dim=1)
            value = discrete_soft_value(q, log_probs, temperature)
            (d_params,) = torch.autograd.grad(-value.mean(), params)
        log_probs = log_probs.detach()
        return value.detach(), (log_probs.exp() * log_probs).sum(dim=1), d_params

    def _drawn(self, params: Any) -> tuple[Any, Any]:
        """Return actions in units of their bounds, and their log density."""
        noise = TorchNoise(params.shape[:-1], device=params.device).normal(params.shape[-1] // 2)
        return self.engine.draw(params, noise)

    def _wanted_entropy(self, steps: Steps) -> Any:
        """Return what the mean entropy is to be."""
        if steps.legal is None or self.config.target_entropy is not None:
            return self._target_entropy
        # More than this no policy has that plays what it may alone: without it the temperature
        # would rise for ever.
        return (_DISCRETE_ENTROPY * steps.legal.sum(dim=1).clamp(min=1).log()).mean()
