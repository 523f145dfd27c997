"""R2D1: recurrent Q-learning from replayed sequences."""

from __future__ import annotations

from typing import Any, NamedTuple

from plangym_ext.arrays.nested import mapped
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.inputs import Inputs
from plangym_ext.learn.algorithms.off_policy.config import R2D1Config
from plangym_ext.learn.algorithms.off_policy.q_learning import QLearning
from plangym_ext.learn.distributions.base import masked
from plangym_ext.learn.engines.q_values import Learned
from plangym_ext.learn.losses.q_values import error_loss, rescaled, sequence_errors, unscaled
from plangym_ext.learn.replay.base import Batch
from plangym_ext.learn.replay.sequences import SequenceReplay
from plangym_ext.learn.torch_extra import torch


class _Sequences(NamedTuple):
    """Sequences that were drawn, tensors `[R, N, ...]`; see `SequenceReplay.sample`."""

    inputs: Inputs
    carry: Any  # [N, ...] before the first row
    action: Any
    reward: Any
    discount: Any
    following: Any
    learned: Any
    weight: Any  # [N]
    indices: Any  # [N] of the replay
    legal: Any  # [R, N, A] bool, which actions could be played; None: all

    def from_row(self, begin: int) -> _Sequences:
        """Return the rest of the sequences from a row on, renumbered; the carry stays."""
        return self._replace(
            inputs=_rows(self.inputs, begin, None),
            action=self.action[begin:],
            reward=self.reward[begin:],
            discount=self.discount[begin:],
            # Numbers of rows, which are counted from the new first one.
            following=self.following[begin:] - begin,
            learned=self.learned[begin:],
            legal=None if self.legal is None else self.legal[begin:],
        )


class R2D1(QLearning):
    """DQN over sequences, which begin with the agent's stored carry.

    For discrete actions where an observation does not tell all. Sampled sequences begin where
    fragments begin: `num_steps` of the sampler is the distance between them. Values are learned on
    the scale of `sign(x) (sqrt(abs(x) + 1) - 1) + 0.001 x` (`rescale`).

    Its first `burn_in` rows bring the carry of both networks up to date. Carries are reset inside
    sequences where episodes begin, so no step is left out.

    Source: Kapturowski et al. 2019, "Recurrent experience replay in distributed reinforcement
    learning" (R2D2); one learner beside one sampler as in rlpyt (Stooke and Abbeel 2019).
    """

    config_class = R2D1Config
    config: R2D1Config
    # The host counts the rows that are learned from, by which q is logged.
    _can_be_recorded = False

    def _check_network(self) -> None:
        if self.network.initial_carry(1) is None:
            raise InvalidOption(
                "R2D1: the network must be recurrent; it carries nothing. Make it with "
                "QAgentConfig(recurrent='lstm'), or learn with DQN."
            )
        sees_rewards = "reward" in getattr(self.network, "inputs_used", ())
        if sees_rewards and self.config.clip_reward is not None:
            # The replay has them clipped; the agent acts on them as they are.
            raise InvalidOption(
                "R2D1: with clip_reward the network would get other previous rewards in learning "
                "than in play. Make it with previous_reward=False, or leave clip_reward at None "
                "and clip in the env, as gymnasium's TransformReward does."
            )

    def _check_head(self) -> None:
        if not getattr(self.network, "has_q", True):
            raise InvalidOption(
                "R2D1: the network must have a Q head as QAgentConfig(recurrent='lstm') asks for. "
                "Make it with that."
            )

    def _make_replay(self, options: dict[str, Any]) -> SequenceReplay:
        config = self.config
        return SequenceReplay(
            config.capacity, burn_in=config.burn_in, length=config.length, **options
        )

    def _steps_of(self, batch: Batch) -> Any:
        """Return sequences as tensors, nested as the spaces."""
        samples, tensors = batch.samples, self._tensors
        inputs = Inputs(
            tensors.obs(samples["obs"]),
            tensors.action(samples["prev_action"]),
            tensors.array(samples["prev_reward"]),
            tensors.array(samples["first"]),
        )
        return _Sequences(
            inputs,
            mapped(tensors.array, samples["carry"]),
            tensors.array(samples["action"]),
            tensors.array(samples["reward"]),
            tensors.array(samples["discount"]),
            tensors.array(samples["following"]),
            tensors.array(samples["learned"]),
            tensors.array(batch.weights),
            batch.indices,
            tensors.array(samples["legal"]) if "legal" in samples else None,
        )

    def _loss(self, steps: Any) -> Learned:
        burn_in = self.config.burn_in
        with torch.no_grad():
            # Each network from the stored carry by its own weights, without gradients: stored
            # carries are of older weights.
            carry = self._after(self.network, steps, burn_in)
            target_carry = self._after(self._target.module, steps, burn_in)
            steps = steps.from_row(burn_in)
            target_q = self._asked(self._target.module)(steps.inputs, target_carry)[0].q
        q = self._asked(self.network)(steps.inputs, carry)[0].q
        with torch.no_grad():
            target = self._targets(q.detach(), target_q, steps)
        # The actions of rows in which none was played may be anything.
        index = torch.where(steps.learned, steps.action - self._start, 0)[..., None]
        value = torch.where(steps.learned, q.gather(2, index)[..., 0], 0.0)
        target = torch.where(steps.learned, target, 0.0)
        # A mean over the rows of all sequences that count, each with the weight of its sequence.
        share = steps.learned.numel() / steps.learned.sum().clamp(min=1)
        weight = steps.weight.expand_as(value)
        loss = share * error_loss(value, target, self.config.loss, weight)
        value = value.detach()
        errors = sequence_errors((target - value).abs(), steps.learned, self.config.eta)
        return Learned(loss, value[steps.learned], errors)

    def _targets(self, q: Any, target_q: Any, steps: _Sequences) -> Any:
        """Return `[R, N]` what the actions should be worth."""
        # Double: chosen by the network that learns, rated by the one that follows (van Hasselt et
        # al. 2016).
        by = masked(q if self.config.double else target_q, steps.legal)
        best = by.argmax(dim=2, keepdim=True)
        following = target_q.gather(2, best)[..., 0]
        # Rows whose return ends beyond the sequence are not learned from.
        worth = following.gather(0, steps.following.clamp(0, len(following) - 1))
        if not self.config.rescale:
            return torch.addcmul(steps.reward, steps.discount, worth)
        # Networks predict rescaled returns; sums of rewards are made in the original scale.
        return rescaled(torch.addcmul(steps.reward, steps.discount, unscaled(worth)))

    def _after(self, network: Any, steps: _Sequences, burn_in: int) -> Any:
        """Return the carry of a network after the burn-in."""
        if not burn_in:
            return steps.carry
        return self._asked(network)(_rows(steps.inputs, 0, burn_in), steps.carry)[1]


def _rows(inputs: Inputs, begin: int, end: int | None) -> Inputs:
    """Return some rows of inputs `[R, N, ...]`."""
    return Inputs(*(mapped(lambda leaf: leaf[begin:end], part) for part in inputs[:4]))
