"""Helpers for command-line arguments: bounded ints, paths as typed, exit statuses."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

#: Exit status after Ctrl-C, as shells have it.
INTERRUPTED = 130


def at_least(low: int) -> Callable[[str], int]:
    """Return a parser of an int >= `low`."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            # No number gets the message of one that is too small.
            value = low - 1
        if value < low:
            raise argparse.ArgumentTypeError(f"expected an int >= {low}; got {text!r}")
        return value

    return parse


#: The folder in which the command was typed; None: none was.
_typed_in: Path | None = None


def keep_paths(options: argparse.Namespace) -> None:
    """Make the paths of a command absolute, in place.

    An env may work in a folder of its own (`os.chdir`): what was typed is of the folder before.
    """
    global _typed_in
    _typed_in = Path.cwd()
    for name, value in vars(options).items():
        if isinstance(value, Path):
            setattr(options, name, value.absolute())
        elif isinstance(value, list) and any(isinstance(one, Path) for one in value):
            setattr(options, name, [one.absolute() for one in value])


def as_typed(path: Path) -> Path:
    """Return a path in the user's form: relative to the folder of the command."""
    below = _typed_in is not None and path.is_relative_to(_typed_in)
    return path.relative_to(_typed_in) if below else path  # type: ignore[arg-type]


def error_as_typed(error: Exception | str) -> str:
    """Return the text of an error, with paths in the user's form."""
    text = str(error)
    # Not of the root, which would take every slash.
    long = _typed_in is not None and len(_typed_in.parts) > 1
    return text.replace(f"{_typed_in}/", "") if long else text
