"""Loading the weights of a network, if they are its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plangym_ext.errors import ForeignNetwork
from plangym_ext.learn.torch_extra import nn


def load_network_state(network: nn.Module, state: Mapping[str, Any], where: str = "load") -> None:
    """Copy a `state_dict` into a network; nothing is changed if it does not fit.

    Args:
        network: any module.
        state: of a module with the same parameters.
        where: how the message begins.

    Raises:
        ForeignNetwork: names or shapes differ; the message has the first differences.
    """
    mine = network.state_dict()
    faults = [f"{name} is missing" for name in mine if name not in state]
    faults += [f"{name} is not known here" for name in state if name not in mine]
    faults += [
        f"{name} is {tuple(state[name].shape)} {state[name].dtype}, here "
        f"{tuple(mine[name].shape)} {mine[name].dtype}"
        for name in mine
        if name in state
        and (state[name].shape != mine[name].shape or state[name].dtype != mine[name].dtype)
    ]
    if faults:
        more = f", and {len(faults) - 4} more" if len(faults) > 4 else ""
        raise ForeignNetwork(
            f"{where}: the weights are those of another network: {'; '.join(faults[:4])}{more}. "
            f"Make the network with the same spaces and NetworkConfig."
        )
    network.load_state_dict(state)
