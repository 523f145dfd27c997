"""`plangym-ext plot DIR...`: curves of training runs, seeds together.

Every `progress.csv` in and below the folders is a run. Runs whose `params.json` differ in
nothing but the seed are one curve: their mean, and a band around it.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plangym_ext.errors import InvalidOption, UnknownName, suggestion
from plangym_ext.run.figures import load_pyplot, save

if TYPE_CHECKING:
    from plangym_ext.run.logs.runs import Group

BANDS = ("bootstrap", "std", "none")
SUFFIXES = (".png", ".svg")
_PER_LINE = 3  # panels


def add_arguments(parser: argparse.ArgumentParser, _given: Sequence[str] = ()) -> None:
    """Add the options of the command."""
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="folders with runs")
    parser.add_argument(
        "--x", default="step", metavar="COLUMN", help="what the curves are drawn over"
    )
    parser.add_argument(
        "--y", nargs="+", default=None, metavar="COLUMN", help="a panel each (default: all)"
    )
    parser.add_argument(
        "--band",
        choices=BANDS,
        default="bootstrap",
        help="95 %% interval of the mean, one standard deviation, or nothing",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("curves.png"),
        metavar="FILE",
        help=f"where to draw: {' or '.join(SUFFIXES)}",
    )


def run(options: argparse.Namespace) -> int:
    """Read, draw, write the file."""
    from plangym_ext.run.logs.runs import find_groups

    if options.out.suffix not in SUFFIXES:
        raise InvalidOption(f"--out must end in {' or '.join(SUFFIXES)}; got {options.out}.")
    load_pyplot("plot")
    groups = find_groups(options.folders)
    known = list(dict.fromkeys(n for group in groups for one in group.runs for n in one.columns))
    for name in [options.x, *(options.y or ())]:
        if name not in known:
            raise UnknownName(
                f"no run has a column {name!r}{suggestion(name, known)}; columns: "
                f"{', '.join(known)}"
            )
    panels = options.y or [name for name in known if name != options.x]
    if not panels:
        raise UnknownName(f"there is nothing to draw over {options.x!r}; columns: {known}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    _draw(groups, panels, options)
    for group in groups:
        count = len(group.runs)
        print(f"{group.label}: {count} {'run' if count == 1 else 'runs'}")
    print(f"wrote {options.out}")
    return 0


def _draw(groups: Sequence[Group], panels: Sequence[str], options: argparse.Namespace) -> None:
    """Draw a panel per column, a curve per group."""
    pyplot = load_pyplot("plot")
    wide = min(_PER_LINE, len(panels))
    high = math.ceil(len(panels) / wide)
    figure, axes = pyplot.subplots(high, wide, figsize=(5 * wide, 3.6 * high), squeeze=False)
    for axis, name in zip(axes.flat, panels, strict=False):
        for group in groups:
            _draw_curve(axis, group, name, options)
        axis.set(title=name, xlabel=options.x)
        axis.grid(alpha=0.3)
    axes.flat[0].legend()
    for axis in axes.flat[len(panels) :]:
        axis.axis("off")
    save(figure, options.out)


def _draw_curve(axis: Any, group: Group, name: str, options: argparse.Namespace) -> None:
    from plangym_ext.run.curves import aggregated

    drawn = [
        (one.columns[options.x], one.columns[name])
        for one in group.runs
        if options.x in one.columns and name in one.columns
    ]
    curve = aggregated(drawn, options.band)
    # A single point draws no line: it needs a marker.
    marker = "o" if len(curve.x) == 1 else ""
    label = f"{group.label} ({len(group.runs)})"
    (line,) = axis.plot(curve.x, curve.mean, marker=marker, label=label)
    axis.fill_between(curve.x, curve.low, curve.high, alpha=0.2, color=line.get_color(), lw=0)
