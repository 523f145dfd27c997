"""DQN: Q-learning from single replayed steps, with double, n-step and prioritised options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from plangym_ext.learn.algorithms.off_policy.config import DQNConfig
from plangym_ext.learn.algorithms.off_policy.drawn_steps import Steps, parts
from plangym_ext.learn.algorithms.off_policy.q_learning import QLearning
from plangym_ext.learn.engines.q_values import Learned, QRows, q_engine
from plangym_ext.learn.losses.q_values import chosen
from plangym_ext.learn.torch_extra import torch


class DQN(QLearning):
    """Q-learning with a target network; double, n-step and prioritised variants as options.

    Source: Mnih et al. 2015, "Human-level control through deep reinforcement learning"; van
    Hasselt et al. 2016, "Deep reinforcement learning with double Q-learning".
    """

    config_class = DQNConfig

    def _build(self) -> None:
        super()._build()
        network, compiled = self.network, self.config.compiled
        self.engine = q_engine(network, self.optimizers["q"], self._asked, compiled=compiled)
        self._steps_in_vector = self.engine.is_compiled

    def _loss(self, steps: Any) -> Learned:
        rows = steps if isinstance(steps, QRows) else self._rows(steps)
        return self.engine.learn(rows, self.config.loss)

    # The engine leaves the gradient.
    _learn_values = _loss

    def _rows(self, steps: Steps) -> QRows:
        """Return steps with what their actions should be worth, by the target network."""
        with torch.no_grad():
            out, best = self._following(steps)
            target = torch.addcmul(steps.reward, steps.discount, chosen(out.q, best))
            index = steps.action - self._start
            return self.engine.rows(QRows(steps.obs, index, target, steps.weight, steps.indices))

    def _q(self, obs: Any) -> Any:
        return self.engine.q(obs)

    def _draw(self, most: int) -> Iterator[Any]:
        """Yield steps; with targets where nothing changes until the target network follows."""
        config = self.config
        if self.engine.together == 1 or config.prioritized or config.double:
            yield from super()._draw(most)
            return
        count = min(most, self.engine.together, self._until_target())
        drawn = self._steps_of(self._sample(count))
        yield from parts(self._rows(drawn), count, config.batch_size)
