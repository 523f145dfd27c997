"""Validation of user-supplied network modules."""

from __future__ import annotations

from typing import Any

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.held_numbers import is_own
from plangym_ext.learn.torch_extra import nn


def check_network(where: str, network: Any, attributes: tuple[str, ...] = ()) -> None:
    """Refuse a value that is not a module, or lacks a required attribute.

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
    refuse_unsized(where, network)


def has_own_code(network: nn.Module) -> bool:
    """Return whether code of the user's runs in a network's forward pass: modules, or hooks."""
    return any(
        is_own(type(part)) or part._forward_hooks or part._forward_pre_hooks
        for part in network.modules()
    )


def refuse_unsized(where: str, network: Any) -> None:
    """Refuse a network with uninitialised weights, such as those of `nn.LazyLinear`.

    Raises:
        InvalidOption: it has some; the message names one.
    """
    for name, one in [*network.named_parameters(), *network.named_buffers()]:
        if nn.parameter.is_lazy(one):
            raise InvalidOption(
                f"{where}: every weight of the network must have its size; {name} is of a lazy "
                f"layer, which gets it when it is called first. Call the network once on an "
                f"example before it is given, or write the sizes."
            )


class KnownParameters:
    """The parameters that an optimiser was made for.

    Args:
        where: how the message begins.
        network: that learns.
    """

    def __init__(self, where: str, network: nn.Module) -> None:
        self._where, self._network = where, network
        self._known = list(network.parameters())

    def check(self) -> None:
        """Refuse to learn with others.

        Raises:
            InvalidOption: the network has made layers since then, or replaced some.
        """
        now = list(self._network.named_parameters())
        if len(now) == len(self._known) and all(
            mine is one for mine, (_, one) in zip(self._known, now, strict=True)
        ):
            return
        known = set(map(id, self._known))
        new = [name for name, one in now if id(one) not in known]
        raise InvalidOption(
            f"{self._where}: the network must keep the parameters that it was given with; "
            f"{', '.join(new[:4]) or 'some of them'} came or went since, and would never be "
            f"learned. Make all layers in __init__."
        )


def _called(network: Any) -> str:
    """Return a module's name for messages."""
    if isinstance(network, type):
        return f"the class {network.__name__}"
    return f"an object of {type(network).__name__}"
