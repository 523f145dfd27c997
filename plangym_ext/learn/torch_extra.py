"""Import of torch, or an error that says how to install it; checks of torch devices.

Every module that needs torch takes it from here.
"""

from __future__ import annotations

from plangym_ext.errors import InvalidOption, MissingExtra, installing

try:
    import torch as torch
    from torch import nn as nn
    from torch.nn import functional as functional
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise MissingExtra(
        "plangym_ext.learn: networks and algorithms need torch; it is not installed. "
        + installing("learn")
    ) from error


def device_of(network: nn.Module) -> torch.device:
    """Return the device of a network's first weights; the CPU for one without weights."""
    first = next(network.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def is_missing_gpu(device: str) -> bool:
    """Return whether a device names a GPU number that this machine lacks."""
    made = torch.device(device)
    return made.type == "cuda" and (made.index or 0) >= torch.cuda.device_count()


def check_device(device: str, where: str) -> None:
    """Refuse a device that torch does not support on this machine.

    Args:
        device: as torch names it, such as "cuda:0".
        where: what was given it, for the message.

    Raises:
        InvalidOption: torch does not know it, or cannot reach it.
    """
    try:
        torch.empty(1, device=device, dtype=torch.float32)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        # torch raises an AssertionError where it was built without CUDA.
        reason = str(error).splitlines()[0].rstrip(".")
        there = ", ".join(["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
        raise InvalidOption(
            f"{where}: device must be one that torch has here, such as {there}; got {device!r} "
            f"({reason})."
        ) from error
