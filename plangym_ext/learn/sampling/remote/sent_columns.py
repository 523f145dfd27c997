"""Fragments and weights of a remote actor, sent without shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import Array, ArrayDict
from plangym_ext.arrays.closing import Closing
from plangym_ext.errors import WrongKind
from plangym_ext.learn.sampling.tree import array_bytes

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


# Bytes of a cache line, at which every array begins.
_LINE = 64


class _Field(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    start: int


class SharedWeights(Closing):
    """One block of shared memory for what `Agent.state_dict` returns; a pickle refers to it.

    Args:
        state: arrays and numbers by name: what the block is laid out for.

    Raises:
        WrongKind: the state holds something else.
    """

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._fields: dict[str, _Field] = {}
        start = 0
        for name, value in state.items():
            array = np.asarray(value)
            if array.dtype.kind not in "biuf":
                raise WrongKind(
                    f"WorkerSampler: the agent's state_dict must hold arrays of numbers by name, "
                    f"which travel in shared memory; {name!r} is a {type(value).__name__}."
                )
            self._fields[name] = _Field(array.shape, array.dtype, start)
            start += -(-array.nbytes // _LINE) * _LINE
        self._memory = Array((max(1, start),), np.uint8, storage="shared")

    def _views(self) -> dict[str, npt.NDArray[Any]]:
        memory = self._memory.to_ndarray(copy=False)
        return {
            name: np.ndarray(field.shape, field.dtype, memory.data, field.start)
            for name, field in self._fields.items()
        }

    @property
    def nbytes(self) -> int:
        """Bytes of the block."""
        return array_bytes(self._memory)

    def write(self, state: Mapping[str, Any]) -> None:
        """Put weights there: of the names, shapes and dtypes that the block is laid out for."""
        # Without a lock: workers copy it as a fragment begins, samplers write between fragments.
        for name, view in self._views().items():
            view[...] = state[name]

    def read(self) -> dict[str, npt.NDArray[Any]]:
        """Return the weights by name, fresh."""
        return {name: view.copy() for name, view in self._views().items()}

    def close(self) -> None:
        """Release the memory; safe to call twice."""
        self._memory.close()
