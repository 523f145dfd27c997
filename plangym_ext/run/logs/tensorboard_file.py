"""TensorBoard event files, written with the `tensorboard` package only."""

from __future__ import annotations

import importlib.util
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plangym_ext.errors import MissingExtra, installing
from plangym_ext.run.logs.late_file import LateFile


def tensorboard_is_there() -> bool:
    """Return whether the package is installed, without importing it."""
    return importlib.util.find_spec("tensorboard") is not None


class TensorBoardFile:
    """Scalars by step. Later rows are removed by a restart event, not by cutting files.

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
        scalars = [
            {"tag": name, "simple_value": value} for name, value in row.items() if name != "step"
        ]
        self._write(step=int(row["step"]), summary={"value": scalars})

    def truncate_after(self, step: int) -> None:
        """Write a restart event, so that readers drop rows after `step`."""
        if any(self._folder.glob("events.out.tfevents.*")):
            # A restart makes readers drop its own step too, hence one more.
            self._write(step=step + 1, session_log={"status": "START"})

    def sync(self) -> None:
        """Flush the file to disk."""
        self._file.sync()

    def close(self) -> None:
        """Close the file; the next `add` begins another one."""
        self._file.close()

    def _write(self, **event: Any) -> None:
        # Here and not above: it takes a third of a second, and many runs go without.
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        records = RecordWriter(self._file)
        if not self._file.is_open:
            begin = Event(wall_time=time.time(), file_version="brain.Event:2")
            records.write(begin.SerializeToString())
        records.write(Event(wall_time=time.time(), **event).SerializeToString())

    def _opened(self) -> Any:
        # The time comes first: readers take files by name, and a restart must come after them.
        name = f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        return (self._folder / name).open("xb")
