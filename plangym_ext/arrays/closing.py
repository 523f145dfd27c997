"""Closing: base class of resources with `close` and `with` support."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """Abstract base of resources with `close`, which may head a `with` block."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Release the resource; safe to call twice."""

    def __enter__(self) -> Self:
        """Return the very thing; it is closed when the block ends."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
