"""Event files that TensorBoard reads, written without torch or TensorFlow."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plangym_ext.errors import MissingExtra, installing


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
        self._file: Any = None
        self._records: Any = None

    def add(self, row: Mapping[str, int | float]) -> None:
        """Write the numbers of a row, all but its step."""
        step = int(row["step"])
        scalars = [{"tag": n, "simple_value": v} for n, v in row.items() if n != "step"]
        self._write(step=step, summary={"value": scalars})

    def truncate_after(self, step: int) -> None:
        """Tell readers to forget what other files have after `step`."""
        if any(self._folder.glob("events.out.tfevents.*")):
            self._write(step=step + 1, session_log={"status": "START"})

    def sync(self) -> None:
        """Bring the file to the disk."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; the next `add` begins another one."""
        if self._file is not None:
            self._file.close()
            self._file = self._records = None

    def _write(self, **content: Any) -> None:
        if self._records is None:
            self._begin()
        self._put(**content)

    def _begin(self) -> None:
        # Here and not above: it takes a while, and many runs go without.
        writer = importlib.import_module("tensorboard.summary.writer.record_writer")
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self._file = (self._folder / name).open("xb")
        self._records = writer.RecordWriter(self._file)
        self._put(file_version="brain.Event:2")

    def _put(self, **content: Any) -> None:
        events = importlib.import_module("tensorboard.compat.proto.event_pb2")
        event = events.Event(wall_time=time.time(), **content)
        try:
            self._records.write(event.SerializeToString())
            self._file.flush()
        except OSError:
            # As in `AppendedFile.append`.
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = self._records = None
            raise
