"""Engine of a policy and value network: rows, their losses, and gradients by autograd."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from plangym_ext.arrays.nested import mapped
from plangym_ext.learn.agents.inputs import Inputs
from plangym_ext.learn.distributions.base import masked
from plangym_ext.learn.engines.flat_optimizer import FlatOptimizer
from plangym_ext.learn.losses.policies import (
    approximate_kl,
    clipped_policy_loss,
    clipped_value_loss,
    mean_of,
    policy_gradient_loss,
    value_loss,
)
from plangym_ext.learn.networks.agent_network import AgentNetwork
from plangym_ext.learn.returns import normalized
from plangym_ext.learn.torch_extra import torch


class Rows(NamedTuple):
    """The inputs of losses: T steps of B envs, `[T, B, ...]`, or N single steps `[N, ...]`."""

    inputs: Inputs  # what the network was shown; fields it does not look at are None
    action: Any  # as drawn, before it was clipped to the space
    log_prob: Any  # when it was played; None where nothing was drawn
    value: Any  # when it was played; None where nothing estimates it
    advantage: Any  # None where no policy learns
    target: Any  # of the value
    valid: Any  # bool; None: all rows count
    carry: Any  # [B, ...] before the first step; None where nothing is carried

    @property
    def num_valid(self) -> int:
        """How many steps count."""
        return self.target.numel() if self.valid is None else int(self.valid.sum())

    def steps(self, *, whole: bool = False) -> Rows:
        """Return the steps that count one by one, `[N, ...]`, fresh.

        Args:
            whole: the others too, with `valid` `[N]`.
        """
        if whole and self.valid is not None:
            return self._changed(lambda leaf: leaf.flatten(0, 1), valid=self.valid.flatten())
        index = None if self.valid is None else self.valid.flatten().nonzero()[:, 0]

        def flat(leaf: Any) -> Any:
            leaf = leaf.flatten(0, 1)
            return leaf if index is None else leaf.index_select(0, index)

        return self._changed(flat, valid=None, carry=None)

    def take(self, index: Any) -> Rows:
        """Return some of N steps; `index` is an int64 tensor `[n]`."""
        index = index.to(self.target.device)
        valid = None if self.valid is None else self.valid[index]
        return self._changed(lambda leaf: _taken(leaf, index), valid=valid)

    def spread(self, most: int) -> Rows:
        """Return at most a given number of N steps, evenly spaced."""
        count = len(self.target)
        return self if count <= most else self.take(torch.arange(most) * count // most)

    def part(self, start: int, stop: int) -> Rows:
        """Return some of N steps, as views."""
        valid = None if self.valid is None else self.valid[start:stop]
        return self._changed(lambda leaf: leaf[start:stop], valid=valid)

    def columns(self, index: Any) -> Rows:
        """Return some envs, whole sequences; `index` are int64 `[b]`."""
        carry = None
        if self.carry is not None:
            carry = mapped(lambda leaf: leaf.index_select(0, index), self.carry)
        valid = None if self.valid is None else self.valid.index_select(1, index)
        return self._changed(lambda leaf: leaf.index_select(1, index), valid=valid, carry=carry)

    def _changed(self, change: Any, valid: Any = None, carry: Any = None) -> Rows:
        """Return all but `valid` and `carry` changed leaf by leaf."""
        inputs = changed_inputs(change, self.inputs)
        action, log_prob, value, advantage, target = (_or_none(change, part) for part in self[1:6])
        return Rows(inputs, action, log_prob, value, advantage, target, valid, carry)


def _taken(leaf: Any, index: Any) -> Any:
    """Return rows of a leaf `[N, ...]`, fresh, whose axes lie in memory as those of the leaf."""
    # `index_select` copies whole rows, which `leaf[index]` does number by number if axes are
    # turned around; but it forgets how they lie. So it is shown them in that order.
    order = sorted(range(leaf.ndim), key=lambda axis: (axis > 0, -leaf.stride(axis)))
    back = sorted(range(leaf.ndim), key=order.__getitem__)
    return leaf.permute(order).index_select(0, index).permute(back)


class LossTerms(NamedTuple):
    """The loss: policy loss + value_weight value loss - entropy_weight entropy.

    Attributes:
        clip: of `clipped_policy_loss`; None: the policy loss is `policy_gradient_loss`.
        value_clip: of `clipped_value_loss`; None: the value loss is `value_loss`.
        normalize: whether advantages are normalised over the rows of the update.
    """

    value_weight: float
    entropy_weight: float
    clip: float | None = None
    value_clip: float | None = None
    normalize: bool = False


class Gradients(Protocol):
    """Protocol: computes the losses of some rows, and their gradients on request."""

    def batch(self, rows: Rows) -> Any:
        """Return N single steps, with `take`, `part` and `advantage` as `Rows` have."""

    def losses(self, part: Any, terms: LossTerms) -> dict[str, Any]:
        """Return scalars without gradient, of what `batch` returned or of sequences.

        They are "loss", "policy_loss", "value_loss", "entropy" and, with a clip, "kl".
        """

    def leave(self) -> None:
        """Leave the gradient of the loss that was returned last with the optimiser."""


class ActorCriticLosses:
    """Gradients of any network, by autograd.

    Args:
        network: see `RolloutAlgorithm`.
        optimizer: of its parameters.
    """

    def __init__(self, network: Any, optimizer: FlatOptimizer) -> None:
        self._network, self._optimizer = network, optimizer

    def batch(self, rows: Rows) -> Rows:
        """Return the rows, with observations as the network has them; see `Gradients`."""
        if not isinstance(self._network, AgentNetwork):
            return rows
        laid_out = self._network.laid_out(rows.inputs.obs)
        return rows._replace(inputs=rows.inputs._replace(obs=laid_out))

    def losses(self, part: Rows, terms: LossTerms) -> dict[str, Any]:
        """Return the losses; see `Gradients`."""
        # Steps are taken in the optimiser's vector: autograd reads the network's own parameters.
        self._optimizer.write()
        out, _ = self._network(part.inputs, part.carry)
        distribution, valid = self._network.distribution, part.valid
        params = masked(out.policy_logits, part.inputs.legal)
        log_prob = distribution.log_prob(params, part.action)
        entropy = mean_of(distribution.entropy(params), valid)
        advantage = normalized(part.advantage, valid) if terms.normalize else part.advantage
        found = {"entropy": entropy}
        if terms.clip is None:
            policy = policy_gradient_loss(log_prob, advantage, valid)
        else:
            old = part.log_prob
            policy = clipped_policy_loss(log_prob, old, advantage, terms.clip, valid)
            # Looked at alone, not minimised.
            found["kl"] = approximate_kl(log_prob.detach(), old, valid)
        value = self._value_loss(out.value, part, terms)
        self._loss = policy + terms.value_weight * value - terms.entropy_weight * entropy
        found |= {"loss": self._loss, "policy_loss": policy, "value_loss": value}
        return {name: scalar.detach() for name, scalar in found.items()}

    def _value_loss(self, value: Any, part: Rows, terms: LossTerms) -> Any:
        if value is None:
            return torch.zeros((), dtype=torch.float32)
        if terms.value_clip is None:
            return value_loss(value, part.target, part.valid)
        return clipped_value_loss(value, part.value, part.target, terms.value_clip, part.valid)

    def leave(self) -> None:
        """Leave the gradient with the optimiser; see `Gradients`."""
        self._optimizer.differentiate(self._loss)


def policy_value_engine(network: Any, optimizer: FlatOptimizer, *, compiled: bool) -> Gradients:
    """Return the fastest gradients of a network; compiled ones, if they may be, of dense layers."""
    if compiled:
        # Here and not above: numba is of no use to other networks.
        from plangym_ext.learn.engines.compiled.actor_critic import CompiledLosses, can_compile

        if can_compile(network):
            return CompiledLosses(network, optimizer)
    return ActorCriticLosses(network, optimizer)


def changed_inputs(change: Any, inputs: Inputs) -> Inputs:
    """Return the inputs, changed leaf by leaf; without random numbers."""
    obs, action, reward, first = (_or_none(change, part) for part in inputs[:4])
    return Inputs(obs, action, reward, first, legal=_or_none(change, inputs.legal))


def _or_none(change: Any, value: Any) -> Any:
    if value is None or isinstance(value, torch.Tensor):
        return value if value is None else change(value)
    return mapped(change, value)
