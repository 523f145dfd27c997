"""SharedWeights: agent weights in shared memory, one writer, many readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import Array
from plangym_ext.arrays.closing import Closing
from plangym_ext.errors import WrongKind
from plangym_ext.learn.sampling.tree import array_bytes

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
