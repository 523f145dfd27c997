"""Algorithms on a planner's episodes: TDLearning of values, SupervisedLearning of all heads."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import rows_of
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.algorithms.plan_config import SupervisedConfig, TDConfig
from plangym_ext.learn.algorithms.plan_learning import Part, PlanLearning
from plangym_ext.learn.distributions.base import Distribution, masked
from plangym_ext.learn.group import LearnerGroup
from plangym_ext.learn.networks.quick_forward import of_observations
from plangym_ext.learn.networks.state import check_network_state
from plangym_ext.learn.records import EpisodeRecord
from plangym_ext.learn.returns.discounted import n_step_rewards
from plangym_ext.learn.schedule import at
from plangym_ext.learn.targets import (
    ACTION,
    POLICY_TARGETS,
    QUALITIES,
    VALUE_TARGETS,
    of_one_side,
    qualities,
)
from plangym_ext.learn.torch_extra import nn, torch


class TDLearning(PlanLearning):
    """Trains the value head on r_t + ... + gamma^n V(s_{t+n}).

    For values that a search uses at its leaves.

    Windows end with the episode: after a termination nothing follows, after a cut the
    value of the last observation does. V is the present network or, with a
    `target_rate` below 1, one that follows it slowly.

    Source: Alpacka's TD trainer.
    """

    config_class: ClassVar[type[TDConfig]] = TDConfig
    config: TDConfig

    def __init__(self, network: nn.Module, config: Any = None, *, seed: int = 0) -> None:
        super().__init__(network, config, seed=seed)
        self.target = network
        rate = self.config.target_rate
        # At 1 the copy would equal the network after every update: it is left out.
        if callable(rate) or rate < 1.0:
            self.target = copy.deepcopy(network).eval().requires_grad_(False)
        self._later = of_observations(self.target)

    def join(self, group: LearnerGroup) -> None:
        super().join(group)
        if self.target is not self.network:
            group.share(self.target.state_dict().values())

    def samples(self, record: EpisodeRecord) -> dict[str, npt.NDArray[Any]]:
        """Return `obs`, `next_obs`, and float32 `reward` and `discount` `[T]` of the windows."""
        record, sides = of_one_side(record)
        terminated = np.zeros((record.length, 1), np.bool_)
        # An episode that was cut is none that ended: its last window bootstraps.
        terminated[-1] = record.terminated
        window = n_step_rewards(
            # `[T, 1]`: the function is for `[T, B]`.
            record.rewards[:, None],
            terminated,
            n=self.config.n_steps,
            discount=at(self.config.discount, self.updates),
        )
        # `last` is the last step of each window; what it led to is one further.
        mine, after = sides[:-1], window.last[:, 0] + 1
        return {
            "obs": rows_of(record.observations, slice(None, -1)),
            "reward": (mine * window.reward[:, 0]).astype(np.float32),
            "next_obs": rows_of(record.observations, after),
            # Negative where the other player is to move there.
            "discount": (mine * sides[after] * window.discount[:, 0]).astype(np.float32),
        }

    def update(
        self, batch: Mapping[str, Any], weights: npt.ArrayLike | None = None
    ) -> dict[str, float]:
        """Make one update on a batch, then move the target; see `PlanLearning.update`."""
        # Before the update, which counts itself.
        rate = at(self.config.target_rate, self.updates)
        found = super().update(batch, weights)
        if self.target is not self.network:
            with torch.no_grad():
                theirs = self.target.state_dict()
                for name, mine in self.network.state_dict().items():
                    # Counters of batch normalisation are whole numbers, between which there is
                    # nothing.
                    if mine.is_floating_point():
                        theirs[name].lerp_(mine, rate)
                    else:
                        theirs[name].copy_(mine)
        return found

    def _own_state(self) -> dict[str, Any]:
        if self.target is self.network:
            return super()._own_state()
        return {**super()._own_state(), "target": self.target.state_dict()}

    def _check_own_state(self, theirs: Mapping[str, Any], where: str) -> None:
        super()._check_own_state(theirs, where)
        if self.target is not self.network:
            check_network_state(self.target, theirs["target"], where)

    def _load_own_state(self, theirs: Mapping[str, Any]) -> None:
        super()._load_own_state(theirs)
        if self.target is not self.network:
            self.target.load_state_dict(theirs["target"])

    def _losses(self, batch: Mapping[str, torch.Tensor]) -> dict[str, Part]:
        """Return the squared error in units of the network's `value_scale`."""
        with torch.no_grad():
            # Without a gradient: the value now is drawn to the one later, never the other way
            # round.
            later = self._head("value", self._later(batch["next_obs"]).value)
        # `discount` is gamma^n, and 0 where the window ends with a termination.
        wanted = batch["reward"] + batch["discount"] * later
        scale = getattr(self.network, "value_scale", 1.0)
        error = (self._head("value", self._asked(batch["obs"]).value) - wanted) / scale
        return {"value": Part(1.0, error**2)}


