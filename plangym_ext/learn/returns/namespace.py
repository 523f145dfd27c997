"""Choice of the array library (numpy or torch) by the type of the arguments."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def namespace_of(*values: Any) -> Any:
    """Return the torch module if any of `values` is a tensor, else numpy.

    torch is looked up among the loaded modules: there is no tensor before it was imported.
    """
    torch: Any = sys.modules.get("torch")
    if torch is not None and any(isinstance(value, torch.Tensor) for value in values):
        return torch
    return np


def converter(*values: Any) -> Any:
    """Return a function that makes arrays of the library and device of `values`.

    Tensors come back detached: nothing here is differentiated.
    """
    xp = namespace_of(*values)
    if xp is np:
        return np.asarray
    # Arrays of numpy among tensors are brought to the first tensor's device.
    device = next(value.device for value in values if isinstance(value, xp.Tensor))
    return lambda value: xp.as_tensor(value, device=device).detach()


def floating(array: Any) -> Any:
    """Return the array in its own floating dtype, or else in float64.

    Of numpy's only two are kept: compiled loops know no other.
    """
    if namespace_of(array) is np:
        return array if array.dtype in (np.float32, np.float64) else array.astype(np.float64)
    return array if array.is_floating_point() else array.double()
