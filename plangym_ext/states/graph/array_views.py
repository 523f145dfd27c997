"""Array views in object graphs: the owner of shared memory, and the place of each view.

An env that keeps a grid and a row of it changes the grid through the row. Written one by one they
would come back as two arrays, and a change of one would not change the other.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.states import plain
from plangym_ext.states.plain import NotPlain

#: What numpy's `as_strided` and `sliding_window_view` have between a view and its array.
_STRIDED: Any = type(np.lib.stride_tricks.as_strided(np.zeros(2), (1,)).base)
#: Of a view: bytes from the beginning of the memory to its first element, shape, strides in bytes.
Place = tuple[int, tuple[int, ...], tuple[int, ...]]


class Ties:
    """Finds arrays that share memory while attributes are written.

    Two views may come before their owner, so attributes are written in two rounds: the first
    round's `found` is the second round's `known`.

    Args:
        known: owners, by `id`, whose views are written as views.

    Attributes:
        found: owners, by `id`, of which more than one array was met.
    """

    def __init__(self, known: Iterable[int] = ()) -> None:
        self.found: set[int] = set()
        self._known = frozenset(known)
        self._met: set[int] = set()

    def owner(self, array: np.ndarray) -> np.ndarray | None:
        """Return the owner whose view an array is written as; None if it is written itself."""
        key = id(array)
        if array.base is not None:  # most arrays are their own, and a graph may hold many
            owner = owner_of(array)
            key = id(owner)
            if owner is not array and key in self._known:
                return owner
        if key in self._met:
            self.found.add(key)
        self._met.add(key)
        return None


def owner_of(array: np.ndarray) -> np.ndarray:
    """Return the owner of an array's memory: itself, unless it is a view."""
    base = _base(array)
    # Not a subclass, such as a file in memory: its content is no part of a state.
    while type(base) is np.ndarray:
        array, base = base, _base(base)
    return array


def _base(array: np.ndarray) -> Any:
    base: Any = array.base
    return base.base if isinstance(base, _STRIDED) else base


def place_of(view: np.ndarray, owner: np.ndarray) -> Place:
    """Return a view's position in the memory of its owner.

    Raises:
        NotPlain: the owner is contiguous neither in C nor in Fortran order.
    """
    if not (owner.flags.c_contiguous or owner.flags.f_contiguous):
        raise NotPlain(f"a view of an array of {owner.shape} whose bytes are in no plain order")
    begin = owner.__array_interface__["data"][0]
    return view.__array_interface__["data"][0] - begin, view.shape, view.strides


def view_at(owner: np.ndarray, dtype: np.dtype, place: Place) -> np.ndarray:
    """Return the view of an array that lies at a place.

    Raises:
        TypeError: the owner is no array.
        ValueError: the place is not within its memory.
    """
    if type(owner) is not np.ndarray:
        raise TypeError(f"a view of a {type(owner).__qualname__}")
    offset, shape, strides = place
    # Only rows first are taken as one piece of memory; it is the same memory.
    memory = owner if owner.flags.c_contiguous else owner.T
    frozen = owner.flags.owndata and not owner.flags.writeable
    if frozen:  # as views that are older than that can be written to
        owner.flags.writeable = True
        memory = owner if owner.flags.c_contiguous else owner.T
    found = np.ndarray(shape, dtype, memory, offset, strides)
    if frozen:
        owner.flags.writeable = False
    return found


# Array types (dtype -----------------------------------------------------------


_OBJECTS = "O"
_READ_ONLY = 2


class ArrayType(NamedTuple):
    """A type of arrays, as it is read.

    Attributes:
        dtype: of the elements.
        order: of the axes in memory, "C" or "F".
        shape: of the array.
        size: bytes of all elements; of a view, those before its first.
        strides: of a view, in bytes.
        writeable: whether elements may be set.
    """

    dtype: np.dtype[Any]
    order: Any = "C"
    shape: tuple[int, ...] = ()
    size: int = 0
    strides: tuple[int, ...] = ()
    writeable: bool = True

    def owned(self, flat: np.ndarray) -> np.ndarray:
        """Return a fresh array of `[elements]`; the bytes of a graph cannot be written to."""
        found = flat.reshape(self.shape, order=self.order).copy(self.order)
        if not self.writeable:
            found.flags.writeable = False
        return found


@functools.lru_cache(256)
def is_record(dtype: np.dtype[Any]) -> bool:
    """Return whether elements are records of plain fields, without gaps."""
    if dtype.names is None or dtype.hasobject:
        return False
    fields = [dtype[name] for name in dtype.names]
    bases = [field.base for field in fields]
    return all(plain.is_plain(base) or is_record(base) for base in bases) and (
        np.dtype(list(zip(dtype.names, fields, strict=True))) == dtype
    )


def dtype_text(dtype: np.dtype[Any]) -> Any:
    """Return a dtype as JSON has it."""
    if dtype.hasobject:
        return _OBJECTS
    if dtype.names is None:
        return dtype.str
    return [[name, dtype_text(dtype[name].base), dtype[name].shape] for name in dtype.names]


def order_of(array: np.ndarray) -> int:
    """Return flags of an array: 1 if only Fortran order fits, plus 2 if it is read-only."""
    flags = array.flags
    return flags.fnc + _READ_ONLY * (not flags.writeable)


def array_type(row: Any) -> ArrayType:
    """Return the type of a table entry.

    Raises:
        ValueError, TypeError: it is none.
    """
    text, *rest = row
    dtype = _dtype(text)
    if not rest:
        return ArrayType(dtype)
    number, shape, *strides = rest
    for numbers in ([number], shape, *strides):
        if not all(type(one) is int for one in numbers):
            raise TypeError(f"{numbers!r} in a type of arrays")
    if strides:
        return ArrayType(dtype, "C", tuple(shape), number, tuple(strides[0]))
    if any(length < 0 for length in shape):
        raise ValueError(f"an array of {shape}")
    # As Python ints, which do not wrap: a damaged shape must not come to a small size.
    size = math.prod(shape) * (1 if dtype.hasobject else dtype.itemsize)
    order, writeable = "F" if number & 1 else "C", not number & _READ_ONLY
    return ArrayType(dtype, order, tuple(shape), size, (), writeable)


def _dtype(text: Any) -> np.dtype[Any]:
    if text == _OBJECTS:
        return np.dtype(object)
    if isinstance(text, str):
        return plain.dtype_of(text)
    fields = [(str(name), _dtype(field), tuple(map(int, shape))) for name, field, shape in text]
    made = np.dtype(
        [(name, field, shape) if shape else (name, field) for name, field, shape in fields]
    )
    if made.hasobject:
        raise ValueError("records of objects")
    return made
