"""Expert iteration: supervised learning of a planner's decisions in the visited states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plangym_ext.arrays.nested import leaves
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.algorithms.plan_config import ExpertConfig
from plangym_ext.learn.algorithms.plan_learning import PlanLearning
from plangym_ext.learn.algorithms.rollouts.rollout import rollout_of
from plangym_ext.learn.distributions.base import masked
from plangym_ext.learn.replay.uniform import ReplayBuffer
from plangym_ext.learn.sampling.collected import Collected
from plangym_ext.learn.sampling.expert import Again, shown_rows, valid_rows
from plangym_ext.learn.schedule import at
from plangym_ext.learn.torch_extra import nn, torch


class ExpertIteration(PlanLearning):
    """Supervised learning from a replay of the labels that an `ExpertSampler` collects.

    For search at training time and a policy alone at play.

    The loss of the policy is its cross-entropy to the teacher's, for continuous actions the
    negative log-likelihood of what the teacher would play; that of the values is their squared
    error. Where a state was searched again, its targets are replaced.

    Source: Anthony, Tian & Barber 2017, "Thinking fast and slow with deep learning and tree
    search".

    Args:
        network: of an `ActorCriticAgent`; looks at observations alone.

    Attributes:
        replay: of states and their targets.

    Raises:
        InvalidOption: the network looks at more than observations, or has no policy or values.
    """

    config_class = ExpertConfig
    config: ExpertConfig
    _decays = False

    def __init__(self, network: nn.Module, config: Any = None, *, seed: int = 0) -> None:
        super().__init__(network, config, seed=seed)
        self._layout = SpaceLayout(self.network.observation_space, objects=True)
        self._scale = float(getattr(network, "value_scale", 1.0))

    def _made_replay(self, seed: int) -> ReplayBuffer:
        return ReplayBuffer(self.config.capacity, seed=seed)

    def take(self, collected: Collected) -> None:
        """Update the targets of states that were searched again, and add new states.

        Raises:
            InvalidOption: nothing was taught: it is the tree of another sampler.
        """
        if collected.again is None:
            raise InvalidOption(
                f"{type(self).__name__}: it learns from a teacher, and none has taught. Sample "
                f"with an ExpertSampler."
            )
        # First: the new states overwrite the oldest ones, some of which may be these.
        self._replace(collected.again)
        self.replay.add(self.samples(collected.data))
        normalizer = getattr(self.network, "normalizer", None)
        if normalizer is not None:
            self._seen.append(self.group.merged(normalizer.moments(collected.data)))
        self.steps += collected.cost.model_steps

    def samples(self, tree: Any) -> dict[str, Any]:
        """Return the training rows of a fragment, one per valid step."""
        info = tree["agent_info"]
        value = info["expert_value"].to_ndarray(copy=False)
        if self.config.value_target == "return":
            value = self._returned(tree)
        # `[T, B, ...]` each; rows that waited are left out when they are added.
        rows = {**shown_rows(tree), "policy": info["expert_policy"].to_ndarray(copy=False)}
        valid = tree["valid"].to_ndarray(copy=False)
        found: dict[str, Any] = valid_rows(rows | {"value": value}, valid)
        return found

    def _returned(self, tree: Any) -> Any:
        """Return the played returns from each step on, `[T, B]`."""
        rollout = rollout_of(tree, self.network, "value")
        how = at(self.config.discount, self.updates), at(self.config.gae_lambda, self.updates)
        return rollout.rows_by_gae(rollout.value, *how).target.cpu().numpy()

    def _replace(self, again: Again) -> None:
        """Replace the targets of states by their numbers."""
        found = {"policy": again.policy}
        if self.config.value_target == "root":
            found["value"] = again.value
        # Counted from the newest one: the sampler may store other numbers of states than the
        # replay, and an algorithm may begin later.
        back = again.taught - again.number
        kept = back <= len(self.replay)
        if kept.any():
            rows = {name: array[kept] for name, array in found.items()}
            self.replay.replace(self.replay.counted_back(back[kept]), rows)

    def _loss(self, batch: Mapping[str, Any], weights: Any) -> Any:  # noqa: ARG002
        losses = self._losses(batch)
        config, updates = self.config, self.updates
        loss = losses["policy_loss"] + at(config.value_weight, updates) * losses["value_loss"]
        loss = loss - at(config.entropy_weight, updates) * losses["entropy"]
        # No draw follows priorities: errors remain as they are.
        return loss, losses, lambda: self.errors

    def _losses(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parts of the loss, scalar tensors."""
        out = self._asked(self._layout.join(tuple(leaves(batch["obs"]))))
        distribution = self.network.distribution
        logits = self._head("policy", out.policy_logits)
        params = masked(logits, batch.get("legal"))
        target = batch["value"]
        known = ~target.isnan()  # a teacher may have no value of a state
        # In units of the network's output, so that large returns do not outweigh the policy's loss.
        value = self._head("value", out.value)
        error = torch.where(known, (value - target.nan_to_num()) / self._scale, 0.0)
        return {
            "policy_loss": distribution.loss(params, batch["policy"]).mean(),
            "value_loss": (error**2).sum() / known.sum().clamp(min=1),
            "entropy": distribution.entropy(params).mean(),
        }
