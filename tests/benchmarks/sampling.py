"""Samplers beside others' collectors: the same network, envs, T and B, in turn.

    python tests/benchmarks/sampling.py --peer-python PATH

Ours beside the collection of Stable-Baselines3's PPO, TorchRL's and Tianshou's collectors and a
plain loop over EnvPool, and the workers of Sample Factory; alternating halves beside central
inference; and what a sampler costs beside env and network. A peer runs in the first Python that
has it: ours or one of `--peer-python`; others are left out, and the table says so. Sample Factory
needs a Python with gymnasium below 1 and ale-py 0.10. A cell that is in the output file is
not measured again, unless with --again. With --page the part of the page of the documentation
is written.
"""

from __future__ import annotations

import argparse
import statistics

from collecting.cells import CELLS, CONTESTANTS
from collecting.own_cost import OWN_COST, own_cost
from collecting.page import part
from table.cells import add_options, kept_results, measure_alone, pythons_of, to_measure
from table.sections import write_section

from plangym_ext.run.files import write_json
from plangym_ext.run.progress import ProgressLine


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="TEXT", help="cells whose name has it")
    add_options(parser, rounds=5, seconds=1.0, out="runs/sampling.json")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    options.chosen, peers = pythons_of(options.peer_python, CONTESTANTS)
    kept = kept_results(options.out, peers)
    line = ProgressLine()
    names = [*(cell.name for cell in CELLS), OWN_COST]
    if options.only:
        names = [name for name in names if any(text in name for text in options.only)]
    for name in to_measure(names, kept["results"], options, line):
        if name == OWN_COST:
            kept["results"][name] = own_cost(options.rounds, options.seconds)
        else:
            kept["results"][name] = measured(name, options)
        write_json(options.out, kept)
    arguments = " --peer-python " + " ".join("PATH" for _ in options.peer_python)
    command = "python tests/benchmarks/sampling.py --page docs/benchmarks.md"
    text = part(kept, command + (arguments if options.peer_python else ""))
    print(text)
    if options.page:
        write_section(options.page, "sampling", text)
    line.end(f"{len(kept['results'])} cells are in {options.out}")


def measured(name: str, options: argparse.Namespace) -> dict[str, object]:
    """All contestants of one cell."""
    (cell,) = (one for one in CELLS if one.name == name)
    found = measure_alone(cell.task, cell.rows, cell.contestants, options)
    found["medians"] = {who: statistics.median(rates) for who, rates in found["rates"].items()}
    return found


if __name__ == "__main__":
    main()
