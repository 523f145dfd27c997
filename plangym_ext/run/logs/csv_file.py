"""A table on disk whose rows begin with a step, and whose columns may become more."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from plangym_ext.core.whole_file import replacing

STEP = "step"
Number = int | float


class CsvFile:
    """Rows of numbers by column name; a cell is empty where a row has no such number.

    The bytes depend on the rows alone: a file that was cut back with `truncate_after` and
    got the same rows again is the same file.

    Args:
        path: of the file; what is there already stays.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._columns, rows = read_table(path)
        self.last = _numbers(self._columns, rows[-1]) if rows else {}

    def add(self, row: Mapping[str, Number]) -> None:
        """Append a row; it is in the file when this returns.

        Args:
            row: with a step greater than that of the row before.
        """
        new = [name for name in row if name not in self._columns]
        if new:
            self._columns, rows = self._columns + new, read_table(self._path)[1]
            self._rewrite(rows)
        self._open().write(_text([[_cell(row[n]) if n in row else "" for n in self._columns]]))
        self._open().flush()
        self.last = dict(row)

    def truncate_after(self, step: int) -> None:
        """Drop rows behind `step`, columns that only they had, and half a row at the end."""
        columns, rows = read_table(self._path)
        if not columns:
            return
        rows = [row for row in rows if int(row[0]) <= step]
        filled = [any(row[i] for row in rows) or not i for i in range(len(columns))]
        self._columns = _chosen(columns, filled)
        self._rewrite([_chosen(row, filled) for row in rows])
        self.last = _numbers(columns, rows[-1]) if rows else {}

    def sync(self) -> None:
        """Bring the file to the disk."""
        if self._file is not None:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; the next `add` opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> TextIO:
        if self._file is None:
            self._file = self._path.open("a", newline="")
        return self._file

    def _rewrite(self, rows: Sequence[Sequence[str]]) -> None:
        self.close()
        wide = len(self._columns)
        padded = ([*row, *[""] * (wide - len(row))] for row in rows)
        with replacing(self._path) as file:
            file.write(_text([self._columns, *padded]))


def read_table(path: Path) -> tuple[list[str], list[list[str]]]:
    """Return column names and rows of cells; none of a file that is not there.

    A last line without its end was being written when the writer was killed, or is being
    written now. It is left out.
    """
    if not path.exists():
        return [], []
    text = path.read_text()
    lines = list(csv.reader(io.StringIO(text[: text.rfind("\n") + 1])))
    return (lines[0], lines[1:]) if lines else ([], [])


def _numbers(columns: Sequence[str], row: Sequence[str]) -> dict[str, Number]:
    return {name: float(cell) for name, cell in zip(columns, row, strict=True) if cell}


def _cell(value: Number) -> str:
    return repr(value)


def _text(rows: Iterable[Iterable[str]]) -> str:
    target = io.StringIO()
    csv.writer(target, lineterminator="\n").writerows(rows)
    return target.getvalue()


def _chosen(cells: Sequence[str], chosen: Sequence[bool]) -> list[str]:
    return [cell for cell, yes in zip(cells, chosen, strict=True) if yes]
