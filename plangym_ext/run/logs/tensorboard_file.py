"""Event files that TensorBoard reads, written without torch, TensorFlow or TensorBoard."""

from __future__ import annotations

import importlib.util
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plangym_ext.errors import MissingExtra, installing
from plangym_ext.run.logs.event_records import (
    record,
    restart_event,
    scalars_event,
    version_event,
)
from plangym_ext.run.logs.late_file import LateFile


def tensorboard_is_there() -> bool:
    """Return whether the package is installed; it is not imported for that."""
    return importlib.util.find_spec("tensorboard") is not None


class TensorBoardFile:
    """Scalars by step. Files cannot be cut back, but readers can be made to forget.

    Args:
        folder: where the event file is made, when there is something to write.

    Raises:
        MissingExtra: tensorboard is not installed.
    """

    def __init__(self, folder: Path) -> None:
        if not tensorboard_is_there():
            raise MissingExtra(
                "Logger: tensorboard must be installed, or tensorboard=False be passed; it is "
                f"not. {installing('tensorboard')}"
            )
        self._folder = folder
        self._file = LateFile(self._opened)

    def add(self, row: Mapping[str, int | float]) -> None:
        """Write the numbers of a row, all but its step."""
        step = int(row["step"])
        scalars = {name: value for name, value in row.items() if name != "step"}
        self._write(scalars_event(time.time(), step, scalars))

    def truncate_after(self, step: int) -> None:
        """Tell readers to forget what other files have after `step`."""
        if any(self._folder.glob("events.out.tfevents.*")):
            # A restart makes readers drop its own step too, hence one more.
            self._write(restart_event(time.time(), step + 1))

    def sync(self) -> None:
        """Bring the file to the disk."""
        self._file.sync()

    def close(self) -> None:
        """Close the file; the next `add` begins another one."""
        self._file.close()

    def _write(self, event: bytes) -> None:
        begins = b"" if self._file.is_open else record(version_event(time.time()))
        self._file.write(begins + record(event))

    def _opened(self) -> Any:
        # The time comes first: readers take files by name, and a restart must come after them.
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        return (self._folder / name).open("xb")
