"""`.npz` files of named arrays, without pickles and with a bound on their unpacked size.

A file unpacks to no more than ten times its own size, or 16 MiB: one that packs better gets bytes
that mean nothing. So a reader knows what a file may hold before it unpacks anything.
"""

from __future__ import annotations

import math
import os
import re
import zipfile
from collections.abc import Iterable, Mapping
from typing import IO, Any

import numpy as np

from plangym_ext.states import plain

#: Most bytes that a file may unpack to: so many times its own size, but for small ones.
_MOST_TIMES, _FLOOR = 10, 16 << 20
_PIECE = 1 << 20  # unpacked at a time, so that Ctrl-C comes through
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: Of a file that packs better: bytes that mean nothing, so that it is large enough for its content.
_ROOM = "room"
_HEADER = re.compile(
    rb"\{'descr': '([^']{1,32})', 'fortran_order': False, 'shape': \(([\d, ]{0,64})\), \} *\n"
)


def write(file: IO[bytes], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by their names; readers take rows one after another alone."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as part:
                np.lib.format.write_array(part, array, (1, 0), allow_pickle=False)
        _make_room(archive, file.tell(), sum(array.nbytes for array in arrays.values()))


def read(
    file: IO[bytes], needed: Iterable[str], possible: Iterable[str] = ()
) -> dict[str, np.ndarray]:
    """Return arrays by their names, fresh.

    Args:
        file: that `write` or `numpy.savez` wrote.
        needed: names of arrays that must be there.
        possible: names of arrays that may be there.

    Raises:
        Exception: whatever zipfile and zlib raise for damaged files, or a ValueError.
    """
    size = os.fstat(file.fileno()).st_size
    with zipfile.ZipFile(file) as archive:
        there = set(archive.namelist())
        names = [*needed, *(name for name in possible if f"{name}.npy" in there)]
        found, left = {}, max(_MOST_TIMES * size, _FLOOR)
        for name in names:
            found[name] = _array(archive, name, size, left)
            left -= found[name].nbytes
    return found


def _array(archive: zipfile.ZipFile, name: str, packed: int, left: int) -> np.ndarray:
    """Return an array of an `.npz`, unpacked only if it is of a size that the file may hold.

    Args:
        archive: the file.
        name: of the array.
        packed: bytes of the file.
        left: bytes that the array may have.
    """
    info = archive.getinfo(f"{name}.npy")
    # Its directory may say anything: only of these two is the size bounded by what is read.
    if info.compress_type not in _METHODS or info.header_offset + info.compress_size > packed:
        raise ValueError(f"{name} is packed in a way that save_states never uses")
    with archive.open(info) as file:
        dtype, shape = _form(file, name)
        size, header = math.prod(shape) * dtype.itemsize, file.tell()
        if max(size, info.file_size - header) > left:
            raise ValueError(
                f"{name} would take {max(size, info.file_size):,} bytes, of at most {left:,} for a "
                f"file of {packed:,}"
            )
        data = np.empty(size, np.uint8)
        at = 0
        while piece := file.read(min(_PIECE, size - at) or 1):  # to the end, where the checksum is
            if at + len(piece) > size:
                raise ValueError(f"{name} has more than the {size:,} bytes of its shape {shape}")
            data[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
            at += len(piece)
    if at != size:
        raise ValueError(f"{name} must have {size:,} bytes for its shape {shape}, got {at:,}")
    # A flag of another byte than 0 and 1 has numpy count wrongly, and write beyond an array.
    found = data != 0 if dtype == np.bool_ else data.view(dtype)
    return found.reshape(shape)


def _form(file: IO[bytes], name: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return type and shape of an array; its header is as numpy writes it for plain arrays."""
    if file.read(8) != b"\x93NUMPY\x01\x00":
        raise ValueError(f"{name} has another format")
    header = _HEADER.fullmatch(file.read(int.from_bytes(file.read(2), "little")))
    if header is None:
        raise ValueError(f"{name} is no plain array, with rows one after another")
    lengths = [text for text in header[2].replace(b" ", b"").split(b",") if text]
    return plain.dtype_of(header[1].decode()), tuple(map(int, lengths))


def _make_room(archive: zipfile.ZipFile, packed: int, content: int) -> None:
    """Add bytes that mean nothing to a file that would be too small for its content to be read."""
    # Twice what is needed, for the headers and all that a reader counts otherwise.
    lacking = 2 * content // _MOST_TIMES - packed if content > _FLOOR // 2 else 0
    if lacking <= 0:
        return
    with archive.open(zipfile.ZipInfo(_ROOM), "w", force_zip64=True) as part:
        for at in range(0, lacking, _PIECE):
            part.write(bytes(min(_PIECE, lacking - at)))
