"""Vector envs beside each other, in turn, on two processors with two workers.

    python tests/benchmarks/vector.py --peer-python PATH

Ours beside gymnasium's `AsyncVectorEnv`, Stable-Baselines3's `SubprocVecEnv`, EnvPool and
ale-py's own vector env, and a training of SB3's PPO. A peer runs in the first Python that
has it: ours or one of `--peer-python`. A cell that is in the output file is not measured
again, unless with --again. With --page those parts of the page of the documentation are
written of which something is in the file.
"""

from __future__ import annotations

import argparse

from table.cells import add_options, kept_results, measure_alone, pythons_of, to_measure
from table.sections import write_section
from table.vectors import CELLS, CONTESTANTS, PARTS, section

from plangym_ext.run.files import write_json
from plangym_ext.run.progress import ProgressLine


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="TEXT", help="cells whose name has it")
    add_options(parser, rounds=5, seconds=0.5, out="runs/vector.json")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    options.chosen, peers = pythons_of(options.peer_python, CONTESTANTS)
    kept = kept_results(options.out, peers)
    line = ProgressLine()
    cells = {
        cell.name: cell
        for cell in CELLS
        if not options.only or any(text in cell.name for text in options.only)
    }
    for name in to_measure(list(cells), kept["results"], options, line):
        cell = cells[name]
        kept["results"][name] = measure_alone(cell.task, cell.rows, cell.contestants, options)
        write_json(options.out, kept)
    arguments = " --peer-python " + " ".join("PATH" for _ in options.peer_python)
    command = "python tests/benchmarks/vector.py --page docs/benchmarks.md"
    command += arguments if options.peer_python else ""
    for part in PARTS:
        text = section(part, kept, command)
        print(text)
        if options.page and text:
            write_section(options.page, part.name, text)
    line.end(f"{len(kept['results'])} cells are in {options.out}")


if __name__ == "__main__":
    main()
