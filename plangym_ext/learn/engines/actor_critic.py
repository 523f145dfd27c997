"""Engines of a policy and critics: by autograd, or by hand-written gradients of dense layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from plangym_ext.learn.engines.dense_stacks import DenseStacks, StackNorms
from plangym_ext.learn.engines.flat_optimizer import FlatOptimizer
from plangym_ext.learn.networks.quick_forward import shown
from plangym_ext.learn.torch_extra import nn, torch


class ActorCriticEngine:
    """Evaluates policy and critics, and propagates gradients of their outputs to the weights.

    An algorithm computes only the gradients of its losses by the outputs, a few numbers per row;
    this class computes the rest for any networks on any device, and those that derive from it
    compute it faster for some. Algorithms call it without autograd. Actions of critics are numbers
    `[N, D]` in units in which the bounds are -1 and 1.

    Args:
        networks: "policy" and "critics"; "target_policy" and "target_critics", if there are any.
        optimizers: "policy" and "critics".
        asked: returns what calls a network, such as its compiled code.

    Attributes:
        is_dense: whether gradients are computed without autograd.
    """

    is_dense: ClassVar[bool] = False

    def __init__(
        self,
        networks: Mapping[str, Any],
        optimizers: Mapping[str, FlatOptimizer],
        asked: Callable[[Any], Any],
    ) -> None:
        self._networks, self._optimizers, self._asked = networks, optimizers, asked

    def refresh(self, *names: str) -> None:
        """Use weights that have changed: of "policy", "critics", ...; without names, of all."""

    def number(self, scalar: Any) -> Any:
        """Return a scalar for the log: a float, or a tensor without waiting for its device."""
        return scalar.detach()

    # The policy -----------------------------------------------------------------

    def params(self, obs: Any, *, of: str = "policy", learn: bool = False) -> Any:
        """Return `[N, P]`, the outputs of the policy.

        Args:
            obs: `[N, *obs]`.
            of: "policy" or "target_policy".
            learn: whether `learn_policy` follows.
        """
        with torch.set_grad_enabled(learn):
            params = self._asked(self._networks[of])(shown(obs))[0].policy_logits
        if learn:
            self._params = params
        return params.detach()

    def learn_policy(self, d_params: Any, *others: tuple[Any, Any]) -> None:
        """Leave the gradient with the optimiser "policy".

        Args:
            d_params: of the `params` that were asked for last with `learn`.
            others: further parameters of the optimiser, each with its gradient.
        """
        outputs, gradients = zip((self._params, d_params), *others, strict=True)
        self._optimizers["policy"].differentiate(outputs, gradients)

    def draw(self, params: Any, noise: Any) -> tuple[Any, Any]:
        """Return actions `[N, D]` of a squashed Gaussian, and their log density `[N]`."""
        with torch.enable_grad():
            self._drawn_of = params.detach().requires_grad_()
            distribution = self._networks["policy"].distribution
            self._drawn = distribution.numbers_with_log_prob(self._drawn_of, noise)
        return self._drawn[0].detach(), self._drawn[1].detach()

    def draw_gradient(self, d_action: Any, d_log_prob: Any) -> Any:
        """Return the gradient of `params`, given those of what was drawn last.

        Args:
            d_action: `[N, D]`.
            d_log_prob: scalar, the same for all rows.
        """
        gradients = d_action, torch.ones_like(self._drawn[1]) * d_log_prob
        return torch.autograd.grad(self._drawn, self._drawn_of, gradients)[0]

    # The critics ----------------------------------------------------------------

    def played_values(self, obs: Any, action: Any, *, scaled: bool = False) -> Any:
        """Return `[E, N]` or `[E, N, K]`, the outputs of the critics; `learn_critics` may follow.

        Args:
            obs: `[N, *obs]`.
            action: `[N, *act]`.
            scaled: whether actions are `[N, D]` already, in units of their bounds.
        """
        critics = self._networks["critics"]
        with torch.enable_grad():
            q = self._asked(critics)(obs, action, scaled=scaled)
            if critics.by_action:
                # A Discrete space may begin elsewhere than at 0.
                index = (action - self._networks["policy"].distribution.start).long()
                q = q.gather(2, index.expand(len(q), -1)[..., None])[..., 0]
        self._played = q
        return q.detach()

    def learn_critics(self, d_q: Any) -> None:
        """Leave the gradient with the optimiser "critics", given that of `played_values`."""
        self._optimizers["critics"].differentiate(self._played, d_q)

    def next_values(self, obs: Any, action: Any = None) -> Any:
        """Return the outputs of the target critics; without an action `[E, N, A]`, of all."""
        return self._asked(self._networks["target_critics"])(obs, action, scaled=True)

    def values(self, obs: Any, action: Any = None, first: int | None = None) -> Any:
        """Return the outputs of the critics; `action_gradient` may follow.

        Args:
            obs: `[N, *obs]`.
            action: `[N, D]`; None: all actions are valued.
            first: how many of the critics are asked; None: all.
        """
        critics = self._asked(self._networks["critics"])
        if action is None:
            return critics(obs)
        with torch.enable_grad():
            self._action = action.detach().requires_grad_()
            # No gradients of weights: only the action's are wanted.
            q = critics(obs, self._action, scaled=True, frozen=True, first=first)
        self._values = q
        return q.detach()

    def action_gradient(self, d_q: Any) -> Any:
        """Return `[N, D]`, the gradient of the action, given that of `values`."""
        return torch.autograd.grad(self._values, self._action, d_q)[0]


# The engine for a policy and critics of dense layers on a CPU -----------------


class DenseActorCritic(ActorCriticEngine):
    """Evaluates policy and critics as stacks of products.

    In float32 gradients are those of autograd, but for the last digits: sums are added in another
    order. In bfloat16 other numbers are rounded where critics are normalised; either way gradients
    are as near to those of float32.

    Args:
        networks: for which `can_be_dense` holds.
        optimizers: "policy" and "critics".
        precision: see `dense_layers_product`.
    """

    is_dense = True

    def __init__(
        self, networks: Mapping[str, Any], optimizers: Mapping[str, FlatOptimizer], precision: str
    ) -> None:
        # Here and not above: numba is of no use to other networks.
        from plangym_ext.learn.engines.compiled.squashed_gaussian import SquashedDraws

        self._networks, self._precision = networks, precision
        draws, self._of_policy = SquashedDraws(), _gradients(optimizers["policy"])
        self.draw, self.draw_gradient = draws.draw, draws.gradient  # type: ignore[method-assign]
        gradients = {"policy": self._of_policy, "critics": _gradients(optimizers["critics"])}
        self._stacks = {
            name: made(networks[name], gradients.get(name))
            for name, made in self._kinds().items()
            if name in networks
        }
        #: What gradients need, until they are computed: memory is soon used again.
        self._tapes: dict[str, Any] = {}

    def _kinds(self) -> dict[str, Callable[..., DenseStacks]]:
        policy, critics = self._policy_stacks, self._critic_stacks
        return {
            "policy": policy,
            "target_policy": policy,
            "critics": critics,
            "target_critics": critics,
        }

    def _policy_stacks(self, network: Any, gradients: Any = None) -> DenseStacks:
        layers = [*(m for m in network.body.dense if isinstance(m, nn.Linear)), network.heads]
        weights, biases = ([getattr(m, name) for m in layers] for name in ("weight", "bias"))
        return DenseStacks(weights, biases, precision=self._precision, gradients=gradients)

    def _critic_stacks(self, critics: Any, gradients: Any = None) -> DenseStacks:
        parts, norms = ([*critics.weights], [*critics.biases]), None
        if len(critics.scales):
            norms = StackNorms([*critics.scales], [*critics.offsets], gradients)
        return DenseStacks(*parts, precision=self._precision, gradients=gradients, norms=norms)

    def refresh(self, *names: str) -> None:
        for name in names or self._stacks:
            self._stacks[name].refresh()

    def number(self, scalar: Any) -> float:
        return float(scalar)

    def params(self, obs: Any, *, of: str = "policy", learn: bool = False) -> Any:
        numbers, tape = self._stacks[of].forward(self._networks[of].features(shown(obs)))
        if learn:
            self._tapes["policy"] = tape
        return numbers[0]

    def learn_policy(self, d_params: Any, *others: tuple[Any, Any]) -> None:
        # As a stack of one.
        self._stacks["policy"].backward(self._tapes.pop("policy"), d_params[None])
        for parameter, gradient in others:
            self._of_policy[id(parameter)].fill_(gradient)

    def played_values(self, obs: Any, action: Any, *, scaled: bool = False) -> Any:
        """Return values of actions that were played."""
        action = action if scaled else self._networks["critics"].action(action)
        q, self._tapes["played"] = self._valued("critics", obs, action)
        return q

    def learn_critics(self, d_q: Any) -> None:
        self._stacks["critics"].backward(self._tapes.pop("played"), _outputs(d_q))

    def next_values(self, obs: Any, action: Any = None) -> Any:
        q, _ = self._valued("target_critics", obs, action)
        return q

    def values(self, obs: Any, action: Any = None, first: int | None = None) -> Any:
        q, self._tapes["values"] = self._valued("critics", obs, action, first)
        return q

    def action_gradient(self, d_q: Any) -> Any:
        tape = self._tapes.pop("values")
        # The rows of critics end with the action.
        begin = tape[0].rows[0].shape[1] - self._networks["critics"].action.width
        return self._stacks["critics"].input_gradient(tape, _outputs(d_q), begin)

    def _valued(self, of: str, obs: Any, action: Any, first: int | None = None) -> tuple[Any, Any]:
        rows = self._networks["critics"].rows(obs, action)
        q, tape = self._stacks[of].forward(rows, first)
        return q[..., 0] if q.shape[2] == 1 else q, tape


def actor_critic_engine(
    networks: Mapping[str, Any],
    optimizers: Mapping[str, FlatOptimizer],
    config: Any,
    asked: Callable[[Any], Any],
) -> ActorCriticEngine:
    """Return the fastest engine for some networks; see `ActorCriticEngine`."""
    wanted = config.compiled and not config.compile
    if wanted and can_be_dense(networks["policy"], networks["critics"]):
        return DenseActorCritic(networks, optimizers, config.precision)
    return ActorCriticEngine(networks, optimizers, asked)


def can_be_dense(network: Any, critics: Any) -> bool:
    """Return whether policy and critics consist of dense layers; critics may be normalised."""
    # Here and not above: numba is of no use to other networks.
    from plangym_ext.learn.engines.compiled.dense_network import has_dense_layers

    return (
        has_dense_layers(network)
        and all(isinstance(layer, nn.Linear | nn.ReLU) for layer in network.body.dense)
        and type(network.heads) is nn.Linear
        and network.heads.out_features == network.distribution.width
        and network.free_order is None
        and network.log_std is None
        and critics.action is not None
        and not critics.renorms
        and not any(True for _ in critics.parts.parameters())
    )


def _outputs(d_q: Any) -> Any:
    """Return the gradient of all outputs `[E, N, K]`."""
    return d_q if d_q.ndim == 3 else d_q[..., None]


def _gradients(optimizer: FlatOptimizer) -> dict[int, Any]:
    return {key: torch.from_numpy(array) for key, (_, array) in optimizer.views().items()}
