"""C51, QR-DQN and Rainbow: Q-learning of return distributions."""

from __future__ import annotations

from typing import Any, ClassVar

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.algorithms.off_policy.config import C51Config, DQNConfig, QRDQNConfig
from plangym_ext.learn.algorithms.off_policy.config import RainbowConfig as RainbowConfig
from plangym_ext.learn.algorithms.off_policy.drawn_steps import Steps
from plangym_ext.learn.algorithms.off_policy.q_learning import Learned, QLearning
from plangym_ext.learn.losses.q_values import (
    chosen,
    cross_entropy,
    divergence,
    moved_atoms,
    quantile_rows,
    weighted_mean,
)
from plangym_ext.learn.networks.network import NetworkOutput
from plangym_ext.learn.networks.noisy import has_noise
from plangym_ext.learn.torch_extra import torch


class AtomsLearning(QLearning):
    """Abstract; learns the probabilities of returns at some atoms."""

    _needed = "QAgentConfig(returns='atoms')"

    def _loss(self, steps: Steps) -> Learned:
        support = self.network.support
        with torch.no_grad():
            out, best = self._following(steps)
            following = chosen(out.returns, best).softmax(dim=1)
            target = moved_atoms(following, steps.reward, steps.discount, support)
        logits = chosen(self._out(self.network, steps.obs).returns, steps.action - self._start)
        # Without the entropy of the target, which has no gradient; it counts in the priorities
        # alone.
        rows = cross_entropy(logits, target)
        with torch.no_grad():
            q = logits.softmax(dim=1) @ support
            errors = divergence(rows, target)
        return Learned(weighted_mean(rows, steps.weight), q, errors)

    def _fits(self, out: NetworkOutput) -> bool:
        return out.returns is not None and getattr(self.network, "support", None) is not None


class C51(AtomsLearning):
    """Learns a distribution over atoms by cross-entropy with the projected target.

    Source: Bellemare et al. 2017, "A distributional perspective on reinforcement learning",
    algorithm 1.
    """

    config_class: ClassVar[type[DQNConfig]] = C51Config


class Rainbow(AtomsLearning):
    """Rainbow: double, n-step, prioritised C51 with a dueling, noisy network.

    Source: Hessel et al. 2018, "Rainbow: combining improvements in deep reinforcement learning".
    """

    config_class: ClassVar[type[DQNConfig]] = RainbowConfig
    _needed = "QAgentConfig(returns='atoms', dueling=True, noisy=True)"

    def _check_head(self) -> None:
        super()._check_head()
        # By default nothing but the noise explores.
        if not has_noise(self.network) and self.config.exploration == 0.0:
            raise InvalidOption(
                f"Rainbow: the network has no noise, and exploration is 0: nothing would be tried. "
                f"Make it with {self._needed}, or give RainbowConfig an exploration."
            )

    def _fits(self, out: NetworkOutput) -> bool:
        heads: Any = getattr(self.network, "heads", None)
        dueling = getattr(heads, "value", None) is not None
        return super()._fits(out) and dueling


class QRDQN(QLearning):
    """Learns quantiles of returns by quantile regression.

    Source: Dabney et al. 2018, "Distributional reinforcement learning with quantile regression",
    algorithm 1.
    """

    config_class: ClassVar[type[DQNConfig]] = QRDQNConfig
    config: QRDQNConfig
    _needed = "QAgentConfig(returns='quantiles', atoms=200)"

    def _loss(self, steps: Steps) -> Learned:
        with torch.no_grad():
            out, best = self._following(steps)
            following = chosen(out.returns, best)
            target = torch.addcmul(steps.reward[:, None], steps.discount[:, None], following)
        played = chosen(self._out(self.network, steps.obs).returns, steps.action - self._start)
        rows = quantile_rows(played, target, self.config.kappa)
        q = played.detach().mean(dim=1)
        # Of the means, as of a DQN: the loss of quantiles has a least value that differs from row
        # to row.
        errors = (target.mean(dim=1) - q).abs()
        return Learned(weighted_mean(rows, steps.weight), q, errors)

    def _fits(self, out: NetworkOutput) -> bool:
        return out.returns is not None and getattr(self.network, "support", None) is None
