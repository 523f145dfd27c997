"""Expert iteration: supervised learning of a planner's decisions in the visited states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plangym_ext.arrays.nested import leaves
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.algorithms.agent_algorithm import TaughtAlgorithm
from plangym_ext.learn.algorithms.expert_config import ExpertConfig
from plangym_ext.learn.algorithms.flat_optimizer import flat_optimizer
from plangym_ext.learn.algorithms.rollouts.rollout import rollout_of
from plangym_ext.learn.distributions.masking import masked
from plangym_ext.learn.networks.quick_forward import OfObservations
from plangym_ext.learn.replay.uniform import ReplayBuffer
from plangym_ext.learn.sampling.collected import Collected, Progress
from plangym_ext.learn.sampling.expert import Again, shown_rows, valid_rows
from plangym_ext.learn.schedule import at
from plangym_ext.learn.torch_extra import nn, torch


class ExpertIteration(TaughtAlgorithm):
    """Supervised learning of an `ExpertSampler`'s targets, from a replay.

    The loss of the policy is its cross-entropy to the teacher's, for continuous actions the
    negative log-likelihood of what the teacher would play; that of the values is their squared
    error. Where a state was searched again, its targets are replaced.

    Source: Anthony, Tian & Barber 2017, "Thinking fast and slow with deep learning and tree
    search".

    Args:
        network: of an `ActorCriticAgent`; looks at observations alone.
        config: None: the defaults.
        seed: of the draws, and of what the network draws while it learns.

    Attributes:
        replay: of states and their targets.

    Raises:
        InvalidOption: the network looks at more than observations, or has no policy or values.
    """

    config_class = ExpertConfig
    config: ExpertConfig

    def __init__(self, network: nn.Module, config: Any = None, *, seed: int = 0) -> None:
        super().__init__(network, config, seed=seed)
        self._asked = OfObservations(network)
        self.replay = ReplayBuffer(self.config.capacity, seed=seed)
        self.optimizer = flat_optimizer(network, self.config)
        self._layout = SpaceLayout(self.network.observation_space, objects=True)
        self._scale = float(getattr(network, "value_scale", 1.0))

    # Taking in ------------------------------------------------------------------

    def take(self, collected: Collected) -> None:
        """Update the targets of states that were searched again, and add new states.

        Raises:
            InvalidOption: nothing was taught: it is the tree of another sampler.
        """
        if collected.taught is None:
            raise InvalidOption(
                f"{type(self).__name__}: it learns from a teacher, and none has taught. Sample "
                f"with an ExpertSampler."
            )
        if collected.taught.again is not None:
            # First: the new states overwrite the oldest ones, some of which may be these.
            self._replace(collected.taught.again)
        tree = collected.data
        info = tree["agent_info"]
        value = info["expert_value"].to_ndarray(copy=False)
        if self.config.value_target == "return":
            value = self._returned(tree)
        # `[T, B, ...]` each; rows that waited are left out when they are added.
        rows = {**shown_rows(tree), "policy": info["expert_policy"].to_ndarray(copy=False)}
        valid = tree["valid"].to_ndarray(copy=False)
        self.replay.add(valid_rows(rows | {"value": value}, valid))
        if getattr(self.network, "normalizer", None) is not None:
            self._seen.append(self.network.normalizer.moments(tree))
        self.steps += collected.cost.model_steps

    def _returned(self, tree: Any) -> Any:
        """Return the played returns from each step on, `[T, B]`."""
        rollout = rollout_of(tree, self.network, "value")
        how = self.config.discount, self.config.gae_lambda
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

    # Learning -------------------------------------------------------------------

    def train(self, progress: Progress | None = None) -> dict[str, float]:
        """Make the updates of a round; see `Algorithm.train`.

        Returns:
            "updates", "replay_rows" and, once something is learned, means such as "train/loss".

        Raises:
            LossNotFinite: a loss or gradient is NaN or infinite; that update was not made.
        """
        logged: list[dict[str, float]] = []
        if len(self.replay) >= self.config.learning_starts:
            self.optimizer.read()
            self.network.train()
            try:
                with self._random.used(together=self.group.size > 1):
                    for done in range(self.config.updates_per_round):
                        logged.append(self._update())
                        if progress is not None:
                            progress(done + 1)
            finally:
                self.optimizer.write()
                self.network.eval()
        return self._end_round(logged)

    def _update(self) -> dict[str, float]:
        """Take one step on states that are drawn."""
        batch = self.replay.sample(self.config.batch_size).samples
        losses = self._losses(batch)
        config, updates = self.config, self.updates
        loss = losses["policy_loss"] + at(config.value_weight, updates) * losses["value_loss"]
        loss = loss - at(config.entropy_weight, updates) * losses["entropy"]
        norm = self._step_down(self.optimizer, loss)
        self.updates += 1
        found = {"loss": loss, **losses, "grad_norm": norm, "learning_rate": self.optimizer.rate}
        return {name: float(torch.as_tensor(one).detach()) for name, one in found.items()}

    def _losses(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parts of the loss, scalar tensors."""
        obs = self._layout.join(tuple(self._tensor(leaf) for leaf in leaves(batch["obs"])))
        out, distribution = self._asked(obs), self.network.distribution
        if out.policy_logits is None or out.value is None:
            raise InvalidOption(
                f"{type(self).__name__}: the network must have a policy and a value head. Name "
                f"them in AgentConfig(heads=('policy', 'value'))."
            )
        legal = self._tensor(batch["legal"]) if "legal" in batch else None
        params = masked(out.policy_logits, legal)
        target = self._tensor(batch["value"])
        known = ~target.isnan()  # a teacher may not know what a state is worth
        # In units of the network's output, so that large returns do not outweigh the policy's loss.
        error = torch.where(known, (out.value - target.nan_to_num()) / self._scale, 0.0)
        return {
            "policy_loss": distribution.loss(params, self._tensor(batch["policy"])).mean(),
            "value_loss": (error**2).sum() / known.sum().clamp(min=1),
            "entropy": distribution.entropy(params).mean(),
        }
