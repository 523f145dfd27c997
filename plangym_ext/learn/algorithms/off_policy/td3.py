"""TD3 and DDPG: deterministic policies trained by the critic's gradient over the action."""

from __future__ import annotations

from typing import Any, ClassVar

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.algorithms.off_policy.config import (
    DDPGConfig,
    DeterministicConfig,
    TD3Config,
)
from plangym_ext.learn.algorithms.off_policy.drawn_steps import Steps, TargetNetwork
from plangym_ext.learn.algorithms.off_policy.replay_actor_critic import ReplayActorCritic
from plangym_ext.learn.distributions.gaussian import DeterministicActions
from plangym_ext.learn.distributions.torch_noise import TorchNoise
from plangym_ext.learn.losses.q_values import bootstrapped, deterministic_policy_loss, smoothed
from plangym_ext.learn.schedule import at
from plangym_ext.learn.torch_extra import nn, torch


class TD3(ReplayActorCritic):
    """Twin delayed deterministic policy gradient.

    For continuous actions where a deterministic policy is wanted: `DeterministicPolicyConfig()`.
    `exploration` is the deviation of the noise on played actions.

    Targets are of the lowest critic at actions smoothed by noise. The policy learns less often
    than the critics.

    Source: Fujimoto et al. 2018, "Addressing function approximation error in actor-critic
    methods".
    """

    config_class: ClassVar[type[DeterministicConfig]] = TD3Config
    config: DeterministicConfig
    _together = 4

    def _learned_with_policy(self) -> nn.Module:
        target = self._targets["target_policy"] = TargetNetwork(self.network)
        # In training mode, in which its products are the fast ones.
        self.modules["target_policy"] = target.module.train()
        return super()._learned_with_policy()

    def _check_policy(self) -> None:
        super()._check_policy()
        if not isinstance(self.network.distribution, DeterministicActions):
            raise InvalidOption(
                f"{type(self).__name__}: the policy must be DeterministicActions of a Box; the "
                f"network has a {type(self.network.distribution).__name__}. Make it with "
                f"DeterministicPolicyConfig()."
            )

    def prepare(self, agent: Any) -> None:
        """Set the deviation of the agent's noise; see `Algorithm.prepare`."""
        super().prepare(agent)
        agent.exploration = at(self.config.exploration, self.steps)

    def _target(self, steps: Steps) -> Any:
        config = self.config
        action = torch.tanh(self.engine.params(steps.next_obs, of="target_policy"))
        if config.target_noise:
            noise = TorchNoise(action.shape[:-1], device=action.device).normal(action.shape[-1])
            action = smoothed(action, noise, config.target_noise, config.target_noise_clip)
        q = self.engine.next_values(steps.next_obs, action)
        return bootstrapped(steps.reward, steps.discount, q.amin(dim=0))

    def _update_policy(self, steps: Steps) -> dict[str, Any]:
        action = torch.tanh(self.engine.params(steps.obs, learn=True))
        # Of the first critic alone.
        q = self.engine.values(steps.obs, action, first=1)
        d_action = self.engine.action_gradient(torch.full_like(q, -1 / q.shape[1]))
        # The derivative of tanh, by which the outputs become the action.
        self.engine.learn_policy(d_action * (1 - action**2))
        loss = self.engine.number(deterministic_policy_loss(q[0]))
        return {"policy_loss": loss, "policy_grad_norm": self._descend("policy", loss)}


class DDPG(TD3):
    """Deep deterministic policy gradient: TD3 with one critic, and neither noise nor delay.

    To compare with; TD3 is stronger.

    Source: Lillicrap et al. 2016, "Continuous control with deep reinforcement learning", with
    normal noise on the actions.
    """

    config_class = DDPGConfig
