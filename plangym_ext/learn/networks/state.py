"""Check of user-supplied networks; saving and loading of weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import ForeignNetwork, InvalidOption
from plangym_ext.learn.held_numbers import held_numbers, is_own
from plangym_ext.learn.torch_extra import nn, torch

#: What the names of numbers begin with that a network holds and its `state_dict` lacks.
_HELD = "held:"
#: Attributes that say what a network is for, and learn nothing.
_FIXED = (".observation_space", ".action_space", ".distribution", ".config")
# How many differences a message names.
_SHOWN = 4


@checking_arguments
def load_network_state(network: nn.Module, state: Mapping[str, Any], where: str = "load") -> None:
    """Copy a `state_dict` into a network; a misfit changes nothing.

    Args:
        network: any module.
        state: of a module with the same parameters.
        where: how the message begins.

    Raises:
        ForeignNetwork: names or shapes differ; the message has the first differences.
    """
    check_network_state(network, state, where)
    network.load_state_dict(
        {name: one for name, one in state.items() if not name.startswith(_HELD)}
    )
    mine = _held(network)
    for name, (part, attribute, value) in _numbers(network).items():
        if name in state and _kind(state[name]) == _kind(_number(value)):
            setattr(part, attribute, state[name].item())
    with torch.no_grad():
        for name in state.keys() & mine.keys():
            # One of another shape is of another time, such as what the last call has left.
            if _kind(state[name]) == _kind(_tensor(mine[name])):
                _tensor(mine[name]).copy_(state[name])


def network_state(network: nn.Module) -> dict[str, Any]:
    """Return the `state_dict` of a network, with further arrays that it holds.

    These are buffers that are not persistent, tensors and arrays that are attributes or parts of
    them, and numbers that are attributes: what a network of the user's own has learned may be
    there. The tensors are the network's own memory.
    """
    held = {name: _tensor(one).detach() for name, one in _held(network).items()}
    numbers = {name: _number(value) for name, (*_, value) in _numbers(network).items()}
    return {**network.state_dict(), **held, **numbers}


def _numbers(network: nn.Module) -> dict[str, tuple[nn.Module, str, Any]]:
    """Return by name the numbers that are attributes of modules of the user's classes."""
    return {
        f"{_HELD}{where}.{name}": (part, name, value)
        for where, part in network.named_modules()
        if is_own(type(part))
        for name, value in vars(part).items()
        # By 64 bits, as torch keeps them: others are no counters.
        if type(value) in (bool, int, float) and name != "training" and abs(value) < 2**63
    }


def _held(network: nn.Module) -> dict[str, Any]:
    """Return tensors and arrays by name that are not in the `state_dict`, where they lie."""
    kinds = {type(part).__module__.partition(".")[0] for part in network.modules()}
    # The library's own keep there what follows from the spaces.
    if kinds <= {"plangym_ext", "torch"}:
        return {}
    known = set(map(id, network.state_dict(keep_vars=True).values()))
    return {
        _HELD + where: one
        for where, one in held_numbers(network).items()
        if id(one) not in known and not where.startswith(_FIXED) and _can_be_written(one)
    }


def _can_be_written(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        plain = value.dtype.kind in "biuf" and value.dtype.isnative and value.dtype.itemsize <= 8
        return plain and value.flags.writeable and min(value.strides, default=0) >= 0
    plain = type(value) in (torch.Tensor, nn.Parameter) and not value.is_inference()
    return plain and value.layout is torch.strided and not nn.parameter.is_lazy(value)


def _tensor(value: Any) -> Any:
    """Return a tensor on the memory of an array; a tensor as it is."""
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def _number(value: Any) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)


def check_network_state(network: nn.Module, state: Mapping[str, Any], where: str) -> None:
    """Refuse weights that a network cannot have; arguments as in `load_network_state`."""
    mine = network.state_dict()
    faults = [f"{name} is missing" for name in mine if name not in state]
    faults += [
        f"{name} is not known here"
        for name in state
        if name not in mine and not name.startswith(_HELD)
    ]
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


def check_network(where: str, network: Any, attributes: tuple[str, ...] = ()) -> None:
    """Refuse a value that is not a module, or lacks a required attribute.

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
    """Return whether a network's forward pass runs user code: modules or hooks."""
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
    """The parameters that an optimiser was made for."""

    def __init__(self, where: str, network: nn.Module) -> None:
        self._where, self._network = where, network
        self._known = list(network.parameters())

    def check(self) -> None:
        """Raise if the network's parameters are others by now.

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
            f"{self._where}: the network must keep the parameters that it had when it was given; "
            f"{', '.join(new[:4]) or 'some of them'} were added or removed since, and would never "
            f"be trained. Make all layers in __init__."
        )


def _called(network: Any) -> str:
    """Return a module's name for messages."""
    if isinstance(network, type):
        return f"the class {network.__name__}"
    return f"an object of {type(network).__name__}"
