"""Validation of options: integers, floats, timeouts, flags; values as text and HTML tables."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from plangym_ext.errors import InvalidOption, WrongKind


def at_least(where: str, value: Any, least: float) -> int:
    """Return `value` as an int; raise if it is not an integer >= `least`; -inf: any integer."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        bound = f" >= {least}" if least > -math.inf else ""
        raise InvalidOption(f"{where} must be an integer{bound}; got {told(value)}.")
    return int(value)


def check_kind(where: str, value: Any, kind: type | tuple[type, ...], expected: str) -> None:
    """Refuse an argument that is of none of some classes.

    Args:
        where: the call, and the argument if its name is not clear.
        value: what was given.
        kind: the classes.
        expected: what the caller should pass, in words.

    Raises:
        WrongKind: it is of another class.
    """
    if not isinstance(value, kind):
        raise WrongKind(f"{where}: expected {expected}; got {told(value):.80}.")


def check_flags(where: str, **flags: Any) -> None:
    """Refuse flags that are neither True nor False: a text that says "no" would be true.

    Raises:
        InvalidOption: one is.
    """
    for name, value in flags.items():
        if not isinstance(value, bool | np.bool_):
            raise InvalidOption(f"{where}: {name} must be True or False; got {value!r:.80}.")


def rounding_of(sums: Any) -> float:
    """Return the rounding error between sums of float64 rewards in different orders.

    Rounding a step adds 1e-16 of the sum: this is enough for ten thousand steps whose roundings
    fall alike, and for any number of steps whose roundings fall either way.

    Args:
        sums: numbers, the largest of which tells how large their parts are.
    """
    return 1e-12 * float(np.max(np.abs(sums), initial=0.0))


def finite_between(where: str, value: Any, low: float, high: float) -> float:
    """Return `value` as a float; raise if it is no number in [low, high] (NaN is not)."""
    try:
        # Texts and flags are mistakes, although Python makes floats of them.
        number = math.nan if isinstance(value, str | bytes | bool | np.bool_) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and low <= number <= high):
        within = "" if low == -math.inf and high == math.inf else f" in [{low}, {high}]"
        raise InvalidOption(f"{where} must be a finite number{within}; got {told(value)}.")
    return number


def seconds_or_none(where: str, value: Any) -> float | None:
    """Return a limit in seconds as a float, or None for none.

    Raises:
        InvalidOption: it is no number above 0.
    """
    if value is None:
        return None
    seconds = _as_float(value) if _is_number(value) else math.nan
    if not 0 < seconds < math.inf:
        raise InvalidOption(
            f"{where} must be a number of seconds above 0, or None for no limit; got {told(value)}."
        )
    return seconds


def wait_or_none(where: str, value: Any) -> float | None:
    """Return a caller's waiting time in seconds as a float, or None for no limit.

    Raises:
        InvalidOption: it is no number from 0 on (NaN is not).
    """
    if value is None:
        return None
    if not _is_number(value) or not value >= 0:
        raise InvalidOption(
            f"{where} must be a number of seconds from 0 on, or None to wait as long as it takes; "
            f"got {told(value)}."
        )
    return _as_float(value)


def _as_float(value: Any) -> float:
    """Return a number as a float, infinite for a whole number larger than any float."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def told(value: Any) -> str:
    """Return the `repr` of a value; a phrase for an int with more digits than Python writes."""
    try:
        return repr(value)
    except ValueError:  # of a whole number with thousands of digits
        return "a number of more than 4,300 digits"


def _is_number(value: Any) -> bool:
    # Python's bools are ints.
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


# One-line `repr` texts and HTML tables of objects for notebooks ---------------


_LONGEST = 80  # characters of a value


def one_line(name: str, values: Mapping[str, Any]) -> str:
    """Return `name(key=value, ...)`, without values that are None."""
    shown = (f"{key}={_short(value)}" for key, value in values.items() if value is not None)
    return f"{name}({', '.join(shown)})"


def html_table(title: str, rows: Sequence[Sequence[Any]], heading: Sequence[str] = ()) -> str:
    """Return a table of HTML for `_repr_html_`; all texts are escaped."""
    head = "".join(f"<th>{html.escape(text)}</th>" for text in heading)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_short(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><caption>{html.escape(title)}</caption><tr>{head}</tr>{body}</table>"


def framed(page: str, height: int) -> str:
    """Return a page of HTML within a notebook, which its scripts cannot reach."""
    style = f"width: 100%; height: {height}px; border: 0"
    source = html.escape(page)
    return f'<iframe sandbox="allow-scripts" srcdoc="{source}" style="{style}"></iframe>'


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
