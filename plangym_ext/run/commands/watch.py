"""`plangym-ext watch DIR`: serve a live page about runs, in a browser on this machine.

The page of `plangym-ext report`, updated during the runs in and below the folders: curves, speed,
the newest recorded episode and its searches. Ctrl-C ends it and does not affect the runs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Annotated

from plangym_ext.core.options import Range
from plangym_ext.run.arguments import Argument, Option


class Options:
    """Options of the command.

    Args:
        folders: folders with runs
        host: address to listen on; others than this machine's own can then read the runs
        port: 0: a free one
    """

    folders: Annotated[tuple[Path, ...], Argument("DIR")]
    host: str = "127.0.0.1"
    port: Annotated[int, Range(0, 65_535), Option("N")] = 8765


def run(options: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C."""
    try:
        from plangym_ext.run.run_page.server import PageServer

        with PageServer(options.folders, options.host, options.port) as server:
            # Flushed: the address is needed while the server runs, also through a pipe.
            print(f"watching {', '.join(map(str, options.folders))}: {server.url}", flush=True)
            if server.is_open:
                print(
                    f"--host {options.host}: every machine that can reach this one can read the "
                    f"runs, without a password. An ssh tunnel needs no --host.",
                    file=sys.stderr,
                )
            server.serve_forever()
    # The way in which it is meant to end, so the exit status is 0.
    except KeyboardInterrupt:
        print()
    return 0
