"""What commands share of their arguments and exit statuses."""

from __future__ import annotations

import argparse
from collections.abc import Callable

#: Exit status after Ctrl-C, as shells have it.
INTERRUPTED = 130


def at_least(low: int) -> Callable[[str], int]:
    """Return a parser of an int that is no smaller than `low`."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            # No number gets the message of one that is too small.
            value = low - 1
        if value < low:
            raise argparse.ArgumentTypeError(f"expected an int >= {low}; got {text!r}")
        return value

    return parse
