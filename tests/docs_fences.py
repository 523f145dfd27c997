"""Fenced code blocks of README and of the documentation's pages."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

_FENCE = re.compile(r"^ *(?P<ticks>`{3,}|~{3,})(?P<tag>[^`]*)$")


class Fence(NamedTuple):
    """One code block: its tag, the page's line of its first line of code, the code."""

    tag: str
    line: int
    code: str


def read_fences(page: Path) -> list[Fence]:
    """Return the fenced blocks of a page in order; a fence inside another is its text."""
    found: list[Fence] = []
    opening, start, body = None, 0, []
    for number, text in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        match = _FENCE.match(text)
        if opening is None:
            if match:
                opening, start, body = match, number + 1, []
        elif match and not match["tag"].strip() and match["ticks"].startswith(opening["ticks"]):
            code = textwrap.dedent("\n".join(body)) + "\n"
            found.append(Fence(opening["tag"].strip(), start, code))
            opening = None
        else:
            body.append(text)
    if opening is not None:
        raise ValueError(f"{page}, line {start - 1}: this fence is never closed")
    return found


def pages() -> list[Path]:
    """Return the pages at the root and every page of the documentation."""
    at_root = [ROOT / name for name in ("README.md", "AGENTS.md", "CONTRIBUTING.md")]
    built = {"_build", "generated"}
    found = (page for page in (ROOT / "docs").rglob("*.md") if not built & set(page.parts))
    return [*at_root, *sorted(found)]
