"""StatePart: interface of every capture method, for one layer of an env."""

from __future__ import annotations

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

        Asked for an env whose class derives from one that the codec was written for:
        what is not covered is captured beside it. The generator always is.
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


def put_block(buffer: memoryview, offset: int, end: int, data: bytes) -> int:
    """Write `data` after its 4-byte length; return the offset after it.

    Raises:
        StateTooWide: it does not fit.
    """
    stop = offset + 4 + len(data)
    if stop > end:
        raise StateTooWide(stop - end)
    buffer[offset : offset + 4] = len(data).to_bytes(4, "little")
    buffer[offset + 4 : stop] = data
    return stop


def get_block(buffer: memoryview, offset: int) -> tuple[bytes, int]:
    """Return the block that `put_block` wrote at `offset`, and the offset after it."""
    start = offset + 4
    stop = start + int.from_bytes(buffer[offset:start], "little")
    return bytes(buffer[start:stop]), stop
