"""Updates of PPO and A2C per second, beside Stable-Baselines3's: the same layers and rows, in turn.

    python tests/benchmarks/updates.py --peer-python PATH

Nothing is played meanwhile: one fragment is learned from again and again, on one thread. Ours has
returns and advantages among it, theirs has not. The peer runs in the first Python that has it,
ours or one of `--peer-python`; else it is left out, and the table says so.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from table.cells import add_options, kept_results, measure_alone, pythons_of, to_measure
from table.contestants import Contestant
from table.tasks import task_named

from plangym_ext.run.files import write_json
from plangym_ext.run.progress import ProgressLine

_ROWS = 8


def _line(name: str) -> list[Contestant]:
    """Ours in compiled code and by autograd, and theirs."""
    return [
        Contestant("ours, compiled", f"updating.ours:{name}"),
        Contestant("ours, autograd", f"updating.ours:{name}_by_autograd"),
        Contestant("SB3", f"updating.peers:{name}", "stable_baselines3"),
    ]


#: Name -> env and contestants.
CELLS = {
    "PPO CartPole": ("CartPole-v1", _line("ppo")),
    "PPO HalfCheetah": ("HalfCheetah-v5", _line("ppo")),
    "A2C CartPole": ("CartPole-v1", _line("a2c")),
}


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="TEXT", help="cells whose name has it")
    add_options(parser, rounds=5, seconds=1.0, out="runs/updates.json")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    contestants = [who for _, line in CELLS.values() for who in line]
    options.chosen, peers = pythons_of(options.peer_python, contestants)
    kept = kept_results(options.out, peers)
    line = ProgressLine()
    names = [n for n in CELLS if not options.only or any(text in n for text in options.only)]
    for name in to_measure(names, kept["results"], options, line):
        env_id, who = CELLS[name]
        found = measure_alone(task_named(env_id), _ROWS, who, options)
        found["medians"] = {key: statistics.median(rates) for key, rates in found["rates"].items()}
        kept["results"][name] = found
        write_json(options.out, kept)
    print(table_of(kept["results"]))
    line.end(f"{len(kept['results'])} cells are in {options.out}")


def table_of(results: dict[str, Any]) -> str:
    """A line for each cell and contestant: updates per second."""
    lines = ["| updates per second | contestant | median |", "|---|---|---|"]
    for cell, found in results.items():
        told = {key: f"{rate:,.0f}" for key, rate in found["medians"].items()}
        for key, text in (told | found["left_out"]).items():
            lines.append(f"| {cell} | {key} | {text} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
