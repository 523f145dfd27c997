"""Whether what is given as a network is one that can be asked."""

from __future__ import annotations

from typing import Any

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.torch_extra import nn


def check_network(where: str, network: Any, attributes: tuple[str, ...] = ()) -> None:
    """Refuse what is no module, or lacks an attribute that is read of it.

    Args:
        where: how the message begins.
        network: that was given.
        attributes: that it must have.

    Raises:
        InvalidOption: it is none, such as an agent or a class.
    """
    missing = [name for name in attributes if not hasattr(network, name)]
    if not isinstance(network, nn.Module) or missing:
        needs = f" with {', '.join(attributes)}" if attributes else ""
        lacks = f", which has no {', '.join(missing)}" if missing else ""
        raise InvalidOption(
            f"{where}: network must be a torch.nn.Module{needs}, such as make_agent_network "
            f"returns; got {_called(network)}{lacks}."
        )


def _called(network: Any) -> str:
    """Return what a message calls it: a module's repr has a line for every layer."""
    if isinstance(network, type):
        return f"the class {network.__name__}"
    return f"an object of {type(network).__name__}"
