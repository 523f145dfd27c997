"""Compiled checks of caller inputs (intact states, actions in range), and checksums of states.

The checks only accept: `core` checks doubtful inputs again, accepts those that are only unusual,
and refuses the rest with the messages of every backend.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.arrays.spaces import Leaf, SpaceLayout
from plangym_ext.native.compiled import built_once, compiled
from plangym_ext.states.envelope import HEADER, Envelope


@compiled
def are_within(values: Any, low: Any, high: Any) -> bool:
    """Return whether all values lie between bounds; NaN does not.

    Args:
        values: `[N * size]`, rows one after another.
        low: `[size]`, of the same type.
        high: likewise.
    """
    bad = 0  # without a way out, so that it runs on whole vectors
    if low.size == 1:
        least, most = low[0], high[0]
        for value in values:
            bad += not (least <= value <= most)
        return bad == 0
    for row in range(values.size // low.size):
        for k in range(low.size):
            bad += not (low[k] <= values[row * low.size + k] <= high[k])
    return bad == 0


class RowChecks:
    """Checks for one env whose states all have the same header.

    Args:
        action: layout of the action space, a single array.
        envelope: of its states.
        header: as `header_of` returns it.

    Attributes:
        seconds: that compiling or loading took; 0 if this process had done it before.
    """

    def __init__(self, action: SpaceLayout, envelope: Envelope, header: np.ndarray) -> None:
        (leaf,) = action.leaves
        self._action = leaf.dtype, leaf.shape
        self._low, self._high = bounds_of(leaf)
        self._width, self._header, self._weights = envelope.width, header, envelope.weights
        words = np.zeros((2, self._width // 8), np.uint64)
        states = words, self._header, self._weights
        self._are_sealed, first = built_once("checksums", are_sealed, states)
        actions = self._low, self._low, self._high
        self._are_within, second = built_once("bounds", are_within, actions)
        self.seconds = first + second

    def whole(self, states: Any) -> bool:
        """Return whether these are valid `[B, S]` uint8 states of this env, of the usual form."""
        if (
            type(states) is not np.ndarray
            or states.dtype != np.uint8
            or states.ndim != 2
            or states.shape[1] != self._width
            or not is_plain(states)
        ):
            return False
        return bool(self._are_sealed(states.view(np.uint64), self._header, self._weights))

    def in_range(self, actions: Any, batch_shape: tuple[int, ...]) -> bool:
        """Return whether these are actions of the space, in its own dtype; shapes as for `core`."""
        dtype, shape = self._action
        if type(actions) is not np.ndarray or actions.dtype != dtype or not is_plain(actions):
            return False
        ndim = len(batch_shape)
        found = actions.shape
        if found[ndim:] != shape or len(found) != ndim + len(shape):
            return False
        if batch_shape[0] not in (-1, found[0]):
            return False
        # One number a row, as the usual action: a view of it costs as much as this look at it.
        flat = actions if len(found) == 1 else actions.reshape(-1)
        return bool(self._are_within(flat, self._low, self._high))


def bounds_of(leaf: Leaf) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of each number of a leaf, `[size]` each in its dtype."""
    low, high = (
        np.broadcast_to(bound, leaf.shape).astype(leaf.dtype).reshape(-1) for bound in leaf.bounds
    )
    return low, high


def is_plain(array: np.ndarray) -> bool:
    """Return whether an array lies in memory as compiled code expects it."""
    # Contiguous, aligned and writeable: a read-only array is of another type to numba, for which
    # nothing was compiled.
    return bool(array.flags.carray)


# Compiled headers and checksums for batches of state rows ---------------------


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
