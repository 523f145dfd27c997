"""What a worker serves if not an env: any object with the methods that it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


# A module of its own: the worker program runs as `__main__`, where a class of its own
# would be another one than that of what it receives.
@dataclass(frozen=True)
class Service:
    """Constructor of an object that a worker is to serve as it is.

    Attributes:
        make: returns an object with `description`, `call` and `close`, as `WorkerEnv` has
            them, and `open_block` if it is given memory.
    """

    make: Callable[[], Any]

    def __call__(self) -> Any:
        """Make it."""
        return self.make()
