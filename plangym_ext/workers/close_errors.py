"""Warning about errors that envs raised while being closed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable


def warn_of(errors: Iterable[BaseException | None]) -> None:
    """Warn about errors of envs at their close.

    Args:
        errors: in the order of the envs; None for one that raised nothing.
    """
    found = [error for error in errors if error is not None]
    if found:
        words = "; ".join(_words(error) for error in found)
        warnings.warn(
            f"close: everything is closed, but envs have raised: {words}",
            RuntimeWarning,
            stacklevel=3,
        )


def _words(error: BaseException) -> str:
    return " ".join([f"{type(error).__name__}: {error}", *map(_in_brackets, _notes(error))])


def _notes(error: BaseException) -> list[str]:
    return getattr(error, "__notes__", [])


def _in_brackets(note: str) -> str:
    return f"({note})"
