"""Engine of a policy and value network: losses of rows, and their gradients by autograd."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from plangym_ext.learn.distributions.base import masked
from plangym_ext.learn.engines.flat_optimizer import FlatOptimizer
from plangym_ext.learn.engines.rows import Rows
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
    """Gradients of any network, by autograd."""

    def __init__(self, network: Any, optimizer: FlatOptimizer) -> None:
        self._network, self._optimizer = network, optimizer

    def batch(self, rows: Rows) -> Rows:
        """Return the rows, with observations as the network has them; see `Gradients`."""
        if not isinstance(self._network, AgentNetwork):
            return rows
        laid_out = self._network.body.parts.laid_out(rows.inputs.obs)
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
