"""One step down the policy gradient with each fragment, what A2C and REINFORCE have in common."""

from __future__ import annotations

from typing import Any

from plangym_ext.learn.algorithms.losses import mean_of, policy_gradient_loss, value_loss
from plangym_ext.learn.algorithms.rollout import Rows
from plangym_ext.learn.algorithms.rollout_algorithm import RolloutAlgorithm, means_of
from plangym_ext.learn.sampling.collected import Progress
from plangym_ext.learn.schedule import at
from plangym_ext.learn.torch_extra import torch


class PolicyGradient(RolloutAlgorithm):
    """Abstract; makes one update on all rows. Recurrent networks learn from whole sequences."""

    def _learn(self, rows: Rows, progress: Progress | None) -> dict[str, float]:
        if rows.carry is None:
            rows = rows.steps()
        out, _ = self.network(rows.inputs, rows.carry)
        distribution = self.network.distribution
        log_prob = distribution.log_prob(out.policy_logits, rows.action)
        policy = policy_gradient_loss(log_prob, rows.advantage, rows.valid)
        value = torch.zeros(())
        if out.value is not None:
            value = value_loss(out.value, rows.target, rows.valid)
        entropy = mean_of(distribution.entropy(out.policy_logits), rows.valid)
        bonus = at(self.config.entropy_weight, self.updates)
        loss = policy + self.config.value_weight * value - bonus * entropy
        logged: dict[str, Any] = {
            "loss": loss.detach(),
            "policy_loss": policy.detach(),
            "value_loss": value.detach(),
            "entropy": entropy.detach(),
            "grad_norm": self._update(loss),
        }
        if progress is not None:
            progress(1)
        return means_of([logged])
