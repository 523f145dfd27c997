"""CrossQ: SAC with batch-renormalised critics, which need no target networks."""

from __future__ import annotations

from typing import Any

from plangym_ext.arrays.nested import mapped
from plangym_ext.learn.algorithms.off_policy.actor_critic_config import CrossQConfig
from plangym_ext.learn.algorithms.off_policy.drawn_steps import Steps
from plangym_ext.learn.algorithms.off_policy.sac import SAC
from plangym_ext.learn.distributions.squashed_gaussian import SquashedGaussian
from plangym_ext.learn.losses.critics import bootstrapped, critic_loss, soft_value
from plangym_ext.learn.torch_extra import torch


class CrossQ(SAC):
    """SAC whose critics value what was played and what follows as one batch.

    The statistics of that batch are those of both, so that the critics themselves can say what
    follows is worth. The policy is not normalised, as it is by the authors.

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
        # What follows is a constant of the loss.
        d_q = torch.cat([d_q, torch.zeros_like(d_q)], dim=1)
        return self._step_critics(loss, d_q) | {"q": q.mean()}, errors
