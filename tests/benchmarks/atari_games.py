"""What Rollout-IW scores in 49 Atari games, beside its published scores and people.

    python tests/benchmarks/atari_games.py --page docs/benchmarks.md

The protocol is that of `quality.py`: one set of options for all games. An episode takes about
three minutes with 116 calls a move; finished ones are kept in the JSON file, so run it again
to go on after an interrupt. With `--calls 12` each move may cost a tenth.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from quality import described
from scoring import atari
from scoring.anchors import ANCHORS
from scoring.cells import Cell
from scoring.games_page import part
from scoring.kept import Kept
from scoring.page import summary
from scoring.pool import played
from table.sections import write_section

from plangym_ext.run.progress import ProgressLine

RESULTS = Path(__file__).parent / "scoring" / "games.json"


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--games", nargs="+", metavar="GAME", help="only these; all 49 else")
    parser.add_argument(
        "--planners",
        nargs="+",
        choices=atari.PLANNERS,
        default=["rollout-iw"],
        help="others play six of the games",
    )
    parser.add_argument(
        "--calls", type=int, nargs="+", default=[atari.CALLS], help="simulator calls a move"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1], help="one episode each")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--stop-after", type=float, default=float("inf"), help="seconds; begin nothing later"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="where episodes are kept")
    parser.add_argument("--page", type=Path, help="docs/benchmarks.md, to write its part")
    options = parser.parse_args()
    for game in options.games or ():
        if game not in ANCHORS:
            parser.error(f"game must be one of {', '.join(ANCHORS)}; got {game!r}")
    return options


def wanted(options: argparse.Namespace) -> list[Cell]:
    """The cells that were asked for, all games with one seed before the next seed."""
    return [
        atari.game_cell(game, planner, calls, (seed,))
        for seed in options.seeds
        for planner in options.planners
        for calls in options.calls
        for game in (ANCHORS if planner == "rollout-iw" else atari.GAMES)
        if not options.games or game in options.games
    ]


def main() -> None:
    options = parsed()
    began, line = time.monotonic(), ProgressLine()
    kept = Kept(options.out, described())
    tasks = [(cell, seeds) for cell in wanted(options) for seeds in kept.missing(cell)]
    stop = lambda: time.monotonic() - began > options.stop_after  # noqa: E731
    for cell, rows in played(tasks, options.processes, "", stop, line):
        kept.add(cell, rows)
        line.update(summary(cell, kept.episodes(cell)), force=True)
    line.end(f"{time.monotonic() - began:.0f} s")
    text = part(kept)
    print(text)
    if options.page:
        write_section(options.page, "atari games", text)


if __name__ == "__main__":
    main()
