"""How soon a return is reached: ours beside Stable-Baselines3 as rl-zoo3 has tuned it.

    python tests/benchmarks/time_to_return.py --sb3-python PATH --page docs/benchmarks.md

A cell is a bound, who is to reach it, and a seed; each is run in a process of its own, in turn,
and writes a file. One that is there is not run again, so that the program goes on where it was
stopped. Clocks stand still while episodes are played to see what was reached.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_runs.bounds import BOUNDS, FIRST_SEED, Bound
from agent_runs.cells import asked, file_name
from stepping import machine
from table.sections import write_section

from plangym_ext.run.files import write_json
from plangym_ext.run.settings.settings import plain

#: Who is compared, as the page has them.
_WHO = {"ours": "ours", "sb3": "SB3, rl-zoo3"}
Rows = Mapping[str, Mapping[str, list[Mapping[str, Any]]]]


def request_of(bound: Bound, who: str, seed: int, *, quick: bool) -> dict[str, Any]:
    """Return what the process is asked for."""
    config = bound.config(seed)
    ours = plain(config)
    peers = bound.peer_settings(seed)
    if quick:
        ours["rounds"] = bound.every // config.steps_per_round
        peers["steps"] = bound.every
    return {
        "settings": ours if who == "ours" else peers,
        "reached": bound.reached,
        "every": bound.every,
        "episodes": bound.episodes,
        "seed": FIRST_SEED,
    }


def run(name: str, who: str, seed: int, out: Path, python: str, *, quick: bool) -> None:
    """Run a cell and write its file.

    Raises:
        subprocess.CalledProcessError: it failed; what it said is on standard error.
    """
    request = request_of(BOUNDS[name], who, seed, quick=quick)
    partial = out.with_suffix(".run")
    before = machine.load()
    module = "agent_runs.our_bound" if who == "ours" else "agent_runs.sb3_bound"
    interpreter = sys.executable if who == "ours" else python
    asked(interpreter, module, {**request, "out": str(partial)}, 1)
    found = json.loads(partial.read_text())
    about = {"bound": name, "who": who, "seed": seed, "load": [before, machine.load()]}
    day = datetime.date.today().isoformat()
    write_json(out, {**about, "date": day, "settings": request["settings"], **found})
    partial.unlink()


def results(folder: Path) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return what the files of a folder say: by bound, and by who, in the order of seeds."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for path in sorted(folder.glob("*.json")):
        row = json.loads(path.read_text())
        kept = ("seed", "date", "load", "versions")
        told = {key: row[key] for key in kept} | {"last": row["evaluations"][-1]}
        found.setdefault(row["bound"], {}).setdefault(row["who"], []).append(told)
    return {name: found[name] for name in BOUNDS if name in found}


def page(rows: Rows) -> str:
    """The part of the page of benchmarks."""
    return "\n".join(["## Time to a return", "", *_about(rows), *_table(rows)])


def _about(rows: Rows) -> Iterator[str]:
    yield "`tests/benchmarks/time_to_return.py`: our PPO beside Stable-Baselines3's with the"
    yield "settings that rl-zoo3 has tuned for it, one process and one thread each, in turn. Now"
    yield "and then the best actions are played, with clocks standing still; a run is over when"
    yield "their mean return reaches the bound. Seconds go from the making of the envs on, and are"
    yield "medians; in brackets the least and the greatest. Those of the processor are told because"
    yield "other programs may run beside. A run that does not reach its bound counts with all it"
    yield "took."
    yield ""
    runs = [run for by_who in rows.values() for some in by_who.values() for run in some]
    days = sorted({run["date"] for run in runs})
    versions = {key: value for run in runs for key, value in run["versions"].items()}
    shown = ("plangym-ext", "stable_baselines3", "torch", "numpy", "gymnasium", "python")
    if days:
        yield f"- Date: {days[0]}" + (f" to {days[-1]}" if days[1:] else "") + "."
        yield f"- With: {', '.join(f'{n} {versions[n]}' for n in shown if n in versions)}."
        loads = [load for run in runs for load in run["load"]]
        yield f"- Load of the machine: {min(loads):.1f} to {max(loads):.1f}."
    for name in rows:
        bound = BOUNDS[name]
        played = f"{bound.episodes} episodes after every {bound.every:,} steps"
        yield f"- {name}: {played}; {bound.note}."
    yield ""


def _table(rows: Rows) -> Iterator[str]:
    yield "| return | who | seeds | reached by | steps | seconds | of the processor |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for name, by_who in rows.items():
        for who in _WHO:
            if who in by_who:
                yield _row(name, who, by_who[who])
    yield ""
    for name, by_who in rows.items():
        if set(_WHO) <= set(by_who):
            wall, processor = (_ratio(by_who, key) for key in ("seconds", "processor_seconds"))
            yield f"- {name}: ours takes {wall:.3f} of the peer's seconds, and {processor:.3f} of"
            yield f"  those of the processor; the aim is {BOUNDS[name].aim:g} at most."


def _row(name: str, who: str, runs: list[Mapping[str, Any]]) -> str:
    lasts = [run["last"] for run in runs]
    reached = sum(last["return"] >= BOUNDS[name].reached for last in lasts)
    cells = [name, _WHO[who], str(len(runs)), str(reached)]
    cells.append(_spread([last["steps"] for last in lasts], ",.0f"))
    cells += [
        _spread([last[k] for last in lasts], ",.1f") for k in ("seconds", "processor_seconds")
    ]
    return f"| {' | '.join(cells)} |"


def _spread(found: list[float], form: str) -> str:
    middle = f"{statistics.median(found):{form}}"
    return f"{middle} ({min(found):{form}} to {max(found):{form}})"


def _ratio(by_who: Mapping[str, list[Mapping[str, Any]]], key: str) -> float:
    ours, peers = (statistics.median(run["last"][key] for run in by_who[who]) for who in _WHO)
    return ours / peers


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="TEXT", help="bounds whose name has it")
    parser.add_argument("--who", nargs="+", choices=list(_WHO), default=list(_WHO))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument(
        "--sb3-python",
        default=sys.executable,
        metavar="PATH",
        help="an interpreter with stable_baselines3 (default: this one)",
    )
    parser.add_argument("--quick", action="store_true", help="up to the first evaluation of each")
    parser.add_argument(
        "--stop-after", type=float, default=float("inf"), help="seconds; begin no cell later"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/time_to_return"))
    parser.add_argument("--json", type=Path, help="write the summary of all cells here")
    parser.add_argument("--page", type=Path, help="docs/benchmarks.md, to write its part")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    names = [n for n in BOUNDS if not options.only or any(text in n for text in options.only)]
    failed, began = [], time.monotonic()
    for name, seed, who in ((n, s, w) for n in names for s in options.seeds for w in options.who):
        out = options.out / file_name(name, who, seed)
        if out.exists() or time.monotonic() - began > options.stop_after:
            continue
        print(f"{name}, {who}, seed {seed}", flush=True)
        try:
            run(name, who, seed, out, options.sb3_python, quick=options.quick)
        except subprocess.CalledProcessError as error:
            failed.append(f"{out.name}: exit status {error.returncode}")
    found = results(options.out)
    print(page(found))
    if options.json:
        write_json(options.json, found)
    if options.page:
        write_section(options.page, "time_to_return", page(found))
    for line in failed:
        print(f"failed: {line}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
