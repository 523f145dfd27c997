"""Links of the built pages that lead nowhere: to no file, or to no anchor in it.

    python tests/built_links.py docs/_build

Sphinx checks what it resolves itself; this also sees links that are written as HTML, in tables, to
pictures and to downloads, and anchors that a theme or an extension names otherwise than was meant.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """The anchors of a page and what it links to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and (name == "id" or (tag == "a" and name == "name")):
                self.anchors.add(value)
            elif value and name in ("href", "src"):
                self.links.append(value)


def broken_links(folder: Path) -> Iterator[str]:
    """Yield a line for every link inside of a folder of pages that leads nowhere."""
    folder = folder.resolve()
    pages = {path: _Page(path.read_text("utf8")) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        for link in page.links:
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            target = (path.parent / unquote(address.path)).resolve() if address.path else path
            anchor = unquote(address.fragment)
            if not target.exists():
                yield f"{path.relative_to(folder)}: {link}: there is no such file"
            elif anchor and target in pages and anchor not in pages[target].anchors:
                yield f"{path.relative_to(folder)}: {link}: there is no such anchor"


def main(folder: Path) -> int:
    """Print the links that lead nowhere; return 1 if there are any, or no pages at all."""
    if not (folder / "index.html").exists():
        print(f"{folder}: there is no index.html. Build the pages first, by tox -e docs.")
        return 1
    broken = list(broken_links(folder))
    print("\n".join(broken), end="\n" * bool(broken))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
