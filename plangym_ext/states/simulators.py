"""Registry of simulator classes, and the interface that captures their memory.

The table holds names, as that of the families does: `envs` fills it, and what captures a
simulator is imported when one is first met.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from typing import Any

from plangym_ext.states.families import all_families, load_named
from plangym_ext.states.outside import module_of

#: "module:name" of a `SimulatorMemory` by module and name of the class that it captures.
_memories: dict[tuple[str, str], str] = {}


class SimulatorMemory(ABC):
    """State of one simulator object as bytes.

    Args:
        simulator: the object, as a constructor made it.
        others: all objects of the env, as they are at any time; what belongs to it is among them.

    Attributes:
        rank: those of lower rank are restored first.
        movable: whether another object of equal sizes may take its place.
    """

    rank = 0
    movable = True

    @abstractmethod
    def __init__(self, simulator: Any, others: list[Any]) -> None: ...

    @abstractmethod
    def read(self) -> bytes:
        """Return the differences from the constructor's simulator, b"" without any."""

    @abstractmethod
    def write(self, data: bytes) -> None:
        """Set the simulator to a result of `read`.

        Raises:
            DamagedState: the bytes are not of it.
        """

    @abstractmethod
    def rest(self, data: bytes) -> int:
        """Return a hash of 64 bits of what `data` leaves as the constructor made it."""

    @abstractmethod
    def arrays(self) -> dict[str, Any]:
        """Return arrays in the simulator's memory, by the name of the attribute."""

    @abstractmethod
    def move(self, simulator: Any) -> bool:
        """Capture another object from now on; return False, and do not, if its sizes differ."""

    def identity(self) -> Any:
        """Return data on which states depend, for the fingerprint."""
        return None


def register_simulator(module: str, name: str, memory: str) -> None:
    """Capture instances of a class by a `SimulatorMemory`.

    Args:
        module: of the class.
        name: of the class.
        memory: "module:name" of the class that captures it.
    """
    _memories[module, name] = memory


@functools.cache
def memory_of(kind: Any) -> Any:
    """Return the `SimulatorMemory` class for instances of a class, or None."""
    all_families()  # which brings in those who fill the table
    for cls in kind.__mro__:
        found = _memories.get((module_of(cls), cls.__qualname__))
        if found is not None:
            return load_named(found)
    return None
