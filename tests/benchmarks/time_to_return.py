"""How soon a return is reached: ours beside Stable-Baselines3 as rl-zoo3 has tuned it.

    python tests/benchmarks/time_to_return.py --sb3-python PATH --page docs/benchmarks.md

A cell is a bound, who is to reach it, and a seed; each is run in a process of its own, in turn,
and writes a file. One that is there is not run again, so that the program goes on where it was
stopped. Clocks stand still while episodes are played to see what was reached.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from agent_runs.bounds import BOUNDS, FIRST_SEED
from agent_runs.comparing import Cell, parser, rows_of, run_apart, run_left, tell

from plangym_ext.run.settings.settings import plain

#: Who is compared, as the page has them.
_WHO = {"ours": "ours", "sb3": "SB3, rl-zoo3"}
Rows = Mapping[str, Mapping[str, list[Mapping[str, Any]]]]


def run(cell: Cell, options: Any) -> None:
    """Run a cell and write its file; see `run_apart`."""
    bound = BOUNDS[cell.name]
    config = bound.config(cell.seed)
    settings = plain(config) if cell.who == "ours" else bound.peer_settings(cell.seed)
    if options.quick:
        ours = {"rounds": bound.every // config.steps_per_round}
        settings |= ours if cell.who == "ours" else {"steps": bound.every}
    request = {"settings": settings, "reached": bound.reached, "every": bound.every}
    request |= {"episodes": bound.episodes, "seed": FIRST_SEED}
    run_apart(cell, options, "bound", request, 1, {"bound": cell.name})


def summary(rows: Rows) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return what is kept in the repository: of each run its last evaluation."""
    kept = ("seed", "date", "load", "versions")
    return {
        name: {
            who: [
                {key: row[key] for key in kept} | {"last": row["evaluations"][-1]} for row in runs
            ]
            for who, runs in by_who.items()
        }
        for name, by_who in rows.items()
    }


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
    options = parser(
        __doc__,
        out="runs/time_to_return",
        seeds=3,
        only="bounds whose name has it",
        quick="up to the first evaluation of each",
        who=tuple(_WHO),
    ).parse_args()
    names = [n for n in BOUNDS if not options.only or any(text in n for text in options.only)]
    cells = [Cell(n, who, seed) for n in names for seed in options.seeds for who in options.who]
    failed = run_left(cells, options, lambda cell: run(cell, options))
    found = summary(rows_of(options.out, "bound", BOUNDS))
    return tell(options, "time_to_return", page(found), found, failed)


if __name__ == "__main__":
    sys.exit(main())
