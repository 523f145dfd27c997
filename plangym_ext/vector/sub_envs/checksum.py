"""ResultChecksum: running checksum of results, compared when calls are replayed.

A process that died is replaced, and what its rows did since their states were captured is
played again. That it is the same is not taken on trust: both times leave a checksum.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from plangym_ext.errors import NotExact
from plangym_ext.states import plain

#: Bytes of a row's observation that are all looked at. Of more, as many pieces as are
#: spread evenly over it, at other places in each call: a checksum of whole pictures would
#: take a tenth of the step that made them.
_WHOLE = 4096
_PIECES = 64
_PIECE = _WHOLE // _PIECES


class ResultChecksum:
    """Checksum of rewards, endings and observations since `restart`.

    Attributes:
        value: the checksum; equal for equal calls of equal rows.
    """

    def __init__(self) -> None:
        self.value = 0
        self._calls = 0

    def restart(self) -> None:
        """Forget everything: states were captured or restored."""
        self.value = self._calls = 0

    def add(self, results: Iterable[np.ndarray], shown: Iterable[np.ndarray]) -> None:
        """Add a call.

        Args:
            results: contiguous arrays of any kind, such as rewards.
            shown: contiguous `[k, *obs]` arrays, one for each leaf of the observations.
        """
        value = self.value
        part: Any  # the type of arrays does not say that they are buffers
        for part in results:
            value = zlib.crc32(part, value)
        for part in shown:
            if part.nbytes > _WHOLE * len(part):
                part = _pieces(part, self._calls)
            value = zlib.crc32(part, value)
        self.value, self._calls = value, self._calls + 1

    def add_values(self, values: Iterable[Any]) -> None:
        """Add observations without an array form, if they are plain data."""
        for value in values:
            with contextlib.suppress(plain.NotPlain):
                self.value = zlib.crc32(plain.encode(value), self.value)


def not_exact(rows: range, num_calls: int) -> NotExact:
    """Return the error for sub-envs with other results in a replay."""
    return NotExact(
        f"sub-envs {rows.start} to {rows[-1]} are not where they were: a worker was replaced or a "
        f"call undone, {num_calls} calls since their states were captured were played again, and "
        "rewards, endings or observations were not those of the first time. So the env is not "
        "exact: something decides about it that its state does not hold, such as global random "
        "numbers, the time or a file. Draw from self.np_random, or use state='off'. Reset to go on."
    )


def _pieces(leaf: np.ndarray, turn: int) -> bytes:
    """Return bytes of a `[k, ...]` array of large rows that are added in the call number `turn`."""
    rows = leaf.reshape(len(leaf), -1).view(np.uint8)
    length = rows.shape[1] // _PIECES
    offset = turn * _PIECE % (length - _PIECE + 1)
    pieces = rows[:, : length * _PIECES].reshape(len(rows), _PIECES, length)
    return pieces[:, :, offset : offset + _PIECE].tobytes()
