"""Notes on the errors of envs, which may be of any class."""

from __future__ import annotations

import contextlib


def text_of(error: BaseException) -> str:
    """Return class and text of an error, or the class if it has no text."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # of its own `__str__`
        return type(error).__name__


def add_note(error: BaseException, note: str) -> None:
    """Add a note, if the error takes any: one that is frozen is raised as it is."""
    with contextlib.suppress(Exception):
        error.add_note(note)
