"""RolloutAlgorithm: base class of algorithms that use each fragment once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from plangym_ext.errors import ForeignNetwork
from plangym_ext.learn.algorithms.agent_algorithm import AgentAlgorithm
from plangym_ext.learn.algorithms.rollouts.config import RolloutConfig
from plangym_ext.learn.algorithms.rollouts.rollout import Rollout, rollout_of
from plangym_ext.learn.engines.flat_optimizer import flat_optimizer
from plangym_ext.learn.engines.rows import Rows
from plangym_ext.learn.group import LearnerGroup
from plangym_ext.learn.losses.policies import explained_variance
from plangym_ext.learn.networks.quick_forward import forward_of
from plangym_ext.learn.sampling.collected import Collected, Progress
from plangym_ext.learn.schedule import at
from plangym_ext.learn.several.axis import agent_rows
from plangym_ext.learn.torch_extra import nn, torch
from plangym_ext.learn.transforms.moments import Moments
from plangym_ext.learn.transforms.rewards import RewardNormalizer


class RolloutAlgorithm(AgentAlgorithm):
    """Abstract; learns from sampler trees, and owns the optimiser, not the network."""

    config_class: ClassVar[type[RolloutConfig]]
    _takes_agents = True
    #: What the agent has to tell of each step.
    _needed: ClassVar[str]

    def __init__(self, network: nn.Module, config: Any = None, *, seed: int = 0) -> None:
        super().__init__(network, config, seed=seed)
        self.optimizer = flat_optimizer(self.network, self.config)
        self._forward = forward_of(network)
        self._several = hasattr(network, "num_agents")
        self._rewards: RewardNormalizer | None = None
        if self.config.normalize_reward:
            self._rewards = RewardNormalizer(at(self.config.discount, 0))
        self._rows: Rows | None = None
        #: Whether other learners have other numbers of steps that count.
        self._uneven = False
        #: Of the observations of these rows, where the network normalises them.
        self._seen: list[Moments] = []

    def join(self, group: LearnerGroup) -> None:
        group.share(self.network.state_dict().values())
        self.group = self.optimizer.group = group
        if self._rewards is not None:
            self._rewards.group = group

    # Taking in ------------------------------------------------------------------

    def take(self, collected: Collected) -> None:
        """Compute the returns of a fragment, for the next `train`; see `Algorithm.take`.

        The tree is not copied: train before it is collected into again. What was taken before,
        and not trained on, is forgotten.

        Raises:
            InvalidOption: the agent did not keep what this algorithm needs.
        """
        tree = agent_rows(collected.data, self.network) if self._several else collected.data
        rollout = rollout_of(tree, self.network, self._needed, self._forward)
        scaled = rollout._replace(reward=self._scaled(rollout), forks=collected.forks)
        self._rows = self._estimate(scaled)
        normalizer, self._seen = getattr(self.network, "normalizer", None), []
        if normalizer is not None:
            # Counted now, as the tree is written over later, and added after the updates of this
            # round.
            self._seen = self.group.merged(normalizer.moments(tree))
        # Last: a fragment that could not be taken in has not been counted.
        self.steps += collected.cost.model_steps

    def _scaled(self, rollout: Rollout) -> Any:
        """Return the rewards `[T, B]` that are learned from."""
        reward = rollout.reward
        if self._rewards is not None:
            valid = None if rollout.valid is None else rollout.valid.cpu().numpy()
            # Before returns are worked out: it is the rewards that are divided, by the deviation of
            # their returns.
            self._rewards.discount = at(self.config.discount, self.updates)
            scaled = self._rewards.scaled(reward.cpu().numpy(), rollout.ended.cpu().numpy(), valid)
            reward = torch.from_numpy(scaled).to(reward.device)
        return self._clipped(reward)

    def _clipped(self, reward: Any) -> Any:
        """Return scaled rewards as they are learned from."""
        most = self.config.clip_reward
        return reward if most is None else reward.clamp(-most, most)

    def _scaled_alike(self, reward: Any) -> Any:
        """Return other rewards in the units of the fragment that was taken last."""
        return self._clipped(reward if self._rewards is None else reward / self._rewards.deviation)

    @abstractmethod
    def _estimate(self, rollout: Rollout) -> Rows:
        """Return the rows with the targets of their values and, for a policy, advantages."""

    # Learning -------------------------------------------------------------------

    def train(self, progress: Progress | None = None) -> dict[str, float]:
        """Train on the last fragment; see `Algorithm.train`.

        Returns:
            "updates", and of what was learned "train/loss", its parts, "train/grad_norm"
            before clipping, "train/learning_rate", "train/entropy", and what the algorithm adds.

        Raises:
            LossNotFinite: the gradient is NaN or infinite; the last update was not made.
        """
        found: dict[str, float] = {"updates": self.updates}
        # Forgotten at once: they are views of a tree that the next fragment overwrites.
        rows, self._rows = self._rows, None
        count = 0 if rows is None else rows.num_valid
        # Of all learners: one that went on by itself would not be there for the others.
        size = 0 if rows is None else rows.target.numel()
        counts = self.group.rows(np.array([count, size], np.float64))
        if rows is None or not counts[:, 0].any():
            return found
        self._uneven = self.group.size > 1 and bool((counts != counts[0, 1]).any())
        self._parameters.check()
        self.optimizer.read()
        self._set_training(True)
        try:
            with self._random.used(together=self.group.size > 1):
                means = self._learn(rows, progress)
        finally:
            # Also after an error: the network then has the weights of the last update that was
            # made.
            self.optimizer.write()
            self._set_training(False)
        with torch.no_grad():
            means["learning_rate"] = self.optimizer.rate
            means |= {name: float(number) for name, number in self._diagnosed(rows).items()}
        if self._seen:
            # Last, so that all of this round was normalised as when it was played.
            self.network.normalizer.add(self._seen)
        found["updates"] = self.updates
        means = self.group.means(means, count)
        return found | {f"train/{name}": number for name, number in means.items()}

    def _set_training(self, on: bool) -> None:
        """Set the network to training or evaluation mode."""
        self.network.train(on)

    @abstractmethod
    def _learn(self, rows: Rows, progress: Progress | None) -> dict[str, float]:
        """Make the updates; return means of the losses."""

    def _diagnosed(self, rows: Rows) -> dict[str, Any]:
        """Return scalars that tell how learning went, of the network as it is now."""
        if rows.value is None:
            return {}
        return {"explained_variance": explained_variance(rows.value, rows.target, rows.valid)}

    def _steps(self, rows: Rows) -> Rows:
        """Return the steps one by one; also those that do not count, if others have more or less.

        Then all learners have the same number of minibatches.
        """
        return rows.steps(whole=self._uneven)

    def _weigh(self, rows: Rows) -> None:
        """Weight the optimiser's gradient by this learner's share of rows."""
        if self._uneven:
            self.optimizer.scale(self.group.part_of(rows.num_valid))

    def _descend(self) -> float:
        """Take one step down the gradient that the optimiser has; return its norm before clipping.

        Raises:
            LossNotFinite: it is not finite; nothing was changed.
        """
        norm = self._step_down(self.optimizer)
        self.updates += 1
        return norm

    # Saving ---------------------------------------------------------------------

    def _own_state(self) -> dict[str, Any]:
        return {
            "moments": self.optimizer.state_dict(),
            "rewards": None if self._rewards is None else self._rewards.state_dict(),
        }

    def _check_own_state(self, theirs: Mapping[str, Any], where: str) -> None:
        self.optimizer.check_state(theirs["moments"], where)
        rewards = theirs["rewards"]
        if (rewards is None) != (self._rewards is None):
            raise ForeignNetwork(
                f"{where}: the state {'lacks' if rewards is None else 'has'} moments of rewards. "
                f"Make the algorithm with normalize_reward={rewards is not None}."
            )

    def _load_own_state(self, theirs: Mapping[str, Any]) -> None:
        self.optimizer.load_state_dict(theirs["moments"])
        if self._rewards is not None:
            self._rewards.load_state_dict(theirs["rewards"])
        self._rows = None


def means_of(logged: list[dict[str, Any]]) -> dict[str, float]:
    """Return the mean of each number over a round's updates; empty without updates."""
    if not logged:
        return {}
    return {name: sum(float(row[name]) for row in logged) / len(logged) for name in logged[0]}
