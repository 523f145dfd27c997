"""REINFORCE: policy gradient weighted by the return of each step."""

from __future__ import annotations

from plangym_ext.learn.algorithms.rollouts.config import ReinforceConfig
from plangym_ext.learn.algorithms.rollouts.policy_gradient import PolicyGradient
from plangym_ext.learn.algorithms.rollouts.rollout import Rollout, Rows
from plangym_ext.learn.returns import returns


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
