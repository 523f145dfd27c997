"""V-trace (IMPALA): off-policy corrected actor-critic for older rollouts."""

from __future__ import annotations

from plangym_ext.learn.algorithms.rollouts.config import VTraceConfig
from plangym_ext.learn.algorithms.rollouts.policy_gradient import PolicyGradient
from plangym_ext.learn.algorithms.rollouts.rollout import Rollout, Rows
from plangym_ext.learn.distributions.masking import masked
from plangym_ext.learn.losses.vtrace import vtrace_estimates
from plangym_ext.learn.torch_extra import torch


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
