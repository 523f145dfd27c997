"""A2C: advantage actor-critic with one update per fragment."""

from __future__ import annotations

from plangym_ext.learn.algorithms.rollouts.config import A2CConfig
from plangym_ext.learn.algorithms.rollouts.policy_gradient import PolicyGradient
from plangym_ext.learn.algorithms.rollouts.rollout import Rollout, Rows


class A2C(PolicyGradient):
    """Advantage actor-critic, without the asynchrony of A3C.

    Recurrent networks learn from the whole sequences of the fragment.

    Source: Mnih et al. 2016, "Asynchronous methods for deep reinforcement learning".
    """

    config_class = A2CConfig
    config: A2CConfig

    def _estimate(self, rollout: Rollout) -> Rows:
        return self._advantages(rollout, self.config.advantages, self.config.gae_lambda)
