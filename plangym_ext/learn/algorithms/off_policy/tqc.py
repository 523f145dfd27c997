"""TQC: SAC whose critics have quantiles of the return, of which the largest are dropped."""

from __future__ import annotations

from typing import Any

from plangym_ext.learn.algorithms.off_policy.actor_critic_config import TQCConfig
from plangym_ext.learn.algorithms.off_policy.drawn_steps import Steps
from plangym_ext.learn.algorithms.off_policy.sac import SAC
from plangym_ext.learn.distributions.squashed_gaussian import SquashedGaussian
from plangym_ext.learn.losses.critics import bootstrapped
from plangym_ext.learn.losses.q_values import quantile_rows, weighted_mean
from plangym_ext.learn.torch_extra import torch


class TQC(SAC):
    """Truncated quantile critics, over the actions of a Box.

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
