"""The forward pass of an agent's network without torch's bookkeeping around every layer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from plangym_ext.learn.networks.agent_network import AgentNetwork
from plangym_ext.learn.networks.inputs import InputBody
from plangym_ext.learn.networks.network import NetworkOutput
from plangym_ext.learn.torch_extra import nn

Layer = Callable[[Any], Any]


class QuickForward:
    """Evaluates observations as the network does, to the bit, layer after layer.

    To call a module takes 4 us beside what the module does, which in a network of a dozen small
    layers is a third of the time. Weights are read in every call; layers are those of the time
    at which this was made.

    Args:
        network: for which `is_simple` holds.
    """

    def __init__(self, network: AgentNetwork) -> None:
        self._network = network
        self._layout = network.body.layout
        self._policy = [*_layers_of(network.body), network.heads.forward]
        self._value: list[Layer] = []
        if network.value_body is not None and network.value_head is not None:
            self._value = [*_layers_of(network.value_body), network.value_head.forward]

    def __call__(self, obs: Any) -> NetworkOutput:
        """Evaluate tensors `[B, *obs]`."""
        (rows,) = self._layout.split(obs)
        out = value = rows
        for layer in self._policy:
            out = layer(out)
        for layer in self._value:
            value = layer(value)
        return self._network.output_of(out, value[:, 0] if self._value else None)


def is_simple(network: Any) -> bool:
    """Return whether a network only puts one layer after the other, and nothing else looks on."""
    return (
        type(network) is AgentNetwork
        and network.core is None
        and network.inputs_used == ("obs",)
        and len(network.body.parts) == 1
        and not any(m._forward_hooks or m._forward_pre_hooks for m in network.modules())
    )


def _layers_of(body: InputBody) -> Iterator[Layer]:
    """Return what the single part of an observation goes through."""
    for module in (*body.parts, body.dense):
        yield from _leaves(module)


def _leaves(module: nn.Module) -> Iterator[Layer]:
    """Return the layers of nested sequences, in their order."""
    if type(module) is nn.Sequential:
        for layer in module:
            yield from _leaves(layer)
    else:
        yield module.forward
