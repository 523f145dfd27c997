"""`plangym-ext plot DIR...`: draw learning curves of training runs, averaged over seeds.

Every `progress.csv` in and below the folders is a run. Runs whose `params.json` differ in
nothing but the seed are one curve: their mean, and a band around it. After some of the seeds
have ended, the curve continues dotted, without a band.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.options import Count, OneOf
from plangym_ext.errors import InvalidOption, UnknownName, suggestion
from plangym_ext.run.arguments import Argument, Option, as_typed
from plangym_ext.run.bootstrap import STATISTICS, mean_interval
from plangym_ext.run.figures import MARK, SUFFIXES, WIDTHS, load_pyplot, save, styled
from plangym_ext.run.files import OutputFiles

if TYPE_CHECKING:
    from plangym_ext.run.logs.runs import Group

_PER_LINE = 3  # panels
_POINTS = 400  # of a curve; more are not seen, and each costs an interval
#: What is drawn if nothing is asked for: those of these that the runs have.
MAIN = ("return", "eval/return")
#: Column -> what an axis says of it.
_TITLES = {
    "step": "environment steps",
    "return": "episode return",
    "eval/return": "evaluation return",
    "recent/return": "return of the last episodes",
    "length": "episode length",
    "eval/length": "evaluation length",
}


_PANELS = f'a panel each, or "all" (default: {" and ".join(MAIN)}, if the runs have them)'
_DRAWING = f"where to draw: {', '.join(SUFFIXES)} (default: curves.png in the first DIR)"


class Options:
    """Options of the command.

    Args:
        folders: folders with runs
        x: column of the x axis
        statistic: of the seeds; iqm is the interquartile mean
        band: 95 % interval of the statistic, one standard deviation, or nothing
        smooth: each point is the mean of the last N of its run
        width: of a figure for a column or a page of a paper, or for the screen
        overwrite: write over a FILE that is no such figure
    """

    folders: Annotated[tuple[Path, ...], Argument("DIR")]
    x: Annotated[str, Option("COLUMN")] = "step"
    y: Annotated[tuple[str, ...] | None, Option("COLUMN", _PANELS)] = None
    statistic: Annotated[str, OneOf(STATISTICS)] = "mean"
    band: Annotated[str, OneOf(BANDS)] = "bootstrap"
    smooth: Annotated[Count, Option("N")] = 1
    width: Annotated[str, OneOf(WIDTHS)] = "screen"
    out: Annotated[Path | None, Option("FILE", _DRAWING)] = None
    overwrite: bool = False


def run(options: argparse.Namespace) -> int:
    """Read, draw, write the file."""
    from plangym_ext.run.logs.runs import find_groups

    out = options.folders[0] / "curves.png" if options.out is None else options.out
    if out.suffix not in SUFFIXES:
        raise InvalidOption(f"--out must end in {' or '.join(SUFFIXES)}; got {out}.")
    # Before the logs are read, which may take long.
    load_pyplot("plot")
    replace = options.overwrite or options.out is None
    with OutputFiles([out], replace=replace, own=MARK):
        groups = find_groups(options.folders)
        panels = _panels(groups, options)
        with styled(options.width):
            # Saved within the style: its resolution and fonts are asked for only then.
            save(drawn(groups, panels, options), out)
    for group in groups:
        count = len(group.runs)
        print(f"{group.label}: {count} {'run' if count == 1 else 'runs'}")
    print(f"wrote {as_typed(out)}")
    return 0


def _panels(groups: Sequence[Group], options: argparse.Namespace) -> list[str]:
    """Return the columns that get a panel each."""
    # In the order of the logs, in which panels of "all" then are: a set has none.
    known = list(dict.fromkeys(n for group in groups for one in group.runs for n in one.columns))
    asked: list[str] | None = None if options.y == ["all"] else options.y
    for name in [options.x, *(asked or ())]:
        if name not in known:
            raise UnknownName(
                f"no run has a column {name!r}{suggestion(name, known)}; columns: "
                f"{', '.join(known)}"
            )
    if asked is not None:
        return asked
    others = [name for name in known if name != options.x]
    if not others:
        raise UnknownName(f"there is nothing to draw over {options.x!r}; columns: {known}")
    main = [name for name in MAIN if name in others]
    return main if main and options.y is None else others


def drawn(groups: Sequence[Group], panels: Sequence[str], options: argparse.Namespace) -> Any:
    """Return a figure with a panel per column and a curve per group; see `styled`."""
    pyplot = load_pyplot("plot")
    from matplotlib.ticker import EngFormatter

    from plangym_ext.run.logs.runs import shared_names

    wide = min(_PER_LINE, len(panels))
    high = math.ceil(len(panels) / wide)
    width = WIDTHS[options.width] or 5.0 * wide
    height = 0.72 * width / wide * high
    figure, axes = pyplot.subplots(high, wide, figsize=(width, height), squeeze=False)
    # A column with a point or two would else have an axis of its own.
    for axis in axes.flat[1 : len(panels)]:
        axis.sharex(axes.flat[0])
    for axis, name in zip(axes.flat, panels, strict=False):
        for number, group in enumerate(groups):
            # By its number: a group without this column would shift the colours of the others.
            _draw_curve(axis, group, f"C{number}", name, options)
        axis.set(xlabel=_TITLES.get(options.x, options.x), ylabel=_TITLES.get(name, name))
        if options.x == "step":
            axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.flat[0].set_title(shared_names(groups))
    # One for all panels, which would repeat it.
    axes.flat[0].legend()
    # The grid is a rectangle, of which the last row may not be full.
    for axis in axes.flat[len(panels) :]:
        axis.axis("off")
    return figure


def _draw_curve(
    axis: Any, group: Group, color: str, name: str, options: argparse.Namespace
) -> None:
    runs = [
        (one.columns[options.x], one.columns[name])
        for one in group.runs
        if options.x in one.columns and name in one.columns
    ]
    curve = aggregated(runs, options.band, options.statistic, smooth=options.smooth, points=_POINTS)
    count = len(group.runs)
    label = f"{group.label} ({count} {'seed' if count == 1 else 'seeds'})"
    if not len(curve.x):
        axis.plot([], [], color=color, label=label)  # for the legend, which is of all panels
        return
    # From here on fewer seeds are left than before: a mean that may jump, and is marked so.
    whole = int(np.flatnonzero(curve.seeds == curve.seeds.max())[-1]) + 1
    # A single point draws no line: it needs a marker.
    marker = "o" if whole == 1 else ""
    axis.plot(curve.x[:whole], curve.mean[:whole], color=color, marker=marker, label=label)
    axis.fill_between(
        curve.x[:whole], curve.low[:whole], curve.high[:whole], alpha=0.2, color=color, lw=0
    )
    # From the last whole point on, so that the dots join the line.
    axis.plot(curve.x[whole - 1 :], curve.mean[whole - 1 :], color=color, ls=":")


Floats = npt.NDArray[np.float64]

BANDS = ("bootstrap", "std", "none")


class Curve(NamedTuple):
    """A mean curve over runs, `[points]` each."""

    x: Floats
    mean: Floats  # or what the statistic is
    low: Floats
    high: Floats
    seeds: npt.NDArray[np.int64]  # runs that a point is of


def aggregated(
    runs: Sequence[tuple[Floats, Floats]],
    band: str,
    statistic: str = "mean",
    *,
    smooth: int = 1,
    points: int | None = None,
) -> Curve:
    """Return the mean of some curves, at their common steps.

    Between two points of a run it is interpolated; before its first and after its last
    it does not count. Points without a number are left out.

    Args:
        runs: (x, y) each; x need not be sorted.
        band: "bootstrap" for the 95 % interval of the statistic, "std" for one standard
            deviation on either side, "none".
        statistic: "mean", or "iqm": the mean of the middle half.
        smooth: points of a run whose mean stands for each, the last of them.
        points: at most; None: every x that one of the runs has.
    """
    clean = [_clean(x, y) for x, y in runs]
    clean = [(x, _smoothed(y, smooth)) for x, y in clean if len(x)]
    if not clean:
        nothing = np.zeros(0)
        return Curve(nothing, nothing, nothing, nothing, np.zeros(0, np.int64))
    grid = np.unique(np.concatenate([x for x, _ in clean]))
    if points is not None and len(grid) > points:
        grid = np.linspace(grid[0], grid[-1], points)
    # Left to itself `np.interp` holds the last value: a run that has ended would go on for ever.
    table = np.array([np.interp(grid, x, y, left=np.nan, right=np.nan) for x, y in clean])
    columns = [values[np.isfinite(values)] for values in table.T]
    # Between two runs that do not overlap an even grid has points of none.
    there = np.array([len(values) > 0 for values in columns])
    found = [_point(values, band, statistic) for values in columns if len(values)]
    count = np.array([len(values) for values in columns], np.int64)
    middle, low, high = np.array(found).T
    return Curve(grid[there], middle, low, high, count[there])


def _clean(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    there = np.isfinite(x) & np.isfinite(y)
    # `np.interp` takes ascending x, and does not say so if they are not.
    order = np.argsort(x[there], kind="stable")
    return x[there][order], y[there][order]


def _smoothed(y: Floats, window: int) -> Floats:
    """Return for each point the mean of the last `window` ones, of fewer at the beginning."""
    if window <= 1:
        return y
    # Sums bear this, as `_clean` has dropped what is no number: one would spoil all after it.
    sums = np.concatenate([[0.0], np.cumsum(y)])
    ends = np.arange(1, len(y) + 1)
    begins = np.maximum(0, ends - window)
    found: Floats = (sums[ends] - sums[begins]) / (ends - begins)
    return found


def _point(values: Floats, band: str, statistic: str) -> tuple[float, float, float]:
    """Return the middle and the ends of the band at one x."""
    if band == "bootstrap" and len(values) > 1:
        return mean_interval(values.tolist(), statistic=statistic)
    # Of a single run "bootstrap" has nothing to draw from again: its band has no width.
    middle = float(STATISTICS[statistic](values[None])[0])
    spread = float(values.std()) if band == "std" else 0.0
    return middle, middle - spread, middle + spread
