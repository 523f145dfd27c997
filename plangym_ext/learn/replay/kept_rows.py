"""KeptRows: growing queue of rare replay rows, such as final observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

Serials = npt.NDArray[np.int64]


@final
class KeptRows:
    """Rows by serial number, in the order in which they came; the oldest are dropped first.

    Args:
        parts: shape and dtype of every array of a row.
    """

    def __init__(self, parts: Sequence[tuple[tuple[int, ...], Any]]) -> None:
        self._parts = list(parts)
        self._arrays = [np.zeros((1, *shape), dtype) for shape, dtype in self._parts]
        self._dropped = self._added = 0

    @property
    def arrays(self) -> list[npt.NDArray[Any]]:
        """The memory: row `serial` of W is in row serial % W, until something is added."""
        return self._arrays

    def __len__(self) -> int:
        """Return the rows that are there."""
        return self._added - self._dropped

    def add(self, rows: Sequence[npt.NDArray[Any]]) -> Serials:
        """Copy N rows in, arrays `[N, ...]`; return their serial numbers `[N]`."""
        serials = self._added + np.arange(len(rows[0]))
        needed = len(self) + len(serials)
        if needed > len(self._arrays[0]):
            self._grow(needed)
        for array, new in zip(self._arrays, rows, strict=True):
            # Serials never repeat and memory does: the oldest that is there is less than W before
            # the newest.
            array[serials % len(array)] = new
        self._added += len(serials)
        return serials

    def drop_before(self, serial: int) -> None:
        """Drop all rows with smaller serial numbers."""
        self._dropped = max(self._dropped, serial)

    def take(self, serials: Serials) -> list[npt.NDArray[Any]]:
        """Return copies of rows that are there, arrays `[N, ...]`."""
        return [array[serials % len(array)] for array in self._arrays]

    def _grow(self, needed: int) -> None:
        """Make room for twice as many as are needed."""
        kept = np.arange(self._dropped, self._added)
        rows = self.take(kept)
        # Twice as many, so that a growing number of rows is copied a few times only.
        self._arrays = [np.zeros((2 * needed, *shape), dtype) for shape, dtype in self._parts]
        for array, old in zip(self._arrays, rows, strict=True):
            array[kept % len(array)] = old

    def state_dict(self) -> dict[str, Any]:
        """Return copies of the rows, and how many came before them."""
        rows = self.take(np.arange(self._dropped, self._added))
        return {"rows": dict(enumerate(rows)), "dropped": self._dropped}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace the content by a saved one."""
        self._dropped = self._added = int(state["dropped"])
        self.add([np.asarray(state["rows"][number]) for number in range(len(self._parts))])