# SupervisedLearning -----------------------------------------------------------


class SupervisedLearning(PlanLearning):
    """Trains each head on its target; see `SupervisedConfig` and `learn.targets`.

    For AlphaZero and for values or Q values of searches.

    Its defaults for AlphaZero, for the values of searches, and so on, are those of the configs
    `AlphaZeroConfig`, `ValueConfig`, `QConfig` and `HistogramConfig`.

    The loss of a value is its squared error in units of the network's `value_scale`, that
    of Q values the mean over the actions that were tried, that of a policy its
    cross-entropy over the legal actions.
    """

    config_class: ClassVar[type[SupervisedConfig]] = SupervisedConfig
    config: SupervisedConfig

    def __init__(self, network: nn.Module, config: Any = None, *, seed: int = 0) -> None:
        super().__init__(network, config, seed=seed)
        made: Any = network
        self._distribution: Distribution = made.distribution
        taught = (self.config.value_target, self.config.policy_target, self.config.q_target)
        if taught == (None, None, None):
            raise InvalidOption(
                f"{type(self).__name__}: one of value_target, policy_target and q_target must be "
                f"given; all are None."
            )
        if self._distribution.num_actions is None and (
            self.config.policy_target not in (None, ACTION) or self.config.q_target is not None
        ):
            raise InvalidOption(
                f"{type(self).__name__}: policy_target {self.config.policy_target!r} and q_target "
                f"{self.config.q_target!r} are for Discrete actions; for others the targets are "
                f"policy_target='action' and q_target=None."
            )

    def samples(self, record: EpisodeRecord) -> dict[str, npt.NDArray[Any]]:
        """Return a row per step: `obs`, and the targets.

        float32 `value` `[T]`; float32 `policy` `[T, P]` and, for Discrete actions, bool
        `legal` `[T, A]`; float32 `q` `[T, A]` and bool `q_mask` `[T, A]`.
        """
        # T + 1 observations, T steps: nothing was decided at the last one.
        config, found = self.config, {"obs": rows_of(record.observations, slice(None, -1))}
        if config.value_target is not None:
            found["value"] = self._value(config.value_target, record).astype(np.float32)
        if config.policy_target == ACTION:
            found["policy"] = self._distribution.encode(record.actions)
        elif config.policy_target is not None:
            found["policy"] = POLICY_TARGETS[config.policy_target](record).astype(np.float32)
        if config.policy_target is not None and self._distribution.num_actions is not None:
            # A replay has one form for all rows, so episodes without a mask get one of ones.
            everything = np.ones(found["policy"].shape, np.bool_)
            found["legal"] = everything if record.legal is None else record.legal
        if config.q_target is not None:
            found["q"], found["q_mask"] = self._q(config.q_target, record)
        return found

    def _value(self, target: str, record: EpisodeRecord) -> npt.NDArray[np.float64]:
        discount = at(self.config.discount, self.updates)
        return VALUE_TARGETS[target](record, discount, self.config.n_steps)

    def _q(self, target: str, record: EpisodeRecord) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return Q targets and where they are known, `[T, A]`."""
        if target == QUALITIES:
            found = qualities(record)
            # NaN where the planner never tried the action; 0 times NaN would still be NaN in the
            # loss.
            known = ~np.isnan(found)
            return np.where(known, found, 0.0).astype(np.float32), known
        played = self._distribution.encode(record.actions)
        # Only the action that was played has a return; `played` is one-hot.
        return played * self._value(target, record)[:, None].astype(np.float32), played > 0

    def _losses(self, batch: Mapping[str, torch.Tensor]) -> dict[str, Part]:
        """Return the parts that are taught, by head."""
        config, out = self.config, self._asked(batch["obs"])
        # In units of the network's output: envs with large returns do not outweigh the policy's
        # loss.
        scale = getattr(self.network, "value_scale", 1.0)
        parts = {}
        if config.policy_target is not None:
            logits = self._head("policy", out.policy_logits)
            # Masked as when it acted: else the loss would teach it to push illegal actions down.
            loss = self._distribution.loss(masked(logits, batch.get("legal")), batch["policy"])
            # The target's own entropy, without which uncertain targets would have priority for
            # ever.
            least = self._distribution.least_loss(logits, batch["policy"])
            parts["policy"] = Part(at(config.policy_weight, self.updates), loss, least)
        if config.value_target is not None:
            error = (self._head("value", out.value) - batch["value"]) / scale
            parts["value"] = Part(at(config.value_weight, self.updates), error**2)
        if config.q_target is not None:
            error = (self._head("q", out.q) - batch["q"]) / scale
            known = batch["q_mask"]
            # The mean over what is known; a row where nothing is has loss 0, not 0 / 0.
            loss = (error**2 * known).sum(dim=1) / known.sum(dim=1).clamp(min=1)
            parts["q"] = Part(at(config.q_weight, self.updates), loss)
        return parts
