"""How fast batches are, beside plangym, beside the physical limit, and what they cost.

    python tests/benchmarks/step_batch.py --only peer limit --rounds 7
    tox -e bench -- --only peer

Every round measures ours and what it is compared with in turn; the median of the
rounds' ratios is held against the target, and the least and the greatest are printed
beside it. A cell that is in the output file already is not measured again; --again does.
Without plangym, which `tox -e bench` installs, the cells of "peer" are left out.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stepping import (
    against_peer,
    balance,
    machine,
    overhead,
    peer,
    rollout,
    scaling,
    share_of_limit,
    start_up,
)
from stepping.cases import CASES
from stepping.report import report
from table.sections import write_section

from plangym_ext.run.files import write_json
from plangym_ext.run.progress import ProgressLine

PARTS = ("peer", "limit", "overhead", "rollout", "startup", "scaling", "balance")
Cell = Callable[[], list[dict[str, Any]]]


def cells(options: argparse.Namespace) -> dict[str, Cell]:
    """Every cell that was asked for, by its name."""
    n, rounds, seconds = options.workers, options.rounds, options.seconds
    chosen = [case for case in CASES if not options.envs or case.name in options.envs]
    found: dict[str, Cell] = {}
    for part in options.only:
        if part == "peer" and peer.version() is None:
            print("peer: plangym is not installed; run it by `tox -e bench`")
        elif part == "peer":
            for case in chosen:
                found[f"peer {case.name}"] = lambda case=case: against_peer.measure(
                    case, n, rounds, seconds
                )
        elif part == "limit":
            for case in chosen:
                found[f"limit {case.name}"] = lambda case=case: share_of_limit.measure(
                    case, n, rounds, seconds
                )
    others: dict[str, Cell] = {
        "overhead": lambda: overhead.measure(n, rounds, seconds),
        "rollout": lambda: rollout.measure(n, rounds, seconds),
        "startup": lambda: start_up.measure(min(rounds, 3)),
        "scaling": lambda: scaling.measure(min(rounds, 3), seconds),
        "balance": lambda: balance.measure(n, rounds, seconds),
    }
    return found | {name: cell for name, cell in others.items() if name in options.only}


def print_table(results: dict[str, Any], names: list[str]) -> None:
    """One line per finding; medians, least and greatest of the rounds."""
    print(f"{'':56} {'median':>9} {'min':>9} {'max':>9}      target  met")
    for name in names:
        for line in results[name]["findings"]:
            target = ""
            if line["at_least"] is not None:
                target = f">= {line['at_least']:g}"
            if line["at_most"] is not None:
                target = f"<= {line['at_most']:g}"
            met = {True: "yes", False: "NO", None: ""}[line["met"]]
            figures = "".join(f" {line[key]:9.3g}" for key in ("median", "min", "max"))
            print(f"{line['name']:56}{figures} {line['unit']:4} {target:>7}  {met}")
            beside = [
                f"{key} {value['median']:,.4g}" if isinstance(value, dict) else f"{key} {value}"
                for key, value in line["beside"].items()
            ]
            if beside:
                print(f"    {', '.join(beside)}")


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts to run")
    names = [case.name for case in CASES]
    parser.add_argument("--envs", nargs="+", choices=names, help="of peer and limit")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="of each contestant in each round"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/step_batch.json"))
    parser.add_argument("--page", type=Path, help="page on which to put all that is in the file")
    parser.add_argument("--again", action="store_true", help="measure what is there, too")
    return parser.parse_args()


def main() -> None:
    options = parsed()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(options.out.read_text()) if options.out.exists() else {}
    here = machine.described()
    results = kept.get("results", {}) if kept.get("machine") == here else {}
    wanted = cells(options)
    line = ProgressLine()
    for name, cell in wanted.items():
        settings = {key: vars(options)[key] for key in ("workers", "rounds", "seconds")}
        known = results.get(name)
        if known and known["settings"] == settings and not options.again:
            continue
        line.update(f"measuring {name}", force=True)
        before = machine.load()
        findings = cell()
        load = [before, machine.load()]
        date = time.strftime("%Y-%m-%d")
        results[name] = {"settings": settings, "load": load, "date": date, "findings": findings}
        write_json(options.out, {"machine": here, "results": results})
    line.end("done")
    print(", ".join(f"{key} {value}" for key, value in here.items()))
    loads = [figure for name in wanted for figure in results[name]["load"]]
    print(f"load average {min(loads, default=0)} to {max(loads, default=0)}")
    print_table(results, list(wanted))
    if options.page is not None:
        # In the order of the parts, whatever was measured first.
        ordered = {name: results[name] for name in wanted} | results
        write_section(options.page, "step_batch", report(here, ordered))


if __name__ == "__main__":
    main()
