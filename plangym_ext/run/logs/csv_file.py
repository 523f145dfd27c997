"""CsvFile: CSV log by step, with columns that may be added later."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from plangym_ext.run.logs.appended import AppendedFile

STEP = "step"
Number = int | float


class CsvFile(AppendedFile):
    """Rows of numbers by column name; missing numbers are empty cells.

    The bytes depend on the rows alone: a file that was cut back with `truncate_after` and
    got the same rows again is the same file.

    Args:
        path: of the file; what is there already stays.

    Attributes:
        last: the newest row by column name; {} if there is none.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._columns, rows = self._table()
        self.last = _numbers(self._columns, rows)

    def add(self, row: Mapping[str, Number]) -> None:
        """Append a row; it is in the file when this returns.

        Args:
            row: with a step greater than that of the row before.
        """
        new = [name for name in row if name not in self._columns]
        if new:
            rows = self._table()[1]
            self._columns += new
            # A new column is rare: the file is written again, so that its first line names all.
            self._rewrite([[*cells, *[""] * len(new)] for cells in rows])
        # Cells that need no quotes.
        # `repr` of a float reads back as the same float.
        self.append(",".join([repr(row[n]) if n in row else "" for n in self._columns]) + "\n")
        self.last = dict(row)

    def truncate_after(self, step: int) -> None:
        """Drop rows after `step`, columns that only they had, and half a row at the end."""
        columns, rows = self._table()
        if not columns:
            return
        rows = [row for row in rows if int(row[0]) <= step]
        # A run that is resumed names a column when it first has one, as one that was not
        # interrupted.
        filled = [any(row[i] for row in rows) or not i for i in range(len(columns))]
        # The first column, the steps, stays even if no row does.
        self._columns = _chosen(columns, filled)
        rows = [_chosen(row, filled) for row in rows]
        self._rewrite(rows)
        self.last = _numbers(self._columns, rows)

    def _table(self) -> tuple[list[str], list[list[str]]]:
        return parse_table(self.whole_lines())

    def _rewrite(self, rows: Sequence[Sequence[str]]) -> None:
        self.replace(_text([self._columns, *rows]))


def parse_table(text: str) -> tuple[list[str], list[list[str]]]:
    """Return column names and rows of cells."""
    lines = list(csv.reader(io.StringIO(text)))
    return (lines[0], lines[1:]) if lines else ([], [])


def _numbers(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, Number]:
    """Return the last row by column name."""
    last = rows[-1] if rows else [""] * len(columns)
    return {name: float(cell) for name, cell in zip(columns, last, strict=True) if cell}


def _text(rows: Iterable[Iterable[str]]) -> str:
    target = io.StringIO()
    csv.writer(target, lineterminator="\n").writerows(rows)
    return target.getvalue()


def _chosen(cells: Sequence[str], chosen: Sequence[bool]) -> list[str]:
    return [cell for cell, yes in zip(cells, chosen, strict=True) if yes]
