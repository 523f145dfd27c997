"""The page of the documentation that the results are written to."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from table.contestants import CONTESTANTS, Contestant
from table.tasks import TASKS, WARM_UP

_SUMMARY = """## Batches beside others

Steps per second of whole batches; what is compared, and how far the figures are to be trusted,
stands [after the tables](#what-is-compared).

![Steps per second of ours over those of others, with 64 rows](_static/ratios.svg)

The picture has the rows of the table below with 64 rows, on a logarithmic scale.
"""
_INTRODUCTION = f"""
Random actions are prepared before. Everyone has made {WARM_UP} steps with every row before
it is measured, and resets rows whose episode has ended. Contestants run in processes of
their own and are measured in turn, round after round; a figure is the median of the
rounds. Those whose turn it is not are stopped. All of one env and number of rows are from
one run; other cells may be from another. The fastest contestant of a column is **bold**;
the raw simulator takes no part.
"""
_MEANINGS = """
- **raw simulator**: for CartPole, Pendulum and Sokoban a compiled loop of step, reset and
  observation on two threads; for the MuJoCo tasks a bare `Batch.step` loop on two
  threads, every step from the same states in motion, without observations, rewards and
  resets; for Pong an `env.step` loop of one env in each of two processes. It is measured
  once and shown in both tables, as a limit of arithmetic, not of any interface.
- **ours**: worker processes, and EnvPool's and plangym's workers, are two; the kernel and
  the mujoco backend choose their threads themselves. Results are whole: states (from
  states), observations, rewards, flags and numeric infos.
- **from states**: all rows are restored, stepped once and captured in each call, from the
  same states in motion for us and for plangym. Without states plangym has no rows.
- EnvPool brings simulators of its own, whose versions differ from gymnasium's. Its Pong is
  set to whole colour screens and sticky actions, as gymnasium's; its Sokoban is another
  game and left out. Its HalfCheetah, Ant and Humanoid are its v5.
- Pong's own vector env (ale-py's) is measured as `gymnasium.make_vec` makes it: it returns
  stacks of four grey screens of 84x84 where ours are whole colour screens, and it has
  threads of its own. So the two do not do the same work.
- plangym's Pong plays four steps of one frame where ours plays one of four.
- SubprocVecEnv and `ParallelEnv` of TorchRL start by fork; AsyncVectorEnv as gymnasium does.
  An ended row is reset within the same step by SB3, TorchRL and us, and in a step of its
  own, which counts as one, by gymnasium and EnvPool.
"""


def page(kept: dict[str, Any], command: str) -> str:
    """The whole page, in Markdown."""
    results = kept["results"]
    rivals = list(_rivals(results))
    parts = [_SUMMARY, "## Ratios\n" + _RATIOS + "\n".join(_ratios(results)) + "\n"]
    parts.append("## Where others are faster\n\n" + "\n".join(_defeats(rivals)) + "\n")
    for from_states, title in ((False, "Plain stepping"), (True, "Stepping from states")):
        parts.append(f"## {title}\n")
        parts += [_table(results, task.env_id, from_states) for task in TASKS]
    parts.append("## What is compared\n" + _INTRODUCTION + _MEANINGS)
    parts.append("## How far the figures are to be trusted\n\n" + _setting(kept, command))
    parts.append("## Backends that are not the best there\n\n" + "\n".join(_others(rivals)) + "\n")
    parts.append("## What was not measured\n\n" + "\n".join(_left_out(results)) + "\n")
    return "\n".join(parts)


#: Greatest over least of a figure's rounds, from which it is named as unsteady.
_UNSTEADY = 1.5


def _setting(kept: dict[str, Any], command: str) -> str:
    cells = kept["results"].values()
    loads = [figure for cell in cells for figure in cell["load"]]
    dates = sorted({cell["date"] for cell in cells})
    rounds = sorted({cell["settings"]["rounds"] for cell in cells})
    seconds = sorted({cell["settings"]["seconds"] for cell in cells})
    spread = max(max(rates) / min(rates) for cell in cells for rates in cell["rates"].values())
    unsteady = [
        f"{who} in {name} rows"
        for name, cell in kept["results"].items()
        for who, rates in cell["rates"].items()
        if max(rates) > _UNSTEADY * min(rates)
    ]
    lines = [
        f"- Date: {' and '.join(dates)}; {_listed(rounds)} rounds of {_listed(seconds)} s.",
        f"- Machine: {', '.join(f'{key} {value}' for key, value in kept['machine'].items())}.",
        f"- Load average of the minute before and after each cell: {min(loads)} to {max(loads)}. "
        "It counts the contestants, of which those with a process for each row drive it up "
        "while they start.",
        f"- Greatest over least of the rounds of one figure: at most {spread:.2g}. "
        f"More than {_UNSTEADY:g}, so not to be relied on: {'; '.join(unsteady) or 'none'}.",
        *(f"- {name} ran with: {text}." for name, text in kept["peers"].items()),
    ]
    return "\n".join(lines) + f"\n\n```sh\n{command}\n```\n"


def _listed(values: list[Any]) -> str:
    return " or ".join(f"{value:g}" for value in values)


def _middle(results: dict[str, Any], env_id: str, rows: int, who: Contestant) -> float | None:
    key = who.name if who.is_limit else who.key
    rates = results.get(f"{env_id} {rows}", {"rates": {}})["rates"].get(key)
    return statistics.median(rates) if rates else None


def _rows_of(results: dict[str, Any], env_id: str) -> list[int]:
    return sorted(int(key.split()[1]) for key in results if key.split()[0] == env_id)


def _taking_part(from_states: bool) -> list[Contestant]:
    return [who for who in CONTESTANTS if who.from_states == from_states or who.is_limit]


def _table(results: dict[str, Any], env_id: str, from_states: bool) -> str:
    columns = _rows_of(results, env_id)
    if not columns:
        return f"### {env_id}\n\nNot measured.\n"
    lines = [
        f"### {env_id}\n",
        "| steps/s | " + " | ".join(f"{rows} rows" for rows in columns) + " |",
        "|---|" + "---:|" * len(columns),
    ]
    everyone = _taking_part(from_states)
    best = {
        rows: max(
            (_middle(results, env_id, rows, who) or 0 for who in everyone if not who.is_limit),
            default=0,
        )
        for rows in columns
    }
    for who in everyone:
        figures = [_middle(results, env_id, rows, who) for rows in columns]
        if any(figures):
            cells = [_shown(x, x == best[rows]) for x, rows in zip(figures, columns, strict=True)]
            lines.append(f"| {who.name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _factor(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"


def _shown(figure: float | None, is_best: bool) -> str:
    if figure is None:
        return ""
    text = f"{float(f'{figure:.3g}'):,.0f}"
    return f"**{text}**" if is_best else text


_RATIOS = """
Steps per second of the best of our backends over those of others, in the same run; the
last column is of stepping from states.

