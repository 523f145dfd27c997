"""Common base of DDPG and TD3: deterministic policy gradient through the critic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.algorithms.off_policy.actor_critic_config import DeterministicConfig
from plangym_ext.learn.algorithms.off_policy.dense_actor_critic import DenseActorCritic
from plangym_ext.learn.algorithms.off_policy.drawn_steps import Steps, part, parts
from plangym_ext.learn.algorithms.off_policy.replay_actor_critic import ReplayActorCritic
from plangym_ext.learn.algorithms.off_policy.target_network import TargetNetwork
from plangym_ext.learn.distributions.deterministic_actions import DeterministicActions
from plangym_ext.learn.distributions.torch_noise import TorchNoise
from plangym_ext.learn.losses.critics import (
    bootstrapped,
    deterministic_policy_loss,
    smoothed,
)
from plangym_ext.learn.schedule import at
from plangym_ext.learn.torch_extra import torch

# The most updates whose targets are worked out in one pass, which bounds the memory of the pass.
_TOGETHER = 4


class DeterministicActorCritic(ReplayActorCritic):
    """Abstract base of TD3 and DDPG, which differ only in their settings."""

    config: DeterministicConfig

    def _build(self) -> None:
        super()._build()
        self._target_policy = TargetNetwork(self.network)
        # In training mode, in which its products are the fast ones.
        self._target_policy.module.train()
        self.modules["target_policy"] = self._target_policy.module
        self.optimizers["policy"] = self._make_optimizer(self.network)
        self._make_dense()
        if self._dense is not None:
            target = self._target_policy.module
            self._called[id(target)] = self._dense.calls_policy("target_policy", target)

    def _check_policy(self) -> None:
        super()._check_policy()
        if not isinstance(self.network.distribution, DeterministicActions):
            raise InvalidOption(
                f"{type(self).__name__}: the network must have actions of a Box alone for a "
                f"policy; it has a {type(self.network.distribution).__name__}. Make it with "
                f"DeterministicPolicyConfig()."
            )

    def prepare(self, agent: Any) -> None:
        """Set the deviation of the agent's noise; see `Algorithm.prepare`."""
        super().prepare(agent)
        agent.exploration = at(self.config.exploration, self.steps)

    def _parts(self, drawn: Steps, count: int) -> Iterator[Steps]:
        """Yield the steps of each update, with targets where one pass makes those of several.

        Targets are of the target networks alone, which hold still between two changes; products
        of more rows are faster ones.
        """
        # An update that was recorded works its targets out itself.
        if self._graphs is not None or self.config.target_every == 1:
            yield from super()._parts(drawn, count)
            return
        size, done = self.config.batch_size, 0
        while done < count:
            together = min(count - done, self._until_target(), _TOGETHER)
            rows = part(drawn, done * size, together * size)
            if together > 1:
                with torch.no_grad():
                    rows = rows._replace(target=self._target(rows))
            yield from parts(rows, together, size)
            done += together

    def _target(self, steps: Steps) -> Any:
        config, distribution = self.config, self.network.distribution
        # In units of the bounds, in which noise is added and clipped; actions are made of them
        # last.
        numbers = torch.tanh(self._params(self._target_policy.module, steps.next_obs))
        if config.target_noise:
            noise = TorchNoise(numbers.shape[:-1], device=numbers.device)
            normal = noise.normal(numbers.shape[-1])
            numbers = smoothed(numbers, normal, config.target_noise, config.target_noise_clip)
        if self._dense is not None:
            q = self._dense.next_values(steps.next_obs, numbers)
            return bootstrapped(steps.reward, steps.discount, q.amin(dim=0))
        action = distribution.units.tensor_actions(numbers)
        q = self._asked(self._target_critics.module)(steps.next_obs, action)
        return bootstrapped(steps.reward, steps.discount, q.amin(dim=0))

    def _update_policy(self, steps: Steps) -> dict[str, Any]:
        if self._dense is not None:
            with torch.no_grad():
                return self._update_dense_policy(self._dense, steps)
        action = self.network.distribution.actions(self._params(self.network, steps.obs))
        # Of the first critic alone, and without gradients of its weights: only the action's are
        # wanted.
        q = self._asked(self._critics)(steps.obs, action, frozen=True, first=1)
        loss = deterministic_policy_loss(q[0])
        return {"policy_loss": loss.detach(), "policy_grad_norm": self._descend("policy", loss)}

    def _update_dense_policy(self, dense: DenseActorCritic, steps: Steps) -> dict[str, Any]:
        """Take the same step without autograd."""
        params, tape = dense.params(steps.obs)
        action = torch.tanh(params)
        q, q_tape = dense.values(steps.obs, action, first=1)
        d_action = dense.action_gradient(q_tape, torch.full_like(q, -1 / q.shape[1]))
        # The derivative of tanh, by which the parameters become the action.
        dense.learn_policy(tape, d_action * (1 - action**2))
        loss = float(deterministic_policy_loss(q[0]))
        return {"policy_loss": loss, "policy_grad_norm": self._descend("policy", loss)}

    def _follow(self, rate: float) -> None:
        super()._follow(rate)
        self._target_policy.follow(rate)
        if self._dense is not None:
            self._dense.refresh("target_policy")
