"""AppendedFile: text file that is appended to, or replaced as a whole."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from plangym_ext.core.files.whole_file import contents, opened, replacing
from plangym_ext.errors import UnreadableFile

_MOST_BYTES = 1 << 30


class LateFile:
    """A file that opens at the first write, also after `close`; writes are flushed."""

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
        """Close the file, if it is open; the next write opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None


class AppendedFile(LateFile):
    """A text file that opens at the first write; existing content stays."""

    def __init__(self, path: Path) -> None:
        super().__init__(lambda: opened(path, "a", newline="", encoding="utf-8"))
        self._path = path

    def replace(self, text: str) -> None:
        """Write these lines instead of all others; a reader sees the old ones or the new."""
        # First: a file that is open would go on in the one that is replaced.
        self.close()
        with replacing(self._path) as file:
            file.write(text)

    def whole_lines(self, errors: str = "strict") -> str:
        """Return the complete lines of the file; nothing if it does not exist.

        A last line without its end was being written when the writer was killed, or is
        being written now. It is left out.

        Args:
            errors: what becomes of bytes that are no UTF-8, as for `bytes.decode`.

        Raises:
            UnreadableFile: there are such, and `errors` is "strict"; or it is a pipe or too large.
        """
        text = ""
        if self._path.exists():
            data = contents(self._path, _MOST_BYTES)
            with self.reading():
                text = data.decode("utf-8", errors)
        return text[: text.rfind("\n") + 1]

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Context in which errors about the content name the file.

        Raises:
            UnreadableFile: the block has raised an error of its content.
        """
        try:
            yield
        except OSError:  # which names the file
            raise
        except (ValueError, LookupError, TypeError, RecursionError, csv.Error) as error:
            raise UnreadableFile(
                f"{self._path}: it must hold the log of a run; it is damaged ({error}). Repair it, "
                "or begin in another folder."
            ) from None


# JsonlFile and CsvFile: logs by step; a CSV log may get columns later -----------


STEP = "step"
Number = int | float


class JsonlFile(AppendedFile):
    """Rows by name, each with a step. Numbers that are not finite become null."""

    def add(self, row: Mapping[str, Number]) -> None:
        """Append a row; it is in the file when this returns."""
        # Standard JSON has neither NaN nor infinity, and many readers refuse them.
        plain = {name: value if math.isfinite(value) else None for name, value in row.items()}
        self.write(json.dumps(plain, allow_nan=False) + "\n")

    def truncate_after(self, step: int) -> None:
        """Drop rows after `step`, and half a row at the end."""
        lines = self.whole_lines().splitlines(keepends=True)
        with self.reading():
            kept = [line for line in lines if json.loads(line)[STEP] <= step]
        self.replace("".join(kept))


#: Stands in a cell without a number: viskit reads an empty one as 0. A number that is not finite is
#: written as Python does, "nan".
MISSING = "NaN"
_EMPTY = "", MISSING  # earlier versions wrote the first


class CsvFile(AppendedFile):
    """Rows of numbers by column name; missing numbers are `MISSING`.

    The bytes depend on the rows alone: a file that was cut back with `truncate_after` and
    got the same rows again is the same file.

    Args:
        path: of the file; what is there already stays.

    Attributes:
        last: the newest row by column name; {} if there is none.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with self.reading():
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
            rows = [[*cells, *[MISSING] * len(new)] for cells in rows]
            self.replace(_text([self._columns, *rows]))
        # Cells that need no quotes.
        # `repr` of a float reads back as the same float.
        self.write(",".join([repr(row[n]) if n in row else MISSING for n in self._columns]) + "\n")
        self.last = dict(row)

    def truncate_after(self, step: int) -> None:
        """Drop rows after `step`, columns that only they had, and half a row at the end."""
        columns, rows = self._table()
        if not columns:
            return
        with self.reading():
            rows = [row for row in rows if int(row[0]) <= step]
            # A run that is resumed names a column when it first has one, as one that was not
            # interrupted.
            filled = [
                any(row[i] not in _EMPTY for row in rows) or not i for i in range(len(columns))
            ]
        # The first column, the steps, stays even if no row does.
        self._columns = _chosen(columns, filled)
        rows = [_chosen(row, filled) for row in rows]
        self.replace(_text([self._columns, *rows]))
        self.last = _numbers(self._columns, rows)

    def _table(self) -> tuple[list[str], list[list[str]]]:
        return parse_table(self.whole_lines())


def parse_table(text: str) -> tuple[list[str], list[list[str]]]:
    """Return column names and rows of cells."""
    lines = list(csv.reader(io.StringIO(text)))
    return (lines[0], lines[1:]) if lines else ([], [])


def _numbers(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> dict[str, Number]:
    """Return the last row by column name."""
    last = rows[-1] if rows else [""] * len(columns)
    return {
        name: float(cell) for name, cell in zip(columns, last, strict=True) if cell not in _EMPTY
    }


def _text(rows: Iterable[Iterable[str]]) -> str:
    target = io.StringIO()
    csv.writer(target, lineterminator="\n").writerows(rows)
    return target.getvalue()


def _chosen(cells: Sequence[str], chosen: Sequence[bool]) -> list[str]:
    return [cell for cell, yes in zip(cells, chosen, strict=True) if yes]
