"""Warning about envs' errors at their close, and the time limits of workers."""

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


#: Seconds that a new worker may take to build its env.
START_TIMEOUT = 120.0
#: Seconds that a worker may spend on one row, unless told otherwise: steps of the slowest
#: simulators take one or two.
ROW_TIMEOUT = 30.0
#: A row may take so many times as long as the longest one that was seen to end.
_TIMES_SLOWEST = 3


def start_limit(timeout: float | None) -> float | None:
    """Return the time limit of a worker's start, from the limit of a row."""
    return None if timeout is None else max(START_TIMEOUT, timeout)


def row_limit(
    timeout: float | None, *, first: bool, slowest: float = 0.0, steps: int = 1
) -> float | None:
    """Return the time limit of a row, after which its worker counts as hung.

    A limit below the default is taken at its word. Else the first rows, in which envs compile and
    load, may take as long as to build an env, and an env that is known to be slow more than others.

    Args:
        timeout: as the user has set it, for a row of up to 30 steps.
        first: whether no row of such a worker has ended yet.
        slowest: seconds of the longest row that was seen to end.
        steps: of the row.
    """
    if timeout is None or timeout < ROW_TIMEOUT:
        return timeout
    known = max(timeout, timeout / ROW_TIMEOUT * steps, _TIMES_SLOWEST * slowest)
    return max(known, START_TIMEOUT) if first else known
