"""LateFile: file that is created at its first write."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import IO, Any


class LateFile:
    """A file that opens at the first write, also after `close`; writes are flushed.

    Args:
        opened: opens the file.
    """

    def __init__(self, opened: Callable[[], IO[Any]]) -> None:
        self._opened = opened
        self._file: IO[Any] | None = None

    @property
    def is_open(self) -> bool:
        """Whether something was written since the last `close`."""
        return self._file is not None

    def write(self, content: Any) -> None:
        """Write text or bytes; they are in the file when this returns."""
        if self._file is None:
            self._file = self._opened()
        try:
            self._file.write(content)
            self._file.flush()
        except OSError:
            # What is in the buffer would be written, and fail, again when the file is closed.
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None
            raise

    def sync(self) -> None:
        """Flush the file to disk."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._file is not None:
            self._file.close()
            self._file = None
