"""Compiled headers and checksums for batches of state rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.native.compiled import built_once, compiled
from plangym_ext.states.envelope import HEADER, Envelope

_CHECKSUM_WORD = 4
_32 = np.uint64(32)


@compiled
def sum_row(row: Any, weights: Any) -> Any:
    """Return the checksum of one row, as `states.envelope` defines it."""
    total = np.uint64(0)
    for word in range(row.size):
        total += (row[word] ^ (row[word] >> _32)) * weights[word]
    return total


@compiled
def seal_rows(rows: Any, header: Any, weights: Any) -> None:
    """Write header and checksum of `[B, S / 8]` uint64 rows."""
    header_sum = sum_row(header, weights[: header.size])
    tail = weights[header.size :]
    for i in range(rows.shape[0]):
        # The header is not read to be checked: reading bytes that were just written stalls.
        total = header_sum + sum_row(rows[i, header.size :], tail)
        for word in range(header.size):
            rows[i, word] = header[word]
        rows[i, _CHECKSUM_WORD] = total


def are_sealed(rows: Any, header: Any, weights: Any) -> bool:
    """Return whether all `[B, S / 8]` uint64 rows are whole ones with this very header.

    False says only that something is unusual: `Envelope.check` finds out what.
    """
    header_sum = sum_row(header, weights[: header.size])
    tail = weights[header.size :]
    for i in range(rows.shape[0]):
        for word in range(header.size):
            if rows[i, word] != header[word] and word != _CHECKSUM_WORD:
                return False
        if rows[i, _CHECKSUM_WORD] != header_sum + sum_row(rows[i, header.size :], tail):
            return False
    return True


def header_of(envelope: Envelope, length: int) -> np.ndarray:
    """Return `[6]` uint64: the header of states whose payload takes `length` bytes, checksum 0."""
    row = np.zeros((1, envelope.width), np.uint8)
    envelope.seal(row, length)
    header: np.ndarray = row[0, :HEADER].view("<u8").copy()
    # The checksum's word, which no sum counts.
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
            rows: `[B, S]` uint8, contiguous; the bytes after the payload must be zero.
        """
        self._seal(rows.view(np.uint64), self.header, self._weights)
