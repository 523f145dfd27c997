"""Array types (dtype, memory order, shape) in the tables of object graphs."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.states import plain

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
    """Return the number of an array's type: 1 if columns come first, and 2 if it is read-only."""
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
