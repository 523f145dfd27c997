"""One-line `repr` texts and HTML tables of objects for notebooks."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

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


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
