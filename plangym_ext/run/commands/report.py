"""`plangym-ext report DIR...`: write one self-contained page about runs.

The page has curves, settings, recorded films and searches, the table of `plangym-ext eval`, and
versions, of all runs in and below the folders.
"""

from __future__ import annotations

import argparse
import base64
import sys
from pathlib import Path
from typing import Annotated

from plangym_ext.core.files.whole_file import contents, replacing
from plangym_ext.run.arguments import Argument, Option, as_typed
from plangym_ext.run.files import OutputFiles

_KINDS = {".mp4": "video/mp4", ".html": "text/html"}


class Options:
    """Options of the command.

    Args:
        folders: folders with runs
        out: where to write (default: report.html in the first DIR)
        overwrite: write over a FILE that is no such page
    """

    folders: Annotated[tuple[Path, ...], Argument("DIR")]
    out: Annotated[Path | None, Option("FILE")] = None
    overwrite: bool = False


def run(options: argparse.Namespace) -> int:
    """Write the page."""
    from plangym_ext.run.run_page.content import MARK, content, page

    out = options.out or options.folders[0] / "report.html"
    # Before the runs are read, which may take long.
    replace = options.overwrite or options.out is None
    with OutputFiles([out], replace=replace, own=MARK):
        found = content(options.folders, _inlined)
        with replacing(out) as file:
            file.write(page(found))
    for line in found["odd"]:
        print(f"left out: {line}", file=sys.stderr)
    count = len(found["runs"])
    print(f"wrote {as_typed(out)}: {count} {'run' if count == 1 else 'runs'}")
    return 0


def _inlined(path: Path) -> str:
    """Return the file as an address that holds it."""
    # A third larger than the file, which is what a page costs that can be moved on its own.
    content = base64.b64encode(contents(path)).decode("ascii")
    return f"data:{_KINDS[path.suffix]};base64,{content}"
