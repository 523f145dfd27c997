"""Engine of a policy and critics, by autograd."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from plangym_ext.learn.engines.flat_optimizer import FlatOptimizer
from plangym_ext.learn.networks.quick_forward import shown
from plangym_ext.learn.torch_extra import torch


class ActorCriticEngine:
    """Evaluates policy and critics, and brings gradients of their outputs to their weights.

    An algorithm computes gradients of its losses by the outputs alone, which are a few numbers per
    row; this class computes the rest for any networks on any device, and those that derive from it
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
        """Return a scalar as it is logged: a float, or a tensor that is not waited for."""
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
