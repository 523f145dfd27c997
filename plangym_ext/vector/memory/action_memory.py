"""ActionMemory: the rows' actions in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.vector.nested_values import is_nested

#: Bytes of the widest number. A slot has as many for each number of an action.
_WIDEST = 8
_LINE = 64
#: What `put` says of actions that are nested; of others it says the type of their numbers.
_NESTED = b"*"

Places = slice | Sequence[int]


class ActionMemory:
    """One action of each of n rows.

    Args:
        layout: of the actions.
        num_rows: n.
        memory: uint8 array of at least `nbytes(layout, n)`.
    """

    def __init__(self, layout: SpaceLayout, num_rows: int, memory: np.ndarray) -> None:
        self._layout = layout
        self._shape = (num_rows, *layout.leaves[0].shape) if layout.leaves else (num_rows,)
        self._memory = memory
        #: The same memory as arrays of numbers of each type.
        self._views: dict[bytes, np.ndarray] = {}
        self._leaves: list[np.ndarray] = []
        start = 0
        for leaf in () if layout.is_flat else layout.leaves:
            shape = (num_rows, *leaf.shape)
            self._leaves.append(np.ndarray(shape, leaf.dtype, memory, start))
            start += _size(shape)

    @staticmethod
    def nbytes(layout: SpaceLayout, num_rows: int) -> int:
        """Return the bytes of n actions."""
        return max(_LINE, sum(_size((num_rows, *leaf.shape)) for leaf in layout.leaves))

    def put(self, places: Places, actions: Sequence[Any] | np.ndarray) -> bytes:
        """Keep the actions of some rows.

        Returns:
            One byte that `take` reads them by; empty if they do not fit, and nothing is kept
            that `take` could return as it came.
        """
        if isinstance(actions, np.ndarray):
            return self._put_array(places, actions)
        if self._layout.is_flat or not self._layout.leaves:
            return b""
        numbers = range(places.start, places.stop) if isinstance(places, slice) else places
        for row, action in zip(numbers, actions, strict=True):
            if not is_nested(self._layout.space, action, _is_leaf):
                return b""
            for array, part in zip(self._leaves, self._layout.split(action), strict=True):
                array[row] = part
        return _NESTED

    def _put_array(self, places: Places, actions: np.ndarray) -> bytes:
        dtype = actions.dtype
        code = dtype.char.encode()
        if dtype.kind not in "biuf" or dtype.itemsize > _WIDEST or not dtype.isnative:
            return b""
        if not self._layout.is_flat or actions.shape[1:] != self._shape[1:]:
            return b""
        view = self._views.get(code)
        if view is None:
            view = self._view(code)
        view[places] = actions
        return code

    def take(self, places: Places, code: bytes) -> Sequence[Any] | np.ndarray:
        """Return the actions of some rows, fresh, in the types in which they were given."""
        if code != _NESTED:
            found = self._view(code)[places]
            # An index list has made a copy already.
            return found.copy() if isinstance(places, slice) else found
        numbers = range(places.start, places.stop) if isinstance(places, slice) else places
        join = self._layout.join
        return [join(tuple(leaf[row].copy() for leaf in self._leaves)) for row in numbers]

    def _view(self, code: bytes) -> np.ndarray:
        if code not in self._views:
            self._views[code] = np.ndarray(self._shape, np.dtype(code.decode()), self._memory)
        return self._views[code]


def _size(shape: tuple[int, ...]) -> int:
    # For the widest type, whatever the space's: actions are kept in that in which they came.
    return -(-int(np.prod(shape)) * _WIDEST // _LINE) * _LINE


def _is_leaf(space: spaces.Space[Any], action: Any) -> bool:
    # A number of an array is read again as a scalar of its type.
    kind = np.ndarray if space.shape else np.dtype(space.dtype).type
    return type(action) is kind and action.shape == space.shape and action.dtype == space.dtype
