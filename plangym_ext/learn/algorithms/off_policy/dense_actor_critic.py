"""Actor and critic gradients of dense networks by matrix products, without autograd."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plangym_ext.learn.algorithms.flat_optimizer import FlatOptimizer
from plangym_ext.learn.algorithms.off_policy.drawn_steps import Steps
from plangym_ext.learn.networks.dense_stacks import DenseStacks, Tape
from plangym_ext.learn.networks.quick_forward import shown
from plangym_ext.learn.networks.stack_norms import StackNorms
from plangym_ext.learn.torch_extra import nn, torch


class DenseActorCritic:
    """Evaluates policy and critics, and leaves gradients in their optimisers.

    In float32 gradients are those of autograd, but for the last digits: sums are added in another
    order. In bfloat16 other numbers are rounded where critics are normalised; either way gradients
    are as near to those of float32.

    Args:
        network: of the policy; `can_be_dense` holds for it and the critics.
        critics: of its actions.
        target_critics: that follow them.
        optimizers: "policy" and "critics".
        precision: see `dense_layers_product`.
    """

    def __init__(
        self,
        network: Any,
        critics: Any,
        target_critics: Any,
        optimizers: Mapping[str, FlatOptimizer],
        precision: str,
    ) -> None:
        self._network, self._critics_module = network, critics
        self._precision = precision
        self._stacks = {
            "policy": self._of_policy(network, _gradients(optimizers["policy"])),
            "critics": self._of_critics(critics, _gradients(optimizers["critics"])),
            "target_critics": self._of_critics(target_critics),
        }
        self._policy, self._critics = self._stacks["policy"], self._stacks["critics"]

    def _of_policy(self, network: Any, gradients: Any = None) -> DenseStacks:
        layers = [*(m for m in network.body.dense if isinstance(m, nn.Linear)), network.heads]
        weights, biases = ([getattr(m, name) for m in layers] for name in ("weight", "bias"))
        return DenseStacks(weights, biases, precision=self._precision, gradients=gradients)

    def _of_critics(self, critics: Any, gradients: Any = None) -> DenseStacks:
        parts, norms = ([*critics.weights], [*critics.biases]), None
        if len(critics.scales):
            norms = StackNorms([*critics.scales], [*critics.offsets], gradients)
        return DenseStacks(*parts, precision=self._precision, gradients=gradients, norms=norms)

    def refresh(self, *names: str) -> None:
        """Copy changed weights; without names, all weights."""
        for name in names or self._stacks:
            self._stacks[name].refresh()

    def calls_policy(self, name: str, network: Any) -> Any:
        """Return a function that evaluates a policy network; `name` is for `refresh`."""
        stacks = self._stacks.setdefault(name, self._of_policy(network))

        def call(inputs: Any) -> Any:
            numbers, _ = stacks.forward(network.features(inputs))
            # `[1, N, P]`: a stack of one network.
            return network.output_of(numbers[0], None), None

        return call

    def next_values(self, obs: Any, action: Any) -> Any:
        """Return the target critics' values `[E, N]`; `action` in units of its bounds."""
        q, _ = self._stacks["target_critics"].forward(self._rows(obs, action))
        return q[..., 0]

    def _rows(self, obs: Any, action: Any) -> Any:
        """Return `[N, F + D]`, what critics are shown; `action` in the units of its bounds."""
        critics = self._critics_module
        if critics.normalizer is not None:
            obs = critics.normalizer(obs)
        return torch.cat([*critics.parts(obs), action], dim=1)

    # Learning ---------------------------------------------------------------------------

    def learn_critics(self, steps: Steps, target: Any) -> tuple[Any, float]:
        """Leave the gradient of `critic_loss` with the optimiser; return q `[E, N]` and loss."""
        x = self._rows(steps.obs, self._critics_module.action(steps.action))
        # `[E, N, 1]`
        q, tape = self._critics.forward(x)
        error = q[..., 0] - target
        # `[E, N]`: a mean over the steps, a sum over the critics.
        weighted = error if steps.weight is None else error * steps.weight
        count = len(target)
        self._critics.backward(tape, (weighted / count)[..., None])
        return q[..., 0], 0.5 * float(torch.dot(error.flatten(), weighted.flatten())) / count

    def params(self, obs: Any) -> tuple[Any, Tape]:
        """Return `[N, P]`, the numbers of the policy, and what `learn_policy` needs."""
        numbers, tape = self._policy.forward(self._network.features(shown(obs)))
        return numbers[0], tape

    def learn_policy(self, tape: Tape, d_params: Any) -> None:
        """Leave the gradient of the policy with the optimiser, given that of its numbers."""
        # As a stack of one.
        self._policy.backward(tape, d_params[None])

    def values(self, obs: Any, action: Any, first: int | None = None) -> tuple[Any, Tape]:
        """Return q `[E, N]`, and what `action_gradient` needs.

        Args:
            obs: `[N, *obs]`.
            action: `[N, D]`, in units in which its bounds are -1 and 1.
            first: how many of the critics are asked; None: all.
        """
        q, tape = self._critics.forward(self._rows(obs, action), first)
        return q[..., 0], tape

    def action_gradient(self, tape: Tape, d_q: Any) -> Any:
        """Return `[N, D]`, the gradient of the action, given that of `values`, `[E, N]`."""
        width = self._critics_module.action.width
        # What critics are shown ends with the action.
        begin = tape[0].rows[0].shape[1] - width
        return self._critics.input_gradient(tape, d_q[..., None], begin)


def can_be_dense(network: Any, critics: Any) -> bool:
    """Return whether policy and critics are dense layers; those of critics may be normalised."""
    # Here and not above: numba is of no use to other networks.
    from plangym_ext.learn.compiled.dense_network import has_dense_layers

    return (
        has_dense_layers(network)
        and all(isinstance(layer, nn.Linear | nn.ReLU) for layer in network.body.dense)
        and type(network.heads) is nn.Linear
        and network.heads.out_features == network.distribution.width
        and network.free_order is None
        and network.log_std is None
        and critics.action is not None
        and not any(True for _ in critics.parts.parameters())
    )


def _gradients(optimizer: FlatOptimizer) -> dict[int, Any]:
    return {key: torch.from_numpy(array) for key, (_, array) in optimizer.views().items()}
