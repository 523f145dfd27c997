"""Policy gradients with one update per fragment: A2C, REINFORCE, V-trace (IMPALA)."""

from __future__ import annotations

from plangym_ext.learn.algorithms.rollouts.base import means_of
from plangym_ext.learn.algorithms.rollouts.config import A2CConfig, ReinforceConfig, VTraceConfig
from plangym_ext.learn.algorithms.rollouts.policy_algorithm import PolicyAlgorithm
from plangym_ext.learn.algorithms.rollouts.rollout import Rollout
from plangym_ext.learn.distributions.base import masked
from plangym_ext.learn.engines.policy_value import LossTerms
from plangym_ext.learn.engines.rows import Rows
from plangym_ext.learn.losses.policies import vtrace_estimates
from plangym_ext.learn.returns import returns
from plangym_ext.learn.sampling.collected import Progress
from plangym_ext.learn.schedule import at
from plangym_ext.learn.torch_extra import torch


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


class A2C(PolicyGradient):
    """Advantage actor-critic, without the asynchrony of A3C.

    Recurrent networks learn from the whole sequences of the fragment.

    Source: Mnih et al. 2016, "Asynchronous methods for deep reinforcement learning".
    """

    config_class = A2CConfig
    config: A2CConfig

    def _estimate(self, rollout: Rollout) -> Rows:
        return self._advantages(rollout, self.config.advantages, self.config.gae_lambda)


class REINFORCE(PolicyGradient):
    """The Monte Carlo policy gradient, with values as a baseline where the network has them.

    Without a value head, only episodes that ended in the fragment teach, and one that was
    truncated counts as if nothing had followed: sample whole episodes, with `on_end="wait"`.

    Source: Williams 1992, "Simple statistical gradient-following algorithms for connectionist
    reinforcement learning".
    """

    config_class = ReinforceConfig
    config: ReinforceConfig

    def _estimate(self, rollout: Rollout) -> Rows:
        target = returns(
            rollout.reward, rollout.terminated, gamma=self.config.discount, **rollout.ends
        )
        if rollout.value is not None:
            return rollout.rows(target - rollout.value, target)
        ended = rollout.ended if rollout.valid is None else rollout.ended & rollout.valid
        # Where an ending is still to come in this fragment: counted from its last row back.
        whole = ended.flip(0).cumsum(0).flip(0) > 0
        valid = whole if rollout.valid is None else whole & rollout.valid
        return rollout.rows(target, target)._replace(valid=valid)


class VTrace(PolicyGradient):
    """The learner of IMPALA: importance ratios correct for the age of the fragment.

    Values are those of the network as it is now, for all rows and for what follows the ends.
    What the policy that played thought of them is not looked at.

    Source: Espeholt et al. 2018, "IMPALA: scalable distributed deep-RL with importance weighted
    actor-learner architectures", section 4.
    """

    config_class = VTraceConfig
    config: VTraceConfig

    def _estimate(self, rollout: Rollout) -> Rows:
        self._values(rollout)  # refuses a network without any
        with torch.no_grad():
            out, _ = self.network(rollout.inputs, rollout.carry)
            # As when it was played: else the ratio would be that of two other policies.
            params = masked(out.policy_logits, rollout.inputs.legal)
            log_prob = self.network.distribution.log_prob(params, rollout.action)
        advantage, target = vtrace_estimates(
            log_prob - rollout.log_prob,
            out.value,
            rollout.reward,
            rollout.terminated,
            gamma=self.config.discount,
            ratio_clip=self.config.ratio_clip,
            trace_clip=self.config.trace_clip,
            **rollout.ends,
        )
        return rollout._replace(value=out.value).rows(advantage, target)
