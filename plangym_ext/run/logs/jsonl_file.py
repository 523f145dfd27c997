"""A row per line, as a JSON object."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from plangym_ext.run.logs.appended import AppendedFile
from plangym_ext.run.logs.csv_file import STEP, Number


class JsonlFile(AppendedFile):
    """Rows by name, each with a step. What is not finite is written as null."""

    def add(self, row: Mapping[str, Number]) -> None:
        """Append a row; it is in the file when this returns."""
        # Standard JSON has neither NaN nor infinity, and many readers refuse them.
        plain = {name: value if math.isfinite(value) else None for name, value in row.items()}
        self.append(json.dumps(plain, allow_nan=False) + "\n")

    def truncate_after(self, step: int) -> None:
        """Drop rows after `step`, and half a row at the end."""
        lines = self.whole_lines().splitlines(keepends=True)
        self.replace("".join(line for line in lines if json.loads(line)[STEP] <= step))
