"""A row per line, as a JSON object."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from plangym_ext.core.whole_file import replacing


class JsonlFile:
    """Rows by name, each with a step. What is not finite is written as null.

    Args:
        path: of the file; what is there already stays.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None

    def add(self, row: Mapping[str, int | float]) -> None:
        """Append a row; it is in the file when this returns."""
        if self._file is None:
            self._file = self._path.open("ab")
        # Standard JSON has neither NaN nor infinity, and many readers refuse them.
        plain = {name: value if math.isfinite(value) else None for name, value in row.items()}
        self._file.write(json.dumps(plain, allow_nan=False).encode() + b"\n")
        self._file.flush()

    def truncate_after(self, step: int) -> None:
        """Drop rows behind `step`, and half a row at the end."""
        self.close()
        if not self._path.exists():
            return
        lines = self._path.read_bytes().splitlines(keepends=True)
        whole = (line for line in lines if line.endswith(b"\n"))
        kept = [line for line in whole if json.loads(line)["step"] <= step]
        with replacing(self._path, "wb") as file:
            file.writelines(kept)

    def sync(self) -> None:
        """Bring the file to the disk."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; the next `add` opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None
