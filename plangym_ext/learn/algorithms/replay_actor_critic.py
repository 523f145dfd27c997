"""What algorithms share that learn critics from a replay, and a policy from the critics."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from plangym_ext.arrays.nested import mapped
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.inputs import zeros_of
from plangym_ext.learn.algorithms.actor_critic_config import ReplayActorCriticConfig
from plangym_ext.learn.algorithms.off_policy import OffPolicyAlgorithm, Steps, Updated, shown
from plangym_ext.learn.algorithms.target_network import TargetNetwork
from plangym_ext.learn.losses.critics import critic_loss
from plangym_ext.learn.networks.bodies import DenseLayers
from plangym_ext.learn.networks.critics import make_critics
from plangym_ext.learn.schedule import at
from plangym_ext.learn.torch_extra import torch


class ReplayActorCritic(OffPolicyAlgorithm):
    """Abstract; an update is one of all critics, then, if it is due, one of the policy.

    The network is the policy alone. The critics belong to the algorithm; they are of the
    network's spaces, and are saved with it.
    """

    config: ReplayActorCriticConfig

    def _build(self) -> None:
        config = self.config
        self._check_policy()
        for module in self.network.modules():
            if isinstance(module, DenseLayers):
                module.use(config.precision)
        self._critics = make_critics(
            self.network,
            count=config.critics,
            hidden=config.critic_hidden,
            precision=config.precision,
        )
        self._target_critics = TargetNetwork(self._critics)
        self.modules["critics"] = self._critics
        self.modules["target_critics"] = self._target_critics.module
        self.optimizers["critics"] = self._make_optimizer(self._critics)

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
        with torch.no_grad():
            target = self._target(steps)
        q = self._asked(self._critics)(steps.obs, steps.action)
        if self._critics.by_action:
            q = self._chosen(q, steps.action)
        loss = critic_loss(q, target, steps.weight)
        norm = self._descend("critics", loss, config.critic_learning_rate)
        q = q.detach()
        logged = {"critic_loss": loss.detach(), "critic_grad_norm": norm, "q": q.mean()}
        if (self.updates + 1) % config.policy_every == 0:
            logged |= self._update_policy(steps)
        if self._target_is_due():
            self._follow(at(config.target_rate, self.updates))
        errors = (q - target).abs().mean(dim=0) if config.prioritized else None
        return Updated(logged, errors)

    @abstractmethod
    def _target(self, steps: Steps) -> Any:
        """Return `[N]`, what the critics learn; called without gradients."""

    @abstractmethod
    def _update_policy(self, steps: Steps) -> dict[str, Any]:
        """Take one step of the policy; return what to log."""

    def _follow(self, rate: float) -> None:
        """Move the target networks."""
        self._target_critics.follow(rate)

    def _chosen(self, q: Any, action: Any) -> Any:
        """Return `[E, N]` of `[E, N, A]`: of the actions that were played."""
        index = (action - self.network.distribution.start).long()
        return q.gather(2, index.expand(len(q), -1)[..., None])[..., 0]

    def _has_policy(self) -> bool:
        space = getattr(self.network, "observation_space", None)
        if space is None:
            return True
        with torch.no_grad():
            example = mapped(self._tensor, zeros_of(space, 1))
            return self._params(self.network, example) is not None

    def _params(self, network: Any, obs: Any) -> Any:
        """Return `[N, P]`, the numbers of the policy."""
        out, _ = self._asked(network)(shown(obs))
        return out.policy_logits
