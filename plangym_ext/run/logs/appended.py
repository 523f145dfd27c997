"""AppendedFile: text file that is appended to, or replaced as a whole."""

from __future__ import annotations

import io
from pathlib import Path

from plangym_ext.core.files.whole_file import opened, replacing
from plangym_ext.errors import InvalidAnswer
from plangym_ext.run.logs.late_file import LateFile


class AppendedFile:
    """A text file that opens at the first write; existing content stays.

    Args:
        path: of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = LateFile(lambda: path.open("a", newline="", encoding="utf-8"))

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
            InvalidAnswer: there are such, and `errors` is "strict".
        """
        try:
            text = ""
            if self._path.exists():
                with io.TextIOWrapper(opened(self._path), "utf-8", errors) as file:
                    text = file.read()
        except UnicodeDecodeError as error:
            raise InvalidAnswer(
                f"{self._path}: it must be a text in UTF-8, and was damaged ({error}). Mend it, or "
                f"begin in another folder."
            ) from None
        return text[: text.rfind("\n") + 1]

    def sync(self) -> None:
        """Flush the file to disk."""
        self._file.sync()

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        self._file.close()
