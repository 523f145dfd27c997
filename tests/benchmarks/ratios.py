"""The picture at the top of the benchmarks page, drawn from the table below it.

    python tests/benchmarks/ratios.py --out docs/_static/ratios.svg

Needs matplotlib (the extra `plot`). It is to be drawn again when the table has changed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plangym_ext.run.figures import load_pyplot, styled

#: Rows of the batches that are drawn.
ROWS = "64"
#: Column of the table -> what it is called; the raw simulator is a limit and no peer.
PEERS = {
    "EnvPool": "EnvPool",
    "gymnasium, own": "gymnasium's or ale-py's own vector env",
    "SB3, TorchRL": "best of SB3 and TorchRL",
    "plangym": "plangym, from states",
}
#: Seen on light and on dark pages alike.
_INK = "#808890"
_HEIGHT, _BAR = 0.95, 0.2  # inches of an env; share of it of one bar


def ratios(page: str) -> dict[str, dict[str, float]]:
    """Return ratio by peer, by env, of the table "Ratios" of the page."""
    table = page.partition("## Ratios")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in _lines(table)]
    names = rows[0][1:]
    found: dict[str, dict[str, float]] = {}
    for first, *cells in rows[2:]:
        env, _, count = first.rpartition(", ")
        if count == ROWS:
            known = zip(names, cells, strict=True)
            found[env] = {name: float(cell) for name, cell in known if cell and name in PEERS}
    return found


def _lines(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if line.startswith("|"))


def drawn(found: dict[str, dict[str, float]]) -> Any:
    """Return the figure: bars to the right of 1 where we are faster, to its left where not."""
    pyplot = load_pyplot("the picture")
    figure, axis = pyplot.subplots(figsize=(8, _HEIGHT * len(found)))
    colors = pyplot.rcParams["axes.prop_cycle"].by_key()["color"]
    for number, peer in enumerate(PEERS):
        known = [(i, one[peer]) for i, one in enumerate(found.values()) if peer in one]
        places = [i + (number - 1.5) * _BAR for i, _ in known]
        widths = [ratio - 1.0 for _, ratio in known]
        axis.barh(places, widths, _BAR, left=1.0, color=colors[number], label=PEERS[peer])
        for place, (_, ratio) in zip(places, known, strict=True):
            text = f" {ratio:.3g} "
            side = "left" if ratio >= 1 else "right"
            axis.text(ratio, place, text, va="center", ha=side, fontsize=8, color=_INK)
    axis.axvline(1.0, color=_INK, lw=1)
    axis.set(xscale="log", xlabel="steps per second of ours over those of others")
    axis.set_xlim(left=0.6)
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_yticks(range(len(found)), found)
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")
    axis.legend(loc="lower right", labelcolor=_INK)
    axis.tick_params(colors=_INK, which="both")
    axis.xaxis.label.set_color(_INK)
    for spine in axis.spines.values():
        spine.set_color(_INK)
    figure.patch.set_alpha(0.0)
    axis.patch.set_alpha(0.0)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--page", type=Path, default=Path("docs/benchmarks_stepping.md"))
    parser.add_argument("--out", type=Path, default=Path("docs/_static/ratios.svg"))
    options = parser.parse_args()
    found = ratios(options.page.read_text())
    with styled():
        figure = drawn(found)
        figure.tight_layout()
        # What is drawn, for the test that compares it with the table; no date: the same picture
        # is the same file.
        about = {"Description": json.dumps(found), "Date": None}
        figure.savefig(options.out, metadata=about if options.out.suffix == ".svg" else None)
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
