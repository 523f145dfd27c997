"""Matplotlib figures: style, sizes, saving to files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from plangym_ext.core.files.whole_file import replacing
from plangym_ext.errors import MissingExtra, installing

SUFFIXES = (".png", ".svg", ".pdf")
#: By which a figure is known, of whatever format.
MARK = b"plangym-ext figure"
#: Inches of a figure: a column and a page of the usual conferences; None: by its panels.
WIDTHS: Mapping[str, float | None] = {"screen": None, "column": 3.3, "page": 6.9}
#: The colours of Okabe and Ito 2008, which colour-blind readers tell apart.
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_PLAIN = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    # Text stays text, which journals ask for: type 3 fonts are refused by some.
    "pdf.fonttype": 42,
}
_SMALL = {"font.size": 8, "legend.fontsize": 7, "lines.linewidth": 1.2, "savefig.dpi": 300}


def load_pyplot(asked_by: str) -> Any:
    """Return matplotlib's pyplot, set to draw into files.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtra(
            f"{asked_by} needs matplotlib, which is not installed. {installing('plot')}"
        ) from error
    # Draws without a display, which a machine that trains may not have.
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


@contextlib.contextmanager
def styled(width: str = "screen") -> Iterator[None]:
    """Draw in one style within a block, with font sizes for a key of `WIDTHS`."""
    pyplot = load_pyplot("a figure")
    cycle = pyplot.cycler(color=_COLORS)
    small = {} if WIDTHS[width] is None else _SMALL
    with pyplot.rc_context({"axes.prop_cycle": cycle, "savefig.dpi": 120, **_PLAIN, **small}):
        yield


def save(figure: Any, target: Path) -> None:
    """Write a figure in the format of the file's ending, and close it."""
    figure.tight_layout()
    with replacing(target, "wb") as file:
        # An open file has no ending by which matplotlib would know.
        kind = target.suffix.removeprefix(".")
        named = "Software" if kind == "png" else "Creator"
        figure.savefig(file, format=kind, metadata={named: MARK.decode()})
    # Pyplot keeps every figure until it is closed there.
    load_pyplot("a figure").close(figure)
