"""Conversion of numpy arrays to torch tensors on the same memory."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import MissingExtra, installing


def as_tensor(data: npt.NDArray[Any]) -> Any:
    """Return a torch tensor that shares memory with `data` and keeps it alive.

    Raises:
        MissingExtra: torch is not installed.
        TypeError: torch has no such dtype.
        ValueError: `data` runs backwards along an axis, which torch cannot.
    """
    try:
        # Here and not above: importing torch takes seconds and most workers
        # never need it.
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise MissingExtra(
            f"Array.to_torch: torch must be installed; it is not. {installing('learn')}"
        ) from error
    if any(stride < 0 for stride in data.strides):
        raise ValueError(
            f"Array.to_torch: strides must not be negative; got {data.strides} for shape "
            f"{data.shape}. Flip the tensor of the unreversed view."
        )
    try:
        return torch.from_numpy(np.asarray(data))
    except TypeError as error:
        raise TypeError(
            f"Array.to_torch: torch must know the dtype; got {data.dtype} ({error}). "
            f"Convert to_ndarray() first."
        ) from error


def as_array(given: Any, where: str, kind: type[Exception]) -> np.ndarray:
    """Return a caller's value as an array; raise `kind` if its rows have unequal lengths."""
    try:
        return np.asarray(given)
    except (TypeError, ValueError) as error:
        raise kind(f"{where} must be one array; got {type(given).__name__}: {error}") from error
