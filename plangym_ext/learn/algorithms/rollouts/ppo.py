"""PPO: clipped policy ratio, several epochs of minibatches per fragment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from plangym_ext.learn.algorithms.rollouts.base import means_of
from plangym_ext.learn.algorithms.rollouts.config import PPOConfig
from plangym_ext.learn.algorithms.rollouts.policy_gradient import PolicyAlgorithm
from plangym_ext.learn.algorithms.rollouts.rollout import Rollout
from plangym_ext.learn.distributions.base import masked
from plangym_ext.learn.engines.policy_value import LossTerms
from plangym_ext.learn.engines.rows import Rows, check_minibatch, minibatches, standardized
from plangym_ext.learn.losses.policies import approximate_kl, clip_share, mean_of
from plangym_ext.learn.sampling.collected import Progress
from plangym_ext.learn.schedule import at
from plangym_ext.learn.torch_extra import nn

#: Steps of a round that are looked at once more after it.
_DIAGNOSED = 256
#: The epochs end where the divergence is larger than so many times its target.
_KL_FACTOR = 1.5


class PPO(PolicyAlgorithm):
    """Proximal policy optimisation with a clipped ratio.

    The first choice from rollouts. If policy and value share a body, large value errors dominate
    the clipped gradient: set `value_weight` or `AgentConfig(value_scale=...)` to the size of the
    returns. Different from the source: advantages are normalised, gradients clipped, and the value
    loss has no factor 1/2. Truncated episodes bootstrap.

    Recurrent networks learn from whole columns of the fragment, with the carry that they
    began with: `PPOConfig(minibatch="env")`.

    Source: Schulman et al. 2017, "Proximal policy optimization algorithms".

    Raises:
        InvalidOption: a recurrent network is to learn from single steps.
    """

    config_class = PPOConfig
    config: PPOConfig

    def __init__(
        self, network: nn.Module, config: PPOConfig | None = None, *, seed: int = 0
    ) -> None:
        super().__init__(network, config, seed=seed)
        check_minibatch(self)

    @property
    def _by_step(self) -> bool:
        return self.config.minibatch == "step"

    def _estimate(self, rollout: Rollout) -> Rows:
        gae_lambda = at(self.config.gae_lambda, self.updates)
        return self._advantages(rollout, self.config.advantages, gae_lambda)

    def _learn(self, rows: Rows, progress: Progress | None) -> dict[str, float]:
        by_step = self._by_step
        # Rows are put together once; the epochs only draw from them in other orders.
        batch = self.gradients.batch(self._steps(rows)) if by_step else rows
        logged: list[dict[str, Any]] = []
        for _ in range(self.config.epochs):
            for part in self._parts(batch, by_step):
                losses = self.gradients.losses(part, self._terms())
                # Before the step is taken: the gradients of this minibatch are dropped.
                if self._too_far(losses["kl"]):
                    return means_of(logged)
                losses["grad_norm"] = self._update(part)
                logged.append(losses)
                if progress is not None:
                    progress(len(logged))
        return means_of(logged)

    def _parts(self, batch: Any, by_step: bool) -> Iterable[Any]:
        """Return the minibatches of an epoch; those of several learners are normalised here."""
        parts = minibatches(batch, self.config.batch_size, by_step=by_step)
        if self.group.size > 1 and self._by_minibatch:
            return standardized(list(parts), self.group)
        return parts

    @property
    def _by_minibatch(self) -> bool:
        return self.config.normalize_advantage == "minibatch"

    def _terms(self) -> LossTerms:
        """Return the loss terms of the next update."""
        config, updates = self.config, self.updates
        return LossTerms(
            value_weight=config.value_weight,
            entropy_weight=at(config.entropy_weight, updates),
            clip=at(config.clip, updates),
            value_clip=None if config.value_clip is None else at(config.value_clip, updates),
            normalize=self._by_minibatch and self.group.size == 1,
        )

    def _too_far(self, moved: Any) -> bool:
        """Return whether the policy has moved farther than it is to in one round."""
        most = self.config.target_kl
        if most is None:
            return False
        # The mean of all learners: if one stopped by its own rows, the others would wait for its
        # gradients for ever.
        return self.group.means({"kl": float(moved)})["kl"] > _KL_FACTOR * most

    def _diagnosed(self, rows: Rows) -> dict[str, Any]:
        found = super()._diagnosed(rows)
        # After the updates: what is logged is how far the policy has come in this round. Not of all
        # steps, which would take as long as a third of an epoch.
        if self._by_step:
            rows = self._steps(rows).spread(_DIAGNOSED)
        out, _ = (self._forward if self._by_step else self.network)(rows.inputs, rows.carry)
        distribution, valid = self.network.distribution, rows.valid
        # With the masks by which it was played: likelihoods of other distributions could not be
        # compared.
        params = masked(out.policy_logits, rows.inputs.legal)
        log_prob = distribution.log_prob(params, rows.action)
        clip = at(self.config.clip, self.updates)
        return found | {
            "entropy": mean_of(distribution.entropy(params), valid),
            "kl": approximate_kl(log_prob, rows.log_prob, valid),
            "clip_share": clip_share(log_prob, rows.log_prob, clip, valid),
            "clip": clip,
        }
