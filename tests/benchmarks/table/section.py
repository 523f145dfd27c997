"""Sections of a page, each written by a program of its own."""

from __future__ import annotations


def section(page: str, name: str) -> str:
    """A section with its marks, or "" if the page has none of that name."""
    begin, end = _marks(name)
    if begin not in page or end not in page:
        return ""
    return page[page.index(begin) : page.index(end) + len(end)] + "\n"


def with_section(page: str, name: str, text: str) -> str:
    """The page with a section in the place of the old one, or at the end."""
    begin, end = _marks(name)
    new = f"{begin}\n{text.strip()}\n{end}\n"
    old = section(page, name)
    return page.replace(old, new) if old else f"{page.rstrip()}\n\n{new}"


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
