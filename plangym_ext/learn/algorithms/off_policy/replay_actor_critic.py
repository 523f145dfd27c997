"""ReplayActorCritic: base class of SAC, TD3 and DDPG (critic update, then policy update)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator
from typing import Any, ClassVar

from plangym_ext.arrays.nested import mapped
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.inputs import zeros_of
from plangym_ext.learn.algorithms.off_policy.base import OffPolicyAlgorithm, Sums, Updated
from plangym_ext.learn.algorithms.off_policy.config import ReplayActorCriticConfig
from plangym_ext.learn.algorithms.off_policy.drawn_steps import Steps, TargetNetwork, part, parts
from plangym_ext.learn.engines.actor_critic import ActorCriticEngine, actor_critic_engine
from plangym_ext.learn.losses.q_values import critic_loss
from plangym_ext.learn.networks.bodies import DenseLayers
from plangym_ext.learn.networks.critics import make_critics
from plangym_ext.learn.networks.quick_forward import shown
from plangym_ext.learn.sampling.collected import Progress
from plangym_ext.learn.schedule import at
from plangym_ext.learn.torch_extra import nn, torch


class ReplayActorCritic(OffPolicyAlgorithm):
    """Abstract; an update is one of all critics, then, if it is due, one of the policy.

    The network is the policy alone. The critics belong to the algorithm; they are of the
    network's spaces, and are saved with it. A class that derives from this one computes the
    targets of critics (`_target`) and a step of the policy (`_update_policy`) from what the
    `engine` evaluates.

    Attributes:
        engine: evaluates policy and critics, and brings gradients to their weights.
    """

    config: ReplayActorCriticConfig
    engine: ActorCriticEngine
    _can_be_recorded = True
    #: Most updates whose targets are computed in one pass, which bounds the memory of the pass;
    #: more than 1 where targets depend on the target networks alone.
    _together: ClassVar[int] = 1
    _has_target_critics: ClassVar[bool] = True

    def _build(self) -> None:
        config = self.config
        self._check_policy()
        for module in self.network.modules():
            if isinstance(module, DenseLayers):
                # Only in training mode: played actions and their likelihoods stay in float32.
                module.use(config.precision)
        critics = make_critics(self.policy, **config.critic_layers(), precision=config.precision)
        self.modules["critics"] = critics.to(self._device)
        self._targets: dict[str, TargetNetwork] = {}
        if self._has_target_critics:
            self._targets["target_critics"] = TargetNetwork(critics)
            self.modules["target_critics"] = self._targets["target_critics"].module
        self.optimizers["critics"] = self._make_optimizer(self._learned_with_critics(critics))
        self.optimizers["policy"] = self._make_optimizer(self._learned_with_policy())
        self.engine = self._make_engine({"policy": self.policy, **self.modules})

    @property
    def policy(self) -> Any:
        """The network whose outputs are the policy's: that of the agent, or a part of it."""
        return self.network

    def _make_engine(self, networks: dict[str, Any]) -> ActorCriticEngine:
        return actor_critic_engine(networks, self.optimizers, self.config, self._asked)

    def _learned_with_critics(self, critics: nn.Module) -> nn.Module:
        """Return the critics, with what their optimiser learns beside them."""
        return critics

    def _learned_with_policy(self) -> nn.Module:
        """Return the policy, with what its optimiser learns beside it."""
        found: nn.Module = self.policy
        return found

    def _check_policy(self) -> None:
        """Refuse a network whose actions cannot be learned by this algorithm."""
        space = getattr(self.policy, "observation_space", None)
        if space is None:
            return
        with torch.no_grad():
            # Asked: a network of one's own need not say which heads it has.
            example = mapped(self._tensors.array, zeros_of(space, 1))
            out, _ = self.policy(shown(example))
        if out.policy_logits is None:
            raise InvalidOption(
                f"{type(self).__name__}: the network must have a policy head; it has none. Name it "
                f"in AgentConfig(heads=...)."
            )

    # Updates --------------------------------------------------------------------

    @torch.no_grad()
    def _update(self, steps: Steps) -> Updated:
        target = self._target(steps) if steps.target is None else steps.target
        logged, errors = self._update_critics(steps, target)
        # After the critics, whose newest values teach it (Fujimoto et al. 2018, algorithm 1).
        if self._policy_is_due():
            logged |= self._update_policy(steps)
        if self._target_is_due():
            rate = at(self.config.target_rate, self.updates)
            for name, network in self._targets.items():
                network.follow(rate)
                self.engine.refresh(name)
        return Updated(logged, errors)

    def _update_critics(self, steps: Steps, target: Any) -> tuple[dict[str, Any], Any]:
        """Take one step of the critics; return what to log, and absolute errors `[N]` or None."""
        q = self.engine.played_values(steps.obs, steps.action)
        loss, d_q = critic_loss(q, target, steps.weight)
        # Of q before the update: to ask again would cost another pass for priorities alone.
        errors = (q - target).abs().mean(dim=0) if self.config.prioritized else None
        return self._step_critics(loss, d_q) | {"q": q.mean()}, errors

    def _step_critics(self, loss: Any, d_q: Any) -> dict[str, Any]:
        """Take one step down a loss, given its gradient by `played_values`; return what to log."""
        self.engine.learn_critics(d_q)
        loss = self.engine.number(loss)
        norm = self._descend("critics", loss, self.config.critic_learning_rate)
        return {"critic_loss": loss, "critic_grad_norm": norm}

    @abstractmethod
    def _target(self, steps: Steps) -> Any:
        """Return `[N]`, what the critics learn; called without gradients."""

    @abstractmethod
    def _update_policy(self, steps: Steps) -> dict[str, Any]:
        """Take one step of the policy; return what to log. Called without gradients."""

    def _policy_is_due(self) -> bool:
        return (self.updates + 1) % self.config.policy_every == 0

    def _descend(self, name: str, loss: Any, rate: Any = None) -> Any:
        norm = super()._descend(name, loss, rate)
        self.optimizers[name].write()
        self.engine.refresh(name)
        return norm

    # How they are made ----------------------------------------------------------

    def _learn(self, count: int, sums: Sums, progress: Progress | None) -> None:
        self.engine.refresh()
        super()._learn(count, sums, progress)

    def _kind(self) -> Hashable:
        return super()._kind(), self._policy_is_due()

    def _draws_ahead(self) -> bool:
        # Where rows are small.
        dense = self.engine.is_dense and not self.config.prioritized
        return dense or super()._draws_ahead()

    def _parts(self, drawn: Steps, count: int) -> Iterator[Steps]:
        """Yield the steps of each update, with targets where one pass makes those of several.

        Products of more rows are faster ones.
        """
        # An update that was recorded computes its targets itself.
        if self._graphs is not None or self.config.target_every == 1 or self._together == 1:
            yield from super()._parts(drawn, count)
            return
        size, done = self.config.batch_size, 0
        while done < count:
            together = min(count - done, self._until_target(), self._together)
            rows = part(drawn, done * size, together * size)
            if together > 1:
                with torch.no_grad():
                    rows = rows._replace(target=self._target(rows))
            yield from parts(rows, together, size)
            done += together
