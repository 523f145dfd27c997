"""Nested values in a file that `torch.load(..., weights_only=True)` reads.

No pickled object is ever read: a file from elsewhere can be wrong, but it runs nothing.

The last bytes are a seal, the digest of all that comes before. They are the comment of the
zip archive that torch writes, so that the file is still one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from plangym_ext.core.whole_file import replacing
from plangym_ext.errors import DamagedCheckpoint
from plangym_ext.learn.torch_extra import torch

_SEAL = b"plangym-ext seal"
_DIGEST_BYTES = 32
_CHUNK = 1 << 20
_SEAL_BYTES = len(_SEAL) + _DIGEST_BYTES
#: Marks what was a numpy array, so that it comes back as one.
_ARRAY = "__numpy__"


def save(path: Path, content: Mapping[str, Any]) -> None:
    """Write nested dicts, lists, tensors, arrays and plain values, whole or not at all.

    Args:
        path: of the file; an existing one is replaced when the new one is on the disk.
        content: arrays of numbers or bools; ints of at most 64 bits.
    """
    with replacing(path, "w+b") as file:
        torch.save(_packed(content), file)
        # How long the archive's comment is: the last number of the archive.
        file.seek(-2, os.SEEK_END)
        file.write(_SEAL_BYTES.to_bytes(2, "little") + _SEAL)
        digest = _digest(file, file.seek(0, os.SEEK_END))
        file.seek(0, os.SEEK_END)
        file.write(digest)


def load(path: Path) -> dict[str, Any]:
    """Read what `save` wrote; tensors are on the CPU.

    Raises:
        DamagedCheckpoint: the file is cut short, altered, or none of these.
    """
    try:
        _check_seal(path)
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except Exception as error:  # torch raises what it pleases for a file that is none of its own
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise DamagedCheckpoint(
            f"{path}: no checkpoint can be read from it: it was cut short or altered, or is "
            f"something else ({reason[0][:120]}). Take an older one."
        ) from error
    if not isinstance(content, dict):
        raise DamagedCheckpoint(f"{path}: expected a checkpoint; it holds a {type(content)}.")
    found: dict[str, Any] = _unpacked(content)
    return found


def _digest(file: IO[bytes], size: int) -> bytes:
    """Return the digest of the first `size` bytes of a file."""
    found, left = hashlib.blake2b(digest_size=_DIGEST_BYTES), size
    file.seek(0)
    while left:
        data = file.read(min(left, _CHUNK))
        if not data:
            raise EOFError("it is being cut short")
        found.update(data)
        left -= len(data)
    return found.digest()


def _check_seal(path: Path) -> None:
    """Compare the digest with all that comes before it: torch looks at no checksum.

    Raises:
        ValueError: a bit is not as it was written, or there is no seal.
    """
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _SEAL_BYTES))
        seal, digest = file.read(len(_SEAL)), file.read()
        if seal != _SEAL:
            raise ValueError("its end is no seal: it was written by something else, or cut short")
        # Of all but the digest itself: the name of the seal is covered, too.
        if _digest(file, size - _DIGEST_BYTES) != digest:
            raise ValueError("its bytes do not fit its seal")


def _packed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _packed(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_packed(one) for one in value]
    if isinstance(value, np.ndarray):
        # A copy only where torch takes nothing else: large arrays would not fit in twice.
        fits = value.flags.c_contiguous and value.flags.writeable and value.ndim
        return {_ARRAY: torch.from_numpy(value if fits else np.array(value, order="C"))}
    # Pickled, numpy's scalars would be objects that `weights_only` refuses.
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
    # Copies: a tensor shares the memory that it is made of.
    return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
