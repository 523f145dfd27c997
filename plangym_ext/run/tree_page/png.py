"""PNG encoder for RGB frames, without an imaging library."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.core.drawing import rgb_frame

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_RGB, _INDEXED = 2, 3


def png(frame: npt.NDArray[np.uint8]) -> bytes:
    """Return an `[H, W, 3]` uint8 frame as PNG, with a palette if it has at most 256 colours.

    Source: W3C, "Portable Network Graphics Specification", third edition.
    """
    height, width, _ = frame.shape
    # One number for each colour, so that equal ones are found along one axis.
    packed = frame.astype(np.uint32) @ np.array([65536, 256, 1], np.uint32)
    colours, index = np.unique(packed, return_inverse=True)
    if len(colours) <= 256:
        rows = index.reshape(height, width).astype(np.uint8)
        palette = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1)
        kind, extra = _INDEXED, _chunk(b"PLTE", palette.astype(np.uint8).tobytes())
        # Unfiltered: indices of neighbours have nothing to do with each other.
        filtered = np.pad(rows, ((0, 0), (1, 0)))
    else:
        rows, kind, extra = frame.reshape(height, -1), _RGB, b""
        # Filter 2, "up": differences to the row above, which wrap in uint8 as the format has it.
        above = np.vstack([np.zeros_like(rows[:1]), rows[:-1]])
        filtered = np.pad(rows - above, ((0, 0), (1, 0)), constant_values=2)
    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    return b"".join(
        [
            _SIGNATURE,
            _chunk(b"IHDR", header),
            extra,
            _chunk(b"IDAT", zlib.compress(filtered.tobytes(), 9)),
            _chunk(b"IEND", b""),
        ]
    )


def _chunk(name: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)


def reduced(frame: Any, largest: int) -> npt.NDArray[np.uint8]:
    """Return a frame as `[h, w, 3]` uint8, with sides of at most `largest`, by averaging.

    Args:
        frame: as `rgb_frame` takes it.
        largest: pixels.

    Raises:
        CannotDraw: it is no picture.
    """
    found = rgb_frame(frame, "page")
    factor = -(-max(found.shape[:2]) // largest)
    if factor <= 1:
        return found
    height, width = found.shape[0] // factor, found.shape[1] // factor
    # What does not fill a block, at the right and below, is left out.
    cut = found[: height * factor, : width * factor]
    blocks = cut.reshape(height, factor, width, factor, 3)
    return np.rint(blocks.mean(axis=(1, 3))).astype(np.uint8)
