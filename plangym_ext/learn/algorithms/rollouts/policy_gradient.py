"""PolicyGradient: one full-batch policy-gradient update, the base of A2C and REINFORCE."""

from __future__ import annotations

from plangym_ext.learn.algorithms.rollouts.base import means_of
from plangym_ext.learn.algorithms.rollouts.gradients import LossTerms
from plangym_ext.learn.algorithms.rollouts.policy_algorithm import PolicyAlgorithm
from plangym_ext.learn.algorithms.rollouts.rollout import Rows
from plangym_ext.learn.sampling.collected import Progress
from plangym_ext.learn.schedule import at


class PolicyGradient(PolicyAlgorithm):
    """Abstract; makes one update on all rows. Recurrent networks learn from whole sequences."""

    def _learn(self, rows: Rows, progress: Progress | None) -> dict[str, float]:
        bonus = at(self.config.entropy_weight, self.updates)
        batch = self.gradients.batch(self._steps(rows)) if rows.carry is None else rows
        logged = self.gradients.losses(batch, LossTerms(self.config.value_weight, bonus))
        logged["grad_norm"] = self._update(batch)
        if progress is not None:
            progress(1)
        return means_of([logged])
