"""Error message for allocations that exceed the memory available for envs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from plangym_ext.errors import StorageError

_REMEDY = (
    "Ask for fewer at once, make observations smaller (a wrapper that crops them, or another "
    "dtype), or raise the limit on memory."
)


@contextmanager
def told_of_memory(where: str, count: int, make: Any, nbytes: int | None = None) -> Iterator[None]:
    """Add the env and the number of envs to an error about too little memory.

    Args:
        where: the function that was called.
        count: of envs or rows.
        make: constructor or name of the env.
        nbytes: of shared memory that are asked for, if they are known.

    Raises:
        MemoryError, StorageError: as the block raised it, with this text.
    """
    try:
        yield
    except (MemoryError, StorageError) as error:
        if nbytes is None and not isinstance(error, MemoryError):
            raise  # it says how much
        name = make if isinstance(make, str) else getattr(make, "__qualname__", repr(make))
        asked = "" if nbytes is None else f", which take {nbytes:,} bytes of shared memory"
        kind = MemoryError if isinstance(error, MemoryError) else StorageError
        reason = str(error) or type(error).__name__
        raise kind(
            f"{where}: there is too little memory for {count} of {name}{asked}: "
            f"{reason.rstrip('.')}. {_REMEDY}"
        ) from error
