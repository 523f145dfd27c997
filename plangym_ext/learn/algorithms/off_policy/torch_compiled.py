"""`torch.compile` of network modules, where a C++ compiler is available."""

from __future__ import annotations

import os
import shutil
from typing import Any

from plangym_ext.errors import InvalidOption
from plangym_ext.learn.torch_extra import nn, torch

#: Programs that torch compiles C++ with.
_COMPILERS = ("g++", "clang++", "cl")


def torch_compiled(module: nn.Module, where: str) -> Any:
    """Return a compiled version of a module with the module's own weights.

    The first call with inputs of some shape takes a minute or so.

    Args:
        module: to be called.
        where: begins the message.

    Raises:
        InvalidOption: there is no compiler.
    """
    own = os.environ.get("CXX")
    names = (own,) if own else _COMPILERS
    if not any(map(shutil.which, names)):
        raise InvalidOption(
            f"{where}: compile=True needs a C++ compiler; {' or '.join(names)} is not on the PATH. "
            f"Install one, or leave compile at False."
        )
    return torch.compile(module, dynamic=False)
