"""Parts of one page that different programs write."""

from __future__ import annotations

from pathlib import Path

from plangym_ext.core.whole_file import replacing


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- begin {name}: written by a program -->\n", f"<!-- end {name} -->\n"


def write_section(page: Path, name: str, text: str) -> None:
    """Put `text` in the place of a part of a page, or at its end; the rest stays.

    Args:
        page: need not be there.
        name: of the part.
        text: Markdown.
    """
    begin, end = _marks(name)
    old = page.read_text() if page.exists() else ""
    before, found, rest = old.partition(begin)
    if found:
        _, _, after = rest.partition(end)
    else:
        before, after = (old + "\n" if old else ""), ""
    page.parent.mkdir(parents=True, exist_ok=True)
    with replacing(page) as file:
        file.write(f"{before}{begin}{text.strip()}\n{end}{after}")


def section_rows(page: Path, name: str) -> dict[str, str]:
    """Return the rows of the table in a part of a page, by the name in their first cell.

    Args:
        page: need not be there.
        name: of the part.
    """
    begin, end = _marks(name)
    _, _, rest = (page.read_text() if page.exists() else "").partition(begin)
    lines = rest.partition(end)[0].splitlines()
    return {line.split("`")[1]: line for line in lines if line.startswith("| `")}
