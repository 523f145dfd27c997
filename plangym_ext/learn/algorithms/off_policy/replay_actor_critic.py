"""ReplayActorCritic: base class of SAC, TD3 and DDPG (critic update, then policy update)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from typing import Any

from plangym_ext.arrays.nested import mapped
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.inputs import zeros_of
from plangym_ext.learn.algorithms.off_policy.actor_critic_config import ReplayActorCriticConfig
from plangym_ext.learn.algorithms.off_policy.base import OffPolicyAlgorithm, Sums, Updated
from plangym_ext.learn.algorithms.off_policy.dense_actor_critic import (
    DenseActorCritic,
    can_be_dense,
)
from plangym_ext.learn.algorithms.off_policy.drawn_steps import Steps
from plangym_ext.learn.algorithms.off_policy.target_network import TargetNetwork
from plangym_ext.learn.losses.critics import critic_loss
from plangym_ext.learn.networks.bodies import DenseLayers
from plangym_ext.learn.networks.critics import make_critics
from plangym_ext.learn.networks.quick_forward import shown
from plangym_ext.learn.sampling.collected import Progress
from plangym_ext.learn.schedule import at
from plangym_ext.learn.torch_extra import torch


class ReplayActorCritic(OffPolicyAlgorithm):
    """Abstract; an update is one of all critics, then, if it is due, one of the policy.

    The network is the policy alone. The critics belong to the algorithm; they are of the
    network's spaces, and are saved with it.
    """

    config: ReplayActorCriticConfig
    _can_be_recorded = True
    #: Learns without autograd, where the networks are dense layers; see `can_be_dense`.
    _dense: DenseActorCritic | None = None

    def _build(self) -> None:
        config = self.config
        self._check_policy()
        for module in self.network.modules():
            if isinstance(module, DenseLayers):
                # In training mode alone: what is played, and how likely it was, stays of float32.
                module.use(config.precision)
        critics = make_critics(self.network, **config.critic_layers(), precision=config.precision)
        self._critics = critics.to(self._device)
        self._target_critics = TargetNetwork(self._critics)
        self.modules["critics"] = self._critics
        self.modules["target_critics"] = self._target_critics.module
        self.optimizers["critics"] = self._make_optimizer(self._critics)

    def _make_dense(self) -> None:
        """Leave autograd aside if it is not needed; once all optimisers are there."""
        config = self.config
        if config.compile or not config.compiled or not can_be_dense(self.network, self._critics):
            return
        critics = self._critics, self._target_critics.module
        self._dense = DenseActorCritic(self.network, *critics, self.optimizers, config.precision)
        self._called[id(self.network)] = self._dense.calls_policy("policy", self.network)

    def _check_policy(self) -> None:
        """Refuse a network whose actions cannot be learned by this algorithm.

        Raises:
            InvalidOption: it has no policy head, or other actions.
        """
        if not self._has_policy():
            raise InvalidOption(
                f"{type(self).__name__}: the network must have a policy head; it has none. Name it "
                f"in AgentConfig(heads=...)."
            )

    def _update(self, steps: Steps) -> Updated:
        config = self.config
        target = steps.target
        if target is None:
            with torch.no_grad():
                target = self._target(steps)
        q, loss = self._learn_critics(steps, target)
        norm = self._descend("critics", loss, config.critic_learning_rate)
        q = q.detach()
        logged = {"critic_loss": _number(loss), "critic_grad_norm": norm, "q": q.mean()}
        # After the critics, whose newest values teach it (Fujimoto et al. 2018, algorithm 1).
        if self._policy_is_due():
            logged |= self._update_policy(steps)
        if self._target_is_due():
            self._follow(at(config.target_rate, self.updates))
        # Of q before the update: to ask again would cost another pass for priorities alone.
        errors = (q - target).abs().mean(dim=0) if config.prioritized else None
        return Updated(logged, errors)

    def _learn_critics(self, steps: Steps, target: Any) -> tuple[Any, Any]:
        """Return q `[E, N]` of the actions that were played, and the loss for `_descend`."""
        if self._dense is not None:
            with torch.no_grad():
                return self._dense.learn_critics(steps, target)
        q = self._asked(self._critics)(steps.obs, steps.action)
        if self._critics.by_action:
            q = self._chosen(q, steps.action)
        return q, critic_loss(q, target, steps.weight)

    def _learn(self, count: int, sums: Sums, progress: Progress | None) -> None:
        if self._dense is not None:
            self._dense.refresh()
        super()._learn(count, sums, progress)

    def _draws_ahead(self) -> bool:
        # Where rows are small.
        dense = self._dense is not None and not self.config.prioritized
        return dense or super()._draws_ahead()

    def _kind(self) -> Hashable:
        return super()._kind(), self._policy_is_due()

    def _policy_is_due(self) -> bool:
        return (self.updates + 1) % self.config.policy_every == 0

    def _descend(self, name: str, loss: Any, rate: Any = None) -> Any:
        norm = super()._descend(name, loss, rate)
        if self._dense is not None:
            self.optimizers[name].write()
            self._dense.refresh(name)
        return norm

    @abstractmethod
    def _target(self, steps: Steps) -> Any:
        """Return `[N]`, what the critics learn; called without gradients."""

    @abstractmethod
    def _update_policy(self, steps: Steps) -> dict[str, Any]:
        """Take one step of the policy; return what to log."""

    def _follow(self, rate: float) -> None:
        """Move the target networks."""
        self._target_critics.follow(rate)
        if self._dense is not None:
            self._dense.refresh("target_critics")

    def _chosen(self, q: Any, action: Any) -> Any:
        """Return `[E, N]` of `[E, N, A]`: of the actions that were played."""
        # A Discrete space may begin elsewhere than at 0.
        index = (action - self.network.distribution.start).long()
        # `[E, N, 1]`: all critics are asked about the same actions.
        return q.gather(2, index.expand(len(q), -1)[..., None])[..., 0]

    def _has_policy(self) -> bool:
        space = getattr(self.network, "observation_space", None)
        if space is None:
            return True
        with torch.no_grad():
            # Asked: a network of one's own need not say which heads it has.
            example = mapped(self._tensors.array, zeros_of(space, 1))
            return self._params(self.network, example) is not None

    def _params(self, network: Any, obs: Any) -> Any:
        """Return `[N, P]`, the numbers of the policy."""
        out, _ = self._asked(network)(shown(obs))
        return out.policy_logits


def _number(loss: Any) -> Any:
    return loss if isinstance(loss, float) else loss.detach()
