"""DataType: disassembly and construction rules for one value type of object graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Parts = tuple[Any, ...]


class DataType(NamedTuple):
    """Rules for one type: disassembly into parts and construction from them.

    Attributes:
        name: what graphs call it.
        parts: from a value to what it is made of; raises `NotPlain` if that is not all.
        made: the inverse; raises one of `plain.MALFORMED` for what `parts` did not return.
        in_place: whether values change in place, so that it matters who else holds one.
        empty: makes what `made` is given first, of types whose values may hold themselves.
        memory: the address of what a value is a view of; two of one memory are no plain data.
        holds_any: whether parts may be whatever a graph holds. Of all others they are plain, as
            what makes a value of them could call the methods of anything else.
    """

    name: str
    parts: Callable[[Any], Parts]
    made: Callable[..., Any]
    in_place: bool = False
    empty: Callable[[], Any] | None = None
    memory: Callable[[Any], int] | None = None
    holds_any: bool = False
