"""Nested values in a file that `torch.load(..., weights_only=True)` reads.

No pickled object is ever read: a file from elsewhere can be wrong, but it runs nothing.
"""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from plangym_ext.core.whole_file import replacing
from plangym_ext.errors import DamagedCheckpoint
from plangym_ext.learn.torch_extra import torch

_UNREADABLE = (
    zipfile.BadZipFile,
    pickle.UnpicklingError,
    RuntimeError,
    EOFError,
    ValueError,
    KeyError,
)
#: Marks what was a numpy array, so that it comes back as one.
_ARRAY = "__numpy__"


def save(path: Path, content: Mapping[str, Any]) -> None:
    """Write nested dicts, lists, tensors, arrays and plain values, whole or not at all.

    Args:
        path: of the file; an existing one is replaced when the new one is on the disk.
        content: arrays of numbers or bools; ints of at most 64 bits.
    """
    with replacing(path, "wb") as file:
        torch.save(_packed(content), file)


def load(path: Path) -> dict[str, Any]:
    """Read what `save` wrote; tensors are on the CPU.

    Raises:
        DamagedCheckpoint: the file is cut short, altered, or none of these.
    """
    try:
        # torch writes checksums but does not look at them.
        with zipfile.ZipFile(path) as archive:
            altered = archive.testzip()
        if altered is not None:
            raise zipfile.BadZipFile(f"the checksum of {altered} is wrong")
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except (*_UNREADABLE, OSError) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise DamagedCheckpoint(
            f"{path}: no checkpoint can be read from it: it was cut short or altered, or is "
            f"something else ({reason[0][:120]}). Take an older one."
        ) from error
    if not isinstance(content, dict):
        raise DamagedCheckpoint(f"{path}: expected a checkpoint; it holds a {type(content)}.")
    found: dict[str, Any] = _unpacked(content)
    return found


def _packed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _packed(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_packed(one) for one in value]
    if isinstance(value, np.ndarray):
        return {_ARRAY: torch.from_numpy(np.array(value, order="C"))}
    if isinstance(value, np.generic):
        return value.item()
    return value


def _unpacked(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {_ARRAY}:
            return value[_ARRAY].numpy()
        return {key: _unpacked(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_unpacked(one) for one in value]
    return value


def tensors_of(arrays: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return a `state_dict` out of arrays by name."""
    return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
