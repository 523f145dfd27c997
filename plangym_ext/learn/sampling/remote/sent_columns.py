"""SentColumns: fragment data of a remote actor, sent without shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import ArrayDict

Ndarray = npt.NDArray[Any]
#: Arrays `[B, ...]`; all others are `[T, B, ...]`.
_OF_ROWS = frozenset({"carry", "next_carry", "version"})
_ENDINGS = ("terminated", "truncated")
#: Written, and to be read, only where an episode ended: the rest of it does not travel.
_AT_ENDS = "final_obs"


class SentColumns:
    """The memory of some rows over a fragment, array by array, as views.

    Args:
        tree: of `build_sample_tree`.
        rows: columns of it; None for all.
    """

    def __init__(self, tree: ArrayDict, rows: range | None = None) -> None:
        self._rows = slice(None) if rows is None else slice(rows.start, rows.stop)
        self._everywhere: list[Ndarray] = []
        self._at_ends: list[Ndarray] = []
        for path, leaf in tree.leaves():
            name = path.partition(".")[0]
            found = self._at_ends if name == _AT_ENDS else self._everywhere
            found.append(self._view(leaf, over_time=name not in _OF_ROWS))
        self._endings = [self._view(tree[name], over_time=True) for name in _ENDINGS]

    def _view(self, leaf: Any, *, over_time: bool) -> Ndarray:
        # Row T of what has one is in the padding.
        rows = leaf[0 : leaf.shape[0] + min(1, leaf.padding)] if over_time else leaf
        found: Ndarray = rows.to_ndarray(copy=False)
        return found[:, self._rows] if over_time else found[self._rows]

    def _ended(self) -> Ndarray:
        """Return `[T, b]` bool, which steps ended an episode."""
        terminated, truncated = self._endings
        found: Ndarray = terminated | truncated
        return found

    def taken(self) -> list[Ndarray]:
        """Return the fragment as fresh arrays."""
        ended = self._ended()
        return [
            *(np.array(view, order="C") for view in self._everywhere),
            *(view[ended] for view in self._at_ends),
        ]

    def write(self, arrays: list[Ndarray]) -> None:
        """Write what `taken` has returned, of as many rows of such a tree."""
        count = len(self._everywhere)
        for view, array in zip(self._everywhere, arrays[:count], strict=True):
            view[...] = array
        ended = self._ended()  # as has just been written
        for view, array in zip(self._at_ends, arrays[count:], strict=True):
            view[ended] = array
