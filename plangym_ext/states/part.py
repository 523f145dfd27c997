"""StatePart: interface of every capture method, for one layer of an env."""

from __future__ import annotations

import functools
import types
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from plangym_ext.errors import PlangymExtError


class StateTooWide(PlangymExtError):
    """A state needs `excess` bytes more than a row has; the env widens its rows."""

    def __init__(self, excess: int) -> None:
        super().__init__(excess)
        self.excess = excess


class StatePart(ABC):
    """Captures and restores the state of one layer of an env.

    Attributes:
        width: bytes that a capture is expected to take at most. A part whose states
            vary in size may need more and raises `StateTooWide` then.
        method: one word for reports: how the layer is captured.
        exact: whether a restored future equals the real one bit for bit.
        canonical: whether equal states are equal bytes; it may cease to be so.
        fixes_fields: whether the numbers among the layer's attributes that it does not cover are
            never changed by the layer itself; see `FixedFields`.
        may_refuse: whether `restore` may refuse bytes that are whole, when other parts are set.
    """

    width: int
    method: str = "codec"
    exact: bool = True
    canonical: bool = True
    fixes_fields: bool = False
    may_refuse: bool = False

    @abstractmethod
    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        """Write the layer's state to `buffer[offset:end]`.

        Returns:
            The offset after the last byte written.

        Raises:
            StateTooWide: there is not enough room.
        """

    @abstractmethod
    def restore(self, buffer: memoryview, offset: int) -> int:
        """Read what `capture` wrote at `offset`; return the offset after it."""

    def reseed(self, seed: int) -> None:  # noqa: B027 - most layers draw from `np_random`
        """Seed the layer's random generators, `np_random` apart, with a number of 64 bits."""

    def covers(self, name: str, value: Any) -> bool:  # noqa: ARG002 - for overrides
        """Return whether the layer's attribute `name`, now `value`, needs no capture of its own.

        Called for an env of a subclass of the codec's class: what is not covered is captured beside
        it. The generator always is.
        """
        return name == "_np_random"

    def learned(self, before: Mapping[str, bytes]) -> Any:  # noqa: ARG002 - for overrides
        """Return the data that the part recorded when it was made, as plain data.

        Args:
            before: plain fields that the simulator had before its first reset.
        """
        return None

    def adopt(  # noqa: B027 - most parts learn nothing
        self, learned: Any, before: Mapping[str, bytes]
    ) -> None:
        """Take over `learned` data of an equal env, so that both write the same bytes.

        Args:
            learned: what that part returned from `learned`.
            before: plain fields that this part's simulator had before its first reset.
        """

    def identity(self) -> dict[str, Any]:
        """Return further data that a state of this layer depends on, beside id and arguments."""
        return {}


def put_block(buffer: memoryview, offset: int, end: int, *data: bytes | memoryview) -> int:
    """Write `data`, one after the other, after their 4-byte length; return the offset after it.

    Raises:
        StateTooWide: it does not fit.
    """
    size = sum(map(len, data))
    stop = offset + 4 + size
    if stop > end:
        raise StateTooWide(stop - end)
    buffer[offset:stop] = b"".join((size.to_bytes(4, "little"), *data))
    return stop


def block_at(buffer: memoryview, offset: int) -> tuple[int, int]:
    """Return where what `put_block` wrote at `offset` begins, and the offset after it."""
    start = offset + 4
    return start, start + int.from_bytes(buffer[offset:start], "little")


def get_block(buffer: memoryview, offset: int) -> tuple[bytes, int]:
    """Return what `put_block` wrote at `offset`, and the offset after it."""
    start, stop = block_at(buffer, offset)
    return bytes(buffer[start:stop]), stop


# Attribute names forbidden in restored data -----------------------------------
# Libraries ask any object for attributes of certain names and believe what they find: numpy
# takes `__array_interface__` of an instance for an address, ctypes `_as_parameter_`. And what
# an instance has under the name of a method is called in the method's place. So there is
# one question for all places where data is written into objects: `misplaced`.


#: Beside all `__x__`: what ctypes, SWIG (in C, again and again if it refers to itself) and numba
#: look up on instances.
_NAMES = frozenset({"_as_parameter_", "this", "_numba_type_"})

_MARKS = (b'"__', *(f'"{name}"'.encode() for name in sorted(_NAMES)))


def is_protocol(name: str) -> bool:
    """Return whether libraries may look up a name on any object."""
    return (name[:2] == "__" and name[-2:] == "__") or name in _NAMES


def are_written(table: bytes) -> bool:
    """Return whether the table of a graph written here may hold such a name."""
    # A text may be no name at all, which costs a digest.
    return any(mark in table for mark in _MARKS)


@functools.lru_cache(4096)
def misplaced(cls: Any, attributes: tuple[str, ...]) -> str:
    """Return which of the names no instance of a class may hold data under, and why.

    Returns:
        "name, reason" of the first one; "" if there is none.
    """
    for name in attributes:
        above = next((above for above in cls.__mro__ if name in vars(above)), None)
        # An attribute of an instance is found before its class's method, and would be called.
        if above is not None and _acts(vars(above)[name]):
            return f"{name}, in the place of a method"
        if is_protocol(name):
            return f"{name}, a name that libraries look up on any object"
    return ""


def _acts(value: Any) -> bool:
    """Return whether something that a class holds is called, or decides what its name means."""
    # A cached property keeps what it has found under its own name, in the instance.
    # Data for a slot goes through its descriptor, which is C.
    if isinstance(value, functools.cached_property | types.MemberDescriptorType):
        return False
    return callable(value) or hasattr(type(value), "__get__") or hasattr(type(value), "__set__")
