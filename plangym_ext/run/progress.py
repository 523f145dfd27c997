"""ProgressLine: one-line progress display in terminals and notebooks."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Iterator
from typing import TextIO


class ProgressLine:
    """Rewrites one line of a terminal or notebook; elsewhere, prints one now and then.

    Args:
        stream: where to write; standard error if None, so that output can be piped.
        interval: least seconds between two updates; ten times that without a terminal.
    """

    def __init__(self, stream: TextIO | None = None, interval: float = 0.2) -> None:
        self._stream = stream if stream is not None else sys.stderr
        # What a notebook shows can be rewritten as well.
        in_notebook = type(self._stream).__module__.startswith("ipykernel.")
        self._live = self._stream.isatty() or in_notebook
        self._interval = interval if self._live else 10 * interval
        self._next = 0.0
        self._width = 0
        self._text = ""

    @property
    def is_due(self) -> bool:
        """Whether an update would be shown now; updates are rate-limited."""
        return time.monotonic() >= self._next

    def update(self, text: str, *, force: bool = False) -> None:
        """Show `text`, at a limited rate."""
        now = time.monotonic()
        if now < self._next and not force:
            return
        self._next = now + self._interval
        if self._live:
            text = _fitting(text)
            # Blanks wipe what a longer text before it left.
            self._stream.write("\r" + text.ljust(self._width))
            self._width, self._text = len(text), text
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    @contextlib.contextmanager
    def passing(self, text: str) -> Iterator[None]:
        """Show `text` during a block, on terminals only; it is wiped at the end."""
        if self._live:
            self.update(text, force=True)
        try:
            yield
        finally:
            self.wipe()

    def above(self, text: str) -> None:
        """Print a permanent line above the progress line."""
        if self._live:
            # Over the line that is rewritten, whose rest is blanked. That line is then shown again
            # below.
            self._stream.write("\r" + text.ljust(self._width) + "\n" + self._text)
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def end(self, text: str) -> None:
        """Show a last text and end the line."""
        self.update(text, force=True)
        self.leave()

    def wipe(self) -> None:
        """Wipe the progress line; other output stays."""
        if self._live and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width, self._text, self._next = 0, "", 0.0

    def leave(self) -> None:
        """Move to the next line of a terminal, if this one is not empty."""
        if self._live and self._width:
            self._stream.write("\n")
            self._stream.flush()
            self._width, self._text = 0, ""


def _fitting(text: str) -> str:
    """Return a text that the terminal shows in one line: a wrapped one cannot be rewritten."""
    # Some terminals wrap once the last column is written. Asked each time, as windows change.
    width = shutil.get_terminal_size().columns - 1
    return text if len(text) <= width else text[: width - 1] + "…"