| env, rows | EnvPool | gymnasium, own | SB3, TorchRL | raw simulator | plangym |
|---|---:|---:|---:|---:|---:|
"""
_LIBRARIES = tuple(who.key for who in CONTESTANTS if who.needs in ("stable_baselines3", "torchrl"))
_PLAIN = (("EnvPool",), ("gymnasium, own vector env",), _LIBRARIES, ("raw simulator",))
_FROM_STATES = (("plangym, from states",),)


def _ratios(results: dict[str, Any]) -> Iterator[str]:
    """One line of the table for every cell."""
    for task in TASKS:
        for rows in _rows_of(results, task.env_id):
            rates = results[f"{task.env_id} {rows}"]["rates"]
            cells = []
            for from_states, groups in ((False, _PLAIN), (True, _FROM_STATES)):
                ours = _best(rates, _ours(from_states))
                cells += [_over(ours, _best(rates, group)) for group in groups]
            yield f"| {task.env_id}, {rows} | " + " | ".join(cells) + " |"


def _ours(from_states: bool) -> tuple[str, ...]:
    return tuple(who.key for who in CONTESTANTS if who.is_ours and who.from_states == from_states)


def _best(rates: dict[str, list[float]], keys: tuple[str, ...]) -> float:
    return max((statistics.median(rates[key]) for key in keys if key in rates), default=0.0)


def _over(ours: float, theirs: float) -> str:
    return f"{ours / theirs:.3g}" if theirs else ""


#: A peer with this share of our figure is named as about as fast.
_CLOSE = 0.9


def _rivals(results: dict[str, Any]) -> Iterator[tuple[str, dict[Contestant, float]]]:
    """Every cell and way of stepping in which ours and a peer were measured."""
    for task in TASKS:
        for rows in _rows_of(results, task.env_id):
            for from_states in (False, True):
                everyone = [who for who in _taking_part(from_states) if not who.is_limit]
                found = {who: _middle(results, task.env_id, rows, who) for who in everyone}
                rates = {who: rate for who, rate in found.items() if rate}
                if len({who.is_ours for who in rates}) == 2:
                    how = "from states" if from_states else "plain"
                    yield f"{task.env_id}, {rows} rows, {how}", rates


Rivals = list[tuple[str, dict[Contestant, float]]]


def _defeats(rivals: Rivals) -> Iterator[str]:
    """Peers that are faster than our best backend."""
    yield "Beside the best of our backends, in the cells that were measured:\n"
    lines = []
    for cell, rates in rivals:
        best = max(rate for who, rate in rates.items() if who.is_ours)
        for who, rate in rates.items():
            if not who.is_ours and rate > _CLOSE * best:
                ratio = round(rate / best, 2)  # what is shown: a tie is none's defeat
                verdict = "**faster**" if ratio > 1.0 else "about as fast"
                lines.append(f"- {cell}: {who.name} is {verdict}, {ratio:.2f} of ours.")
    yield from lines or ["- none is faster."]


def _others(rivals: Rivals) -> Iterator[str]:
    """Peers that are faster than one of our backends, where that is not our best."""
    yield "Peers are faster than these backends of ours, where another of ours is better:\n"
    by_backend: dict[str, list[str]] = {}
    for cell, rates in rivals:
        ours = {who: rate for who, rate in rates.items() if who.is_ours}
        others = {who: rate for who, rate in rates.items() if not who.is_ours}
        for mine, rate in ours.items():
            faster = [f"{who.name} {_factor(x / rate)}x" for who, x in others.items() if x > rate]
            if faster and rate < max(ours.values()):
                by_backend.setdefault(mine.name, []).append(f"{cell} ({', '.join(faster)})")
    for name, cells in by_backend.items():
        yield f"- {name}: {'; '.join(cells)}."


def _left_out(results: dict[str, Any]) -> Iterator[str]:
    reasons: dict[tuple[str, str], list[str]] = {}
    for key, cell in results.items():
        for who, reason in cell["left_out"].items():
            reasons.setdefault((who, reason), []).append(" with ".join(key.split()))
    for (who, reason), cells in reasons.items():
        yield f"- {who}: {', '.join(cells)} rows ({reason})."
    for task in TASKS:
        measured = _rows_of(results, task.env_id)
        missing = [str(rows) for rows in task.rows if rows not in measured]
        if missing:
            yield f"- Everyone: {task.env_id} with {', '.join(missing)} rows."
