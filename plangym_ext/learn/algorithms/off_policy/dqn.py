"""DQN: Q-learning from single replayed steps, with double, n-step and prioritised options."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from plangym_ext.learn.algorithms.off_policy.base import Updated
from plangym_ext.learn.algorithms.off_policy.config import DQNConfig
from plangym_ext.learn.algorithms.off_policy.drawn_steps import Steps, parts
from plangym_ext.learn.algorithms.off_policy.q_learning import Learned, QLearning
from plangym_ext.learn.distributions.masking import masked
from plangym_ext.learn.losses.q_values import chosen, error_loss
from plangym_ext.learn.networks.quick_forward import shown
from plangym_ext.learn.torch_extra import torch

#: Most updates whose steps are drawn at once.
_BLOCK = 32


class _Targets(NamedTuple):
    """Steps with what their actions should be worth, arrays `[N, ...]`."""

    features: Any  # [N, F] float32, what the first layer sees
    index: Any  # [N] int64, of the actions
    target: Any  # [N] float32
    weight: Any  # [N] float32
    indices: Any  # [N] int64, of the replay


class DQN(QLearning):
    """Q-learning with a target network; double, n-step and prioritised variants as options.

    Source: Mnih et al. 2015, "Human-level control through deep reinforcement learning"; van
    Hasselt et al. 2016, "Deep reinforcement learning with double Q-learning".
    """

    config_class = DQNConfig

    def _build(self) -> None:
        super()._build()
        self._compiled: Any = None
        if self.config.compiled:
            # Here and not above: numba is of no use to other networks.
            from plangym_ext.learn.compiled.q_values import CompiledQ, can_compile_q

            if can_compile_q(self.network):
                self._compiled = CompiledQ(self.network, self.optimizers["q"])

    def _loss(self, steps: Steps) -> Learned:
        with torch.no_grad():
            out, best = self._following(steps)
            target = torch.addcmul(steps.reward, steps.discount, chosen(out.q, best))
        value = chosen(self._out(self.network, steps.obs).q, steps.action - self._start)
        loss = error_loss(value, target, self.config.loss, steps.weight)
        value = value.detach()
        return Learned(loss, value, (target - value).abs())

    # In compiled code -----------------------------------------------------------

    def _draw(self, most: int) -> Iterator[Any]:
        """Yield steps; where nothing changes until then, of all updates before the next target."""
        if self._compiled is None:
            yield from super()._draw(most)
            return
        config = self.config
        count = 1
        if not config.prioritized and not config.double:
            count = min(most, _BLOCK, self._until_target())
        batch = self._sample(count)
        targets = self._targets_of(self._steps_of(batch), batch.weights)
        yield from parts(targets, count, config.batch_size)

    def _targets_of(self, steps: Steps, weight: Any) -> _Targets:
        """Return steps with what their actions should be worth, by the target network."""
        with torch.no_grad():
            next_q = self._out(self._target.module, steps.next_obs).q
            by = next_q
            if self.config.double:
                features = self.network.features(shown(steps.next_obs))
                by = torch.from_numpy(self._compiled.q(features.numpy()))
            following = chosen(next_q, masked(by, steps.next_legal).argmax(dim=1))
            target = torch.addcmul(steps.reward, steps.discount, following)
            features = self.network.features(shown(steps.obs)).contiguous()
        index = (steps.action - self._start).numpy()
        return _Targets(features.numpy(), index, target.numpy(), weight, steps.indices)

    def _update(self, steps: Any) -> Updated:
        if self._compiled is None:
            return super()._update(steps)
        huber = self.config.loss == "huber"
        learned = self._compiled.learn(
            steps.features, steps.index, steps.target, steps.weight, huber=huber
        )
        norm = self._descend("q", learned.loss)
        if self._target_is_due():
            self.optimizers["q"].write()
        self._follow()
        logged = {"loss": learned.loss, "grad_norm": norm, "q": learned.q}
        return Updated(logged, learned.errors)
