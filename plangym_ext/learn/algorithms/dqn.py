"""DQN: Q values from single steps that are drawn from a replay."""

from __future__ import annotations

from typing import final

from plangym_ext.learn.algorithms.off_policy import Steps
from plangym_ext.learn.algorithms.off_policy_config import DQNConfig
from plangym_ext.learn.algorithms.q_learning import Learned, QLearning
from plangym_ext.learn.algorithms.value_losses import chosen, error_loss
from plangym_ext.learn.torch_extra import torch


@final
class DQN(QLearning):
    """Q-learning with a target network; double, over n steps and prioritised as options.

    Source: Mnih et al. 2015, "Human-level control through deep reinforcement learning"; van
    Hasselt et al. 2016, "Deep reinforcement learning with double Q-learning".
    """

    config_class = DQNConfig

    def _loss(self, steps: Steps) -> Learned:
        with torch.no_grad():
            out, best = self._following(steps)
            target = torch.addcmul(steps.reward, steps.discount, chosen(out.q, best))
        value = chosen(self._out(self.network, steps.obs).q, steps.action - self._start)
        loss = error_loss(value, target, self.config.loss, steps.weight)
        value = value.detach()
        return Learned(loss, value, (target - value).abs())
