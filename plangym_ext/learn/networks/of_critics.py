"""OfCritics: an actor-critic's policy and critics as the network of an evaluator."""

from __future__ import annotations

from typing import Any, final

from plangym_ext.arrays.nested import mapped
from plangym_ext.learn.distributions.base import Distribution
from plangym_ext.learn.networks.critics import Critics
from plangym_ext.learn.networks.network import NetworkOutput
from plangym_ext.learn.networks.quick_forward import OfObservations
from plangym_ext.learn.torch_extra import nn, torch


@final
class OfCritics(nn.Module):
    """Evaluates observations by the lowest critic's value of the policy's action.

    Of Discrete actions it is the mean over the policy. The lowest, as that is what they learned
    from: each alone is too high where little was played.

    Args:
        network: of the policy; it looks at observations alone, see `OfObservations`.
        critics: of its actions.

    Attributes:
        distribution: what the policy's numbers are of.
    """

    def __init__(self, network: nn.Module, critics: Critics) -> None:
        super().__init__()
        self.policy, self.critics = OfObservations(network), critics
        self.distribution: Distribution = self.policy.distribution

    def forward(self, obs: Any) -> NetworkOutput:
        """Evaluate tensors `[N, *obs]`, nested as the space."""
        params = self.policy(obs).policy_logits
        if self.critics.by_action:
            value = (torch.softmax(params, dim=1) * self.critics(obs).amin(dim=0)).sum(dim=1)
            return NetworkOutput(params, value, None)
        played = self.distribution.greedy(params.detach().cpu().numpy())
        action = mapped(lambda part: torch.from_numpy(part).to(params.device), played)
        return NetworkOutput(params, self.critics(obs, action).amin(dim=0), None)
