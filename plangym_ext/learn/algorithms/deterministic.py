"""A policy of actions alone, taught by the gradient of a critic by its action."""

from __future__ import annotations

from typing import Any

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.algorithms.actor_critic_config import DeterministicConfig
from plangym_ext.learn.algorithms.off_policy import Steps
from plangym_ext.learn.algorithms.replay_actor_critic import ReplayActorCritic
from plangym_ext.learn.algorithms.target_network import TargetNetwork
from plangym_ext.learn.distributions.deterministic_actions import DeterministicActions
from plangym_ext.learn.losses.critics import (
    bootstrapped,
    deterministic_policy_loss,
    smoothed,
)
from plangym_ext.learn.schedule import at
from plangym_ext.learn.torch_extra import torch


class DeterministicActorCritic(ReplayActorCritic):
    """Abstract; what TD3 and DDPG do, which differ in their settings alone."""

    config: DeterministicConfig

    def _build(self) -> None:
        super()._build()
        self._target_policy = TargetNetwork(self.network)
        # In training mode, in which its products are the fast ones.
        self._target_policy.module.train()
        self.modules["target_policy"] = self._target_policy.module
        self.optimizers["policy"] = self._make_optimizer(self.network)

    def _check_policy(self) -> None:
        super()._check_policy()
        if not isinstance(self.network.distribution, DeterministicActions):
            raise InvalidOption(
                f"{type(self).__name__}: the network must have actions of a Box alone for a "
                f"policy; it has a {type(self.network.distribution).__name__}. Make it with "
                f"DeterministicPolicyConfig()."
            )

    def prepare(self, agent: Any) -> None:
        """Set the deviation of the agent's noise; see `Algorithm.prepare`."""
        agent.exploration = at(self.config.exploration, self.steps)

    def _target(self, steps: Steps) -> Any:
        config, distribution = self.config, self.network.distribution
        numbers = torch.tanh(self._params(self._target_policy.module, steps.next_obs))
        if config.target_noise:
            normal = torch.randn_like(numbers)
            numbers = smoothed(numbers, normal, config.target_noise, config.target_noise_clip)
        action = distribution.units.tensor_actions(numbers)
        q = self._asked(self._target_critics.module)(steps.next_obs, action)
        return bootstrapped(steps.reward, steps.discount, q.amin(dim=0))

    def _update_policy(self, steps: Steps) -> dict[str, Any]:
        action = self.network.distribution.actions(self._params(self.network, steps.obs))
        q = self._asked(self._critics)(steps.obs, action, frozen=True, first=1)
        loss = deterministic_policy_loss(q[0])
        return {"policy_loss": loss.detach(), "policy_grad_norm": self._descend("policy", loss)}

    def _follow(self, rate: float) -> None:
        super()._follow(rate)
        self._target_policy.follow(rate)
