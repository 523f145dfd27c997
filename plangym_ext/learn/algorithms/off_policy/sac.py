"""SAC: soft actor-critic with a learned entropy temperature."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from plangym_ext.arrays.nested import mapped
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.algorithms.off_policy.config import CrossQConfig, SACConfig, TQCConfig
from plangym_ext.learn.algorithms.off_policy.drawn_steps import Steps
from plangym_ext.learn.algorithms.off_policy.replay_actor_critic import ReplayActorCritic
from plangym_ext.learn.distributions.base import masked
from plangym_ext.learn.distributions.categorical import Categorical
from plangym_ext.learn.distributions.gaussian import SquashedGaussian
from plangym_ext.learn.distributions.torch_noise import TorchNoise
from plangym_ext.learn.losses.q_values import (
    bootstrapped,
    critic_loss,
    discrete_soft_value,
    lowest_gradient,
    quantile_rows,
    soft_value,
    temperature_loss,
    weighted_mean,
)
from plangym_ext.learn.torch_extra import functional, nn, torch

#: Of the largest entropy of a Discrete space, what the policy keeps.
_DISCRETE_ENTROPY = 0.89


class SAC(ReplayActorCritic):
    """Soft actor-critic, over the actions of a Box or a Discrete space.

    The first choice from a replay for continuous actions. The network is a policy,
    `SoftPolicyConfig()`; the algorithm has its own critics. The temperature is learned, so that the
    policy keeps `target_entropy`: minus one per number of an action, for Discrete spaces 0.89 times
    the maximum. `PolicyAgent` plays uniformly random actions for the first `learning_starts` steps.

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
        #: Critics give a value for each action, so no actions are drawn.
        self._is_discrete = isinstance(self.network.distribution, Categorical)
        self._target_entropy = self._target_of_entropy()
        # One step of both: their gradients have no number in common.
        return nn.ModuleList([self.policy, temperature])

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
        # Of the legal actions only: a policy over them cannot reach the entropy of all actions, and
        # the temperature would rise for ever.
        return (_DISCRETE_ENTROPY * steps.legal.sum(dim=1).clamp(min=1).log()).mean()


# CrossQ -----------------------------------------------------------------------


class CrossQ(SAC):
    """SAC whose critics value what was played and what follows as one batch.

    For few steps: it has no target networks and learns faster per step than SAC. The policy learns
    once in three updates; critics are 1,024 wide as in Stable-Baselines3 (the authors: 2,048).

    The statistics of that batch are those of both, so that the critics themselves can give the next
    values. The policy is not normalised, as it is by the authors.

    Source: Bhatt et al. 2024, "CrossQ: batch normalization in deep reinforcement learning for
    greater sample efficiency and simplicity".
    """

    config_class = CrossQConfig
    config: CrossQConfig
    _policies = (SquashedGaussian,)
    _has_target_critics = False

    def _build(self) -> None:
        super()._build()
        # By running means everywhere but where they learn.
        self.modules["critics"].eval()

    def _target(self, steps: Steps) -> Any:
        """Return the next actions `[N, D]`, and minus their entropy `[N]`: values come later."""
        action, log_prob = self._drawn(self.engine.params(steps.next_obs))
        return action, self._log_temperature.exp() * log_prob

    def _update_critics(self, steps: Steps, target: Any) -> tuple[dict[str, Any], Any]:
        critics: Any = self.modules["critics"]
        next_action, paid = target
        obs = mapped(lambda *parts: torch.cat(parts), steps.obs, steps.next_obs)
        action = torch.cat([critics.action(steps.action), next_action])
        critics.train()
        q, next_q = self.engine.played_values(obs, action, scaled=True).chunk(2, dim=1)
        critics.eval()
        value = soft_value(next_q, paid, 1.0)
        wanted = bootstrapped(steps.reward, steps.discount, value)
        loss, d_q = critic_loss(q, wanted, steps.weight)
        errors = (q - wanted).abs().mean(dim=0) if self.config.prioritized else None
        # The next value is a constant of the loss.
        d_q = torch.cat([d_q, torch.zeros_like(d_q)], dim=1)
        return self._step_critics(loss, d_q) | {"q": q.mean()}, errors


# TQC --------------------------------------------------------------------------


class TQC(SAC):
    """Truncated quantile critics, over the actions of a Box.

    SAC whose critics output quantiles of the return: targets leave out the largest, `dropped` times
    the number of critics. For tasks in which SAC overestimates. Defaults are those of
    Stable-Baselines3; the authors have `critics=5`, `critic_hidden=(512, 512, 512)`.

    Source: Kuznetsov et al. 2020, "Controlling overestimation bias with truncated mixture of
    continuous distributional quantile critics".
    """

    config_class = TQCConfig
    config: TQCConfig
    _policies = (SquashedGaussian,)

    def _target(self, steps: Steps) -> Any:
        """Return `[N, L]`, the quantiles of all critics but the largest."""
        config = self.config
        action, log_prob = self._drawn(self.engine.params(steps.next_obs))
        # `[N, E * K]`: quantiles of all critics are one mixture.
        mixed = self.engine.next_values(steps.next_obs, action).transpose(0, 1).flatten(1)
        kept = config.critics * (config.quantiles - config.dropped)
        value = mixed.sort(dim=1).values[:, :kept] - self._log_temperature.exp() * log_prob[:, None]
        return bootstrapped(steps.reward[:, None], steps.discount[:, None], value)

    def _update_critics(self, steps: Steps, target: Any) -> tuple[dict[str, Any], Any]:
        q = self.engine.played_values(steps.obs, steps.action)
        count, size, width = q.shape
        with torch.enable_grad():
            q = q.requires_grad_()
            rows = quantile_rows(q.flatten(0, 1), target.repeat(count, 1)) / width
            loss = weighted_mean(rows.view(count, size).mean(dim=0), steps.weight)
            (d_q,) = torch.autograd.grad(loss, q)
        mean = q.detach().mean(dim=2)
        # Of the means: the loss of quantiles has a least value that differs from row to row.
        errors = (mean - target.mean(dim=1)).abs().mean(dim=0) if self.config.prioritized else None
        return self._step_critics(loss, d_q) | {"q": mean.mean()}, errors

    def _rated(self, q: Any) -> tuple[Any, Any]:
        # The policy climbs the mean of all quantiles: none is dropped for it.
        return q.mean(dim=(0, 2)), torch.full_like(q, -1 / q.numel())
