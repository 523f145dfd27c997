"""AppendedFile: text file that is appended to, or replaced as a whole."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Iterator
from pathlib import Path

from plangym_ext.core.files.whole_file import contents, opened, replacing
from plangym_ext.errors import UnreadableFile
from plangym_ext.run.logs.late_file import LateFile

_MOST_BYTES = 1 << 30


class AppendedFile:
    """A text file that opens at the first write; existing content stays.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = LateFile(lambda: opened(path, "a", newline="", encoding="utf-8"))

    def append(self, text: str) -> None:
        """Append lines; they are in the file when this returns."""
        self._file.write(text)

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
        """Say of the file what is wrong with what is read in it.

        Raises:
            UnreadableFile: the block has raised an error of its content.
        """
        try:
            yield
        except OSError:  # which names the file
            raise
        except (ValueError, LookupError, TypeError, RecursionError, csv.Error) as error:
            raise UnreadableFile(
                f"{self._path}: it must hold the log of a run, and was damaged ({error}). Mend it, "
                "or begin in another folder."
            ) from None

    def sync(self) -> None:
        """Flush the file to disk."""
        self._file.sync()

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        self._file.close()
