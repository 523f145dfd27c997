"""OfObservations: an agent's network as a function of observations only, for evaluators."""

from __future__ import annotations

from typing import Any, final

from plangym_ext.arrays.nested import leaves
from plangym_ext.errors import InvalidOption
from plangym_ext.learn.agents.inputs import Inputs
from plangym_ext.learn.distributions.base import Distribution
from plangym_ext.learn.networks.network import NetworkOutput
from plangym_ext.learn.networks.quick_forward import forward_of
from plangym_ext.learn.torch_extra import nn, torch


@final
class OfObservations(nn.Module):
    """Evaluates observations by an `AgentNetwork` that looks at nothing else.

    A search comes to a state on its own, without what was played before it: a network that
    carries something, or looks at the previous action or reward, has no answer there.

    Args:
        network: shared, not copied: what a learner changes is asked at once.
        value_unit: what a value of 1 is worth, where it was learned from rewards in another unit.

    Attributes:
        distribution: what the policy's numbers are of.

    Raises:
        InvalidOption: the network looks at more than observations.
    """

    def __init__(self, network: nn.Module, value_unit: float = 1.0) -> None:
        super().__init__()
        used = set(getattr(network, "inputs_used", ("obs",)))
        if used != {"obs"}:
            raise InvalidOption(
                f"a planner that asks an agent's network: it must look at observations alone; it "
                f"looks at {', '.join(sorted(used))}. Make it without a recurrent layer, "
                f"previous_action and previous_reward."
            )
        made: Any = network
        self.network, self._unit = network, value_unit
        self.distribution: Distribution = made.distribution
        self._forward_of_network = forward_of(network)

    def forward(self, obs: Any) -> NetworkOutput:
        """Evaluate tensors `[N, *obs]`, nested as the space."""
        out: NetworkOutput = self._forward_of_network(shown(obs), None)[0]
        if self._unit == 1.0:
            return out
        value, q = (None if part is None else part * self._unit for part in (out.value, out.q))
        return out._replace(value=value, q=q)


def of_observations(network: nn.Module) -> nn.Module:
    """Return a network as a function of observations only; unchanged if it already is one.

    Raises:
        InvalidOption: it is an agent's, and looks at more than observations.
    """
    return OfObservations(network) if hasattr(network, "inputs_used") else network


def shown(obs: Any) -> Inputs:
    """Return observations `[N, ...]` as inputs of a network that reads nothing else."""
    first = next(leaves(obs))
    # Of the length alone something is asked: no memory is written.
    return Inputs(
        obs, None, None, torch.empty(first.shape[0], dtype=torch.bool, device=first.device)
    )
