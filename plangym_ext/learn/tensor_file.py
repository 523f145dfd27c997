"""Checkpoint files of tensors and plain values, readable with `torch.load(weights_only=True)`.

No pickled object is ever read: a file from elsewhere can be wrong, but it runs nothing.

The last bytes are a seal, the digest of all that comes before. They are the comment of the
zip archive that torch writes, so that the file is still one.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from plangym_ext.core.files.whole_file import opened, replacing
from plangym_ext.errors import DamagedCheckpoint
from plangym_ext.learn.packed_values import packed, unpacked
from plangym_ext.learn.torch_extra import torch

_SEAL = b"plangym-ext seal"
_DIGEST_BYTES = 32
_CHUNK = 1 << 20
_MOST_TIMES = 10
_SEAL_BYTES = len(_SEAL) + _DIGEST_BYTES


def save(path: Path, content: Mapping[str, Any]) -> None:
    """Write nested dicts, lists, tensors, arrays and plain values, whole or not at all.

    Args:
        path: of the file; an existing one is replaced when the new one is on the disk.
        content: what `packed` takes.

    Raises:
        WrongKind: it holds something else, of which the message says where; nothing was written.
    """
    found = packed(content)
    with replacing(path, "w+b") as file:
        written: Any = _Written(file)
        try:
            torch.save(found, written)
        except Exception:
            # Torch goes on after an error of the disk, and tells one of its own.
            if written.error is not None:
                raise written.error from None
            raise
        # How long the archive's comment is: the last number of the archive.
        file.seek(-2, os.SEEK_END)
        file.write(_SEAL_BYTES.to_bytes(2, "little") + _SEAL)
        digest = _digest(file, file.seek(0, os.SEEK_END))
        file.seek(0, os.SEEK_END)
        file.write(digest)


class _Written:
    """A file that remembers why it could not be written.

    Attributes:
        error: of the first write that failed; None if none has.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.error: OSError | None = None
        self.flush = file.flush

    def write(self, data: Any) -> int:
        """Write bytes; nothing more once a write has failed."""
        if self.error is not None:
            raise self.error
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = error
            raise


def load(path: Path) -> dict[str, Any]:
    """Read what `save` wrote; tensors are on the CPU.

    Raises:
        DamagedCheckpoint: the file is cut short, altered, or none of these.
    """
    try:
        _check_seal(path)
        _check_members(path)
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
        _check_size(content, path)
        content = unpacked(content)
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
    return content


def _check_members(path: Path) -> None:
    """Refuse an archive of which more is unpacked than it has: torch writes all as it is."""
    size = path.stat().st_size
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    whole = all(one.compress_type == zipfile.ZIP_STORED for one in members)
    if not whole or sum(max(one.file_size, one.compress_size) for one in members) > size:
        raise ValueError("it is packed, which torch never does")


def _check_size(content: Any, path: Path) -> None:
    """Refuse tensors that say that they are much larger than the file: they repeat few numbers."""
    left, total = [content], 0
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list | tuple):
            left += value
        elif isinstance(value, torch.Tensor):
            total += value.numel() * value.element_size()
    if total > _MOST_TIMES * path.stat().st_size:
        raise ValueError(f"its tensors would take {total:,} bytes")


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
    """Compare the digest with all that comes before it: torch looks at no checksum."""
    with opened(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _SEAL_BYTES))
        seal, digest = file.read(len(_SEAL)), file.read()
        if seal != _SEAL:
            raise ValueError("its end is no seal: it was written by something else, or cut short")
        # Of all but the digest itself: the name of the seal is covered, too.
        if _digest(file, size - _DIGEST_BYTES) != digest:
            raise ValueError("its bytes do not fit its seal")
