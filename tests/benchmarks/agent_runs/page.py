"""The table of `training.py`, in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agent_runs.curve import by_tenths
from agent_runs.tasks import LEARNING, SPEED
from plangym_ext.run.bootstrap import mean_interval

Rows = Mapping[str, Mapping[str, list[Mapping[str, Any]]]]
_NAMES = {"ours": "ours", "sb3": "SB3", "sbx": "SBX", "sf": "Sample Factory"}
#: Ours is to be so many times as fast as peers of which a task itself says nothing.
_AIMS = {"sbx": 1.1, "sf": 1.0}


def page(rows: Rows) -> str:
    """Return all that a summary says; see `cells.summary`."""
    lines = ["## Training agents", "", *_about(rows), *_learning(rows), *_curves(rows)]
    lines += _speed(rows)
    return "\n".join(lines).rstrip()


def _about(rows: Rows) -> Iterator[str]:
    yield "`tests/benchmarks/training.py`: each run in a process of its own, with one thread of"
    yield "torch, but two of Pong; Stable-Baselines3 with the same settings, made of ours by the"
    yield "program."
    yield ""
    runs = [run for by_who in rows.values() for some in by_who.values() for run in some]
    days = sorted({run["date"] for run in runs})
    versions = {key: value for run in runs for key, value in run["versions"].items()}
    shown = ("plangym-ext", "stable_baselines3", "sbx-rl", "jax", "sample-factory")
    shown += ("torch", "numpy", "gymnasium", "python")
    found = [f"{name} {versions[name]}" for name in shown if name in versions]
    if days:
        yield f"- Date: {days[0]}" + (f" to {days[-1]}" if days[1:] else "") + "."
        yield f"- With: {', '.join(found)}."
    yield from _on_gpus(rows)
    yield ""


def _on_gpus(rows: Rows) -> Iterator[str]:
    """Yield a line for each GPU and version of torch, with the runs that have learned there."""
    seeds: dict[str, dict[str, list[str]]] = {}
    pairs = ((name, *pair) for name, by_who in rows.items() for pair in by_who.items())
    for name, who, runs in pairs:
        for run in (run for run in runs if "gpu" in run["versions"]):
            where = "{gpu} with torch {torch}".format(**run["versions"])
            of_gpu = seeds.setdefault(where, {})
            of_gpu.setdefault(f"{name}, {_NAMES[who]}", []).append(str(run["seed"]))
    for where, by_task in seeds.items():
        told = [
            f"{task} (seed{'s' * (len(those) > 1)} {', '.join(those)})"
            for task, those in by_task.items()
        ]
        yield f"- Learned on {where}, all else on processors: {'; '.join(told)}."


def _learning(rows: Rows) -> Iterator[str]:
    there = [name for name in LEARNING if name in rows]
    if not there:
        return
    yield "### What is learned"
    yield ""
    yield "Interquartile mean over the seeds and its bootstrap interval of 95 %: of the mean return"
    yield "of the episodes that ended in the last tenth of the training, and of 50 episodes after"
    yield "it, the best actions played. Other programs ran beside these, so seconds are left out."
    yield "An aim is what others have published, with the deviation of their runs where they give"
    yield "it; it is of the column that is in brackets."
    yield ""
    yield "| task | steps | who | seeds | training | evaluation | aim |"
    yield "|---|---:|---|---:|---:|---:|---|"
    for name in there:
        task = LEARNING[name]
        for who, runs in rows[name].items():
            told = ""
            if task.aim is not None and who == "ours":
                spread = "" if task.spread is None else f" ± {task.spread:g}"
                told = f"{task.aim:g}{spread} ({task.aim_in}; {task.source})"
            cells = [
                name,
                f"{runs[0]['steps']:,}",
                _NAMES[who],
                str(len(runs)),
                _shown([run["training"] for run in runs]),
                _shown([run["evaluation"] for run in runs]),
                told,
            ]
            yield f"| {' | '.join(cells)} |"
    yield ""


def _shown(values: list[Any]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    mean, low, high = mean_interval(known, statistic="iqm")
    return f"{mean:.1f} [{low:.1f}, {high:.1f}]"


def _curves(rows: Rows) -> Iterator[str]:
    there = [name for name in LEARNING if name in rows and LEARNING[name].has_curve]
    if not there:
        return
    yield "### Learning from screens"
    yield ""
    yield "Mean return of the episodes that ended in each tenth of a training, first tenth first;"
    yield "a step of Pong is four frames. Other programs ran beside them on the same machine. Catch"
    yield "is a game on screens of 36 by 36 pixels in which ten balls are to be caught."
    yield ""
    tenths = " | ".join(f"{10 * i} %" for i in range(1, 11))
    yield f"| task | who | seed | steps | hours | {tenths} |"
    yield f"|---|---|---:|---:|---:|{'---:|' * 10}"
    for name in there:
        for who, runs in rows[name].items():
            for run in runs:
                cells = [name, _NAMES[who], str(run["seed"]), f"{run['steps']:,}"]
                cells += [f"{run['seconds'] / 3600:.1f}", *map(_one, by_tenths(run))]
                yield f"| {' | '.join(cells)} |"
    yield ""


def _one(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _speed(rows: Rows) -> Iterator[str]:
    there = [name for name in SPEED if name in rows]
    if not there:
        return
    yield "### How fast"
    yield ""
    yield "Steps per second of whole trainings, from the making of the envs to the end, median of"
    yield "the runs, which took turns; in brackets the least and the greatest. So the seconds in"
    yield "which envs are made and code is compiled or loaded count, which may be most of a short"
    yield "training of PPO: no rate of a longer one follows from this. Peers have no monitor"
    yield "here, and no callback. SBX is Stable-Baselines3 in JAX; its time begins when it has"
    yield "compiled, after a round that is not counted. That of Sample Factory begins with its"
    yield "first update, when its processes are there: two workers, one that infers for both, and a"
    yield "learner that does not wait for them, so that it learns from what older policies played."
    yield "Its minibatches hold whole rollouts, which those of the other tasks are shorter than."
    yield ""
    yield "| task | steps | runs | measured | ours | peer | rate | ratio | aim |"
    yield "|---|---:|---:|---|---:|---|---:|---:|---:|"
    for name in there:
        yield from _speed_rows(name, rows[name])
    yield ""


def _speed_rows(name: str, by_who: Mapping[str, list[Mapping[str, Any]]]) -> Iterator[str]:
    """Yield a row for every peer that was run, or one alone."""
    rates = {who: [run["steps"] / run["seconds"] for run in runs] for who, runs in by_who.items()}
    aims = {"sb3": SPEED[name].aim, **_AIMS}
    runs = next(iter(by_who.values()))
    begin = [name.removeprefix("speed: "), f"{runs[0]['steps']:,}", str(len(runs))]
    begin += [max(run["date"] for run in runs), _rate(rates.get("ours", []))]
    for peer in [peer for peer in aims if peer in rates] or [""]:
        ratio = ""
        if peer and "ours" in rates:
            ratio = f"{statistics.median(rates['ours']) / statistics.median(rates[peer]):.2f}"
        cells = [_NAMES[peer], _rate(rates[peer]), ratio, f"{aims[peer]:g}"] if peer else [""] * 4
        yield f"| {' | '.join([*begin, *cells])} |"


def _rate(found: list[float]) -> str:
    if not found:
        return ""
    return f"{statistics.median(found):,.0f} ({min(found):,.0f} to {max(found):,.0f})"


def reached(rows: Rows, presets: Callable[[str], str | None]) -> dict[str, Any]:
    """Return what presets have come to, which `plangym-ext train --list` shows.

    Args:
        rows: of a summary.
        presets: name of a task -> the preset that it is, unchanged; None: it is none.
    """
    found = {}
    for name, by_who in rows.items():
        preset = presets(name)
        values = [run["evaluation"] for run in by_who.get("ours", [])]
        if preset is None or not values or None in values:
            continue
        mean, low, high = mean_interval(values, statistic="iqm")
        runs = by_who["ours"]
        found[preset] = {
            "return": round(mean, 2),
            "interval": [round(low, 2), round(high, 2)],
            "seeds": len(values),
            "steps": runs[0]["steps"],
            "date": max(run["date"] for run in runs),
        }
    return found
