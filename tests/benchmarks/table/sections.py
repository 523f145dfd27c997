"""Parts of pages that different programs write."""

from __future__ import annotations

import datetime
import subprocess
from pathlib import Path

from plangym_ext.core.files.whole_file import replacing

#: Where the parts of `docs/benchmarks.md` are, which has the ratios of all of them alone.
PAGES = {
    "stepping": (
        "speed",
        "native vector envs",
        "several agents",
        "vector envs",
        "step_batch",
        "sampling",
        "cores",
        "first plans",
    ),
    "planning": (
        "quality",
        "atari games",
        "control",
        "search",
        "evaluator",
        "regret",
        "boxoban",
        "explore",
    ),
    "learning": (
        "training",
        "shares",
        "time_to_return",
        "updates from replay",
        "learning",
        "planned agents",
        "paired",
        "starts",
        "audit",
        "forked",
        "resume",
        "expert",
    ),
    "exactness": ("hidden state",),
}


def page_of(page: Path, name: str) -> Path:
    """Return the page that a part is on; another page than that of benchmarks has all itself."""
    if page.name != "benchmarks.md":
        return page
    (subject,) = (subject for subject, names in PAGES.items() if name in names)
    return page.with_name(f"benchmarks_{subject}.md")


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- begin {name}: written by a program -->\n", f"<!-- end {name} -->\n"


def write_section(page: Path, name: str, text: str) -> None:
    """Put `text` in the place of a part of a page, or at its end; the rest stays.

    A part with a heading says below it what code was measured.

    Args:
        page: need not be there.
        name: of the part.
        text: Markdown.
    """
    page = page_of(page, name)
    heading, line, rest = text.strip().partition("\n")
    if heading.startswith("## "):
        text = f"{heading}\n\nNewest figures: {measured()}.{line}{rest}"
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


def measured() -> str:
    """Return which code is measured, and when."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=8", "--exclude", "*"]
    done = subprocess.run(
        command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    commit = done.stdout.strip() or "unknown"
    return f"commit `{commit}`, {datetime.datetime.now(datetime.UTC).date()}"


def section_text(page: Path, name: str) -> str:
    """Return a part of a page; empty if it is not there."""
    page = page_of(page, name)
    begin, end = _marks(name)
    _, _, rest = (page.read_text() if page.exists() else "").partition(begin)
    return rest.partition(end)[0]


def section_rows(page: Path, name: str) -> dict[str, str]:
    """Return the rows of the table in a part of a page, by the name in their first cell.

    Args:
        page: need not be there.
        name: of the part.
    """
    lines = section_text(page, name).splitlines()
    return {line.split("`")[1]: line for line in lines if line.startswith("| `")}
