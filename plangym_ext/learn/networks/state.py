"""Loading the weights of a network, if they are its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plangym_ext.errors import ForeignNetwork
from plangym_ext.learn.torch_extra import nn

# How many differences a message names.
_SHOWN = 4


def load_network_state(network: nn.Module, state: Mapping[str, Any], where: str = "load") -> None:
    """Copy a `state_dict` into a network; nothing is changed if it does not fit.

    Args:
        network: any module.
        state: of a module with the same parameters.
        where: how the message begins.

    Raises:
        ForeignNetwork: names or shapes differ; the message has the first differences.
    """
    check_network_state(network, state, where)
    network.load_state_dict(state)


def check_network_state(network: nn.Module, state: Mapping[str, Any], where: str) -> None:
    """Refuse weights that a network cannot have; arguments as in `load_network_state`."""
    mine = network.state_dict()
    faults = [f"{name} is missing" for name in mine if name not in state]
    faults += [f"{name} is not known here" for name in state if name not in mine]
    for name in mine:
        theirs, ours = _kind(state[name]) if name in state else "", _kind(mine[name])
        if theirs and theirs != ours:
            faults.append(f"{name} is {theirs}, here {ours}")
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise ForeignNetwork(
            f"{where}: the weights are those of another network: {'; '.join(faults[:_SHOWN])}"
            f"{more}. Make the network with the same spaces and NetworkConfig."
        )


def _kind(tensor: Any) -> str:
    # A file from elsewhere may hold anything by these names.
    if not hasattr(tensor, "shape"):
        return f"a {type(tensor).__name__}"
    return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"
