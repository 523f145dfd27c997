"""What programs share that run ours beside peers: options, cells, what came of them."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from stepping import machine
from table.sections import write_section

from plangym_ext.run.files import write_json

FOLDER = Path(__file__).parents[1]
#: Peers, and the package that an interpreter must have to run them.
PEERS = {"sb3": "stable_baselines3", "sbx": "sbx", "sf": "sample_factory"}
WHO = ("ours", *PEERS)


class Cell(NamedTuple):
    """One run.

    Attributes:
        name: of the task, or of the bound.
        who: one of `WHO`.
        seed: of the run.
    """

    name: str
    who: str
    seed: int

    @property
    def file(self) -> str:
        """Name of its file in the folder of results."""
        return f"{re.sub('[^a-z0-9]+', '_', self.name.lower())}-{self.who}-{self.seed}.json"


def parser(
    doc: str | None, *, out: str, seeds: int, only: str, quick: str, who: tuple[str, ...] = WHO
) -> Any:
    """Return the options that the programs have in common.

    Args:
        doc: of the program.
        out: folder of the cells' files.
        seeds: how many, if none are named.
        only: what `--only` says of itself.
        quick: the same of `--quick`.
        who: whom the program compares.
    """
    found = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("--only", nargs="+", metavar="TEXT", help=only)
    found.add_argument("--who", nargs="+", choices=who, default=list(who))
    found.add_argument("--seeds", nargs="+", type=int, default=list(range(seeds)))
    for peer, package in PEERS.items():
        if peer in who:
            found.add_argument(
                f"--{peer}-python",
                default=sys.executable,
                metavar="PATH",
                help=f"an interpreter with {package} (default: this one)",
            )
    found.add_argument("--quick", action="store_true", help=quick)
    found.add_argument(
        "--stop-after", type=float, default=float("inf"), help="seconds; begin no cell later"
    )
    found.add_argument("--out", type=Path, default=Path(out), help="folder of cells")
    found.add_argument("--json", type=Path, help="write the summary of all cells here")
    found.add_argument("--page", type=Path, help="docs/benchmarks.md, to write its part")
    return found


def run_left(cells: Iterable[Cell], options: Any, run: Callable[[Cell], None]) -> list[str]:
    """Run the cells that have no file yet; return those that failed, a line each."""
    options.out.mkdir(parents=True, exist_ok=True)
    left = [cell for cell in cells if not (options.out / cell.file).exists()]
    lacking = [peer for peer in {cell.who for cell in left} if not _can_run(peer, options)]
    failed, began = [], time.monotonic()
    for number, cell in enumerate(left):
        if cell.who in lacking:
            python, package = _python(cell.who, options), PEERS[cell.who]
            print(f"{cell.name}: left out, {python} has no {package}")
            continue
        if time.monotonic() - began > options.stop_after:
            print(f"stopped before {cell.file}; run it again to go on")
            break
        print(f"{cell.name}, {cell.who}, seed {cell.seed}: {number + 1} of {len(left)}", flush=True)
        try:
            run(cell)
        except subprocess.CalledProcessError as error:
            failed.append(f"{cell.file}: exit status {error.returncode}")
    return failed


def _python(who: str, options: Any) -> str:
    """Return the interpreter that runs ours, or a peer."""
    found: str = sys.executable if who == "ours" else getattr(options, f"{who}_python")
    return found


def _can_run(who: str, options: Any) -> bool:
    """Return whether the interpreter of a peer has its package."""
    if who == "ours":
        return True
    asked = f"import importlib.util as u, sys; sys.exit(u.find_spec({PEERS[who]!r}) is None)"
    command = [_python(who, options), "-P", "-c", asked]
    return subprocess.run(command, check=False).returncode == 0


def run_apart(
    cell: Cell,
    options: Any,
    kind: str,
    request: Mapping[str, Any],
    threads: int,
    about: Mapping[str, Any],
) -> None:
    """Run a cell in a process of its own, and write its file.

    Args:
        cell: what is run.
        options: of the program.
        kind: the modules that run it are `our_KIND`, `sb3_KIND` and so on.
        request: what the module is asked, with "settings".
        threads: of the process.
        about: what the file says first.

    Raises:
        subprocess.CalledProcessError: it failed; what it said is on standard error.
    """
    out = options.out / cell.file
    partial = out.with_suffix(".run")
    before = machine.load()
    subprocess.run(
        [
            _python(cell.who, options),
            "-P",
            "-m",
            f"agent_runs.{'our' if cell.who == 'ours' else cell.who}_{kind}",
        ],
        input=json.dumps({**request, "out": str(partial)}),
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(FOLDER), "OMP_NUM_THREADS": str(threads)},
        stdout=subprocess.DEVNULL,
    )
    told = {
        **about,
        "who": cell.who,
        "seed": cell.seed,
        "date": datetime.date.today().isoformat(),
        "load": [before, machine.load()],
        "settings": request["settings"],
    }
    write_json(out, {**told, **json.loads(partial.read_text())})
    partial.unlink()


def rows_of(folder: Path, key: str, names: Iterable[str]) -> dict[str, dict[str, list[Any]]]:
    """Return what the files of a folder say: by `key`, and by who, in the order of seeds."""
    found: dict[str, dict[str, list[Any]]] = {}
    for path in sorted(folder.glob("*.json")):
        row = json.loads(path.read_text())
        found.setdefault(row[key], {}).setdefault(row["who"], []).append(row)
    return {name: found[name] for name in names if name in found}


def tell(options: Any, section: str, text: str, found: Any, failed: list[str]) -> int:
    """Show and write what was found; return the exit status.

    Args:
        options: of the program.
        section: of the page.
        text: what it says.
        found: what `--json` has.
        failed: lines of `run_left`.
    """
    print(text)
    if options.json:
        write_json(options.json, found)
    if options.page:
        write_section(options.page, section, text)
    for line in failed:
        print(f"failed: {line}", file=sys.stderr)
    return 1 if failed else 0
