"""Writing a file so that a reader sees the old one or the new, never half of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


@contextmanager
def replacing(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file beside `path` that takes its place when the block ends without an error.

    Args:
        path: of the file to write; an existing one is replaced as a whole.
        mode: "w" for text, "wb" for bytes, "w+b" to read them again too.

    Raises:
        OSError: it cannot be written, and has the name of `path`; nothing is left of it.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open(mode) as file:
            yield file
            file.flush()
            # Or else a crash of the machine could leave the new name without the content.
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException as error:
        # Half a file is of no use, and where the disk is full it would keep it so.
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None:
            error.filename = str(path)  # a write alone names no file
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Bring the new name itself to the disk, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
