"""Headers and checksums of whole batches of states, written by compiled code."""

from __future__ import annotations

import numpy as np

from plangym_ext.core.envelope import HEADER, Envelope
from plangym_ext.native.compiled import built_once
from plangym_ext.native.row_kernel import seal_rows


def header_of(envelope: Envelope, length: int) -> np.ndarray:
    """`[6]` uint64: the header of states whose payload takes `length` bytes, checksum 0."""
    row = np.zeros((1, envelope.width), np.uint8)
    envelope.seal(row, length)
    header: np.ndarray = row[0, :HEADER].view("<u8").copy()
    header[4] = 0
    return header


class RowSeals:
    """Seals the states of one env, whose payloads all take the same number of bytes.

    Args:
        envelope: of the states.
        length: bytes of a payload.

    Attributes:
        header: as `header_of` returns it.
        seconds: that compiling or loading took; 0 if this process had done it before.
    """

    def __init__(self, envelope: Envelope, length: int) -> None:
        self.header, self._weights = header_of(envelope, length), envelope.weights
        words = np.zeros((2, envelope.width // 8), np.uint64)
        example = words, self.header, self._weights
        self._seal, self.seconds = built_once("seals", seal_rows, example)

    def seal(self, rows: np.ndarray) -> None:
        """Write header and checksum around payloads already in place.

        Args:
            rows: `[B, S]` uint8, contiguous; the bytes behind the payload must be zero.
        """
        self._seal(rows.view(np.uint64), self.header, self._weights)
