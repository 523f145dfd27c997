"""DQN: Q values from single steps that are drawn from a replay."""

from __future__ import annotations

from typing import Any, final

from plangym_ext.arrays.nested import mapped
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.inputs import zeros_of
from plangym_ext.learn.algorithms.off_policy import OffPolicyAlgorithm, Steps, Updated, shown
from plangym_ext.learn.algorithms.off_policy_config import DQNConfig
from plangym_ext.learn.algorithms.target_network import TargetNetwork
from plangym_ext.learn.algorithms.value_losses import chosen, error_loss, q_target
from plangym_ext.learn.schedule import at
from plangym_ext.learn.torch_extra import torch


@final
class DQN(OffPolicyAlgorithm):
    """Q-learning with a target network; double, over n steps and prioritised as options.

    Source: Mnih et al. 2015, "Human-level control through deep reinforcement learning".
    """

    config_class = DQNConfig
    config: DQNConfig

    def _build(self) -> None:
        self._check_head()
        self._start = int(getattr(self.network.distribution, "start", 0))
        self._target = TargetNetwork(self.network)
        self.modules["target"] = self._target.module
        self.optimizers["q"] = self._make_optimizer(self.network)

    def prepare(self, agent: Any) -> None:
        """Set the agent's share of random actions; see `Algorithm.prepare`."""
        agent.epsilon = at(self.config.exploration, self.steps)

    def _update(self, steps: Steps) -> Updated:
        config = self.config
        with torch.no_grad():
            next_q = self._q(self._target.module, steps.next_obs)
            by = self._q(self.network, steps.next_obs) if config.double else None
            target = q_target(steps.reward, steps.discount, next_q, by)
        value = chosen(self._q(self.network, steps.obs), steps.action - self._start)
        loss = error_loss(value, target, config.loss, steps.weight)
        norm = self._descend("q", loss)
        if self._target_is_due():
            self._target.follow(at(config.target_rate, self.updates))
        value = value.detach()
        logged = {"loss": loss.detach(), "grad_norm": norm, "q": value.mean()}
        return Updated(logged, (target - value).abs() if config.prioritized else None)

    def _q(self, network: Any, obs: Any) -> Any:
        out, _ = network(shown(obs))
        return out.q

    def _check_head(self) -> None:
        """Refuse a network without a Q head, by asking it about one observation."""
        space = getattr(self.network, "observation_space", None)
        if space is None:
            return
        with torch.no_grad():
            q = self._q(self.network, mapped(self._tensor, zeros_of(space, 1)))
        if q is None:
            raise InvalidOption(
                "DQN: the network must have a Q head; it has none. Make it with "
                "AgentConfig(heads=('q',))."
            )
