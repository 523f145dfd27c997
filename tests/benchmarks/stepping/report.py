"""The section of the documentation that the findings are written to."""

from __future__ import annotations

from typing import Any

_INTRODUCTION = """## What a batch costs

`tests/benchmarks/step_batch.py` measures `step_batch` on worker processes against its own
targets, and writes this section. A figure is the median of interleaved rounds, with the
least and the greatest after it.

- **limit**: as many processes as there are workers run a bare loop of restore, step,
  capture and observe at the same time, without ever talking.
- **sketch**: the least that any batch costs on this machine. Processes that share memory
  with the parent run a fixed share of the rows in that loop, woken by one pipe message
  each; the parent copies states in and results out. No checks, no seals, no infos, no
  flags, no balance, and deaths go unnoticed.

A target that is not met stands as it is. A rollout cannot reach three times the steps of a
batch where the two limits' own ratio is below that. The sketch needs the time that stands
beside the parent's, most of it to copy states that come from private memory; states that lie in
shared memory (slots, the last batch's results) are not copied. Starts are those of a library
that is compiled to bytecode, as an installer leaves it. The imports that they are compared with
are timed to the end of their programs, which load no game; a MsPacman worker loads one.
"""


def report(machine: dict[str, Any], results: dict[str, Any]) -> str:
    """The section, in Markdown.

    Args:
        machine: what the figures were measured on and with.
        results: cells by name, as `step_batch.py` keeps them.
    """
    lines = table([finding for cell in results.values() for finding in cell["findings"]])
    dates = " and ".join(sorted({cell["date"] for cell in results.values()}))
    loads = [figure for cell in results.values() for figure in cell["load"]]
    rounds = sorted({cell["settings"]["rounds"] for cell in results.values()})
    workers = sorted({cell["settings"]["workers"] for cell in results.values()})
    setting = [
        f"- Date: {dates}; {_listed(rounds)} rounds; {_listed(workers)} workers.",
        f"- Machine: {', '.join(f'{key} {value}' for key, value in machine.items())}.",
        f"- Load average of the minute before and after each cell: {min(loads)} to {max(loads)}.",
    ]
    return "\n".join([_INTRODUCTION, *setting, "", *lines])


def table(findings: list[dict[str, Any]]) -> list[str]:
    """The lines of a table of findings, see `rounds.finding`."""
    return [
        "| | median | least to greatest | target | met | beside it |",
        "|---|---:|---|---|---|---|",
        *map(_row, findings),
    ]


def _row(finding: dict[str, Any]) -> str:
    target = ""
    if finding["at_least"] is not None:
        target = f"at least {finding['at_least']:g}"
    if finding["at_most"] is not None:
        target = f"at most {finding['at_most']:g}"
    met = {True: "yes", False: "**no**", None: ""}[finding["met"]]
    spread = f"{_figure(finding['min'])} to {_figure(finding['max'])}"
    beside = [
        f"{key} {_figure(value['median']) if isinstance(value, dict) else value}"
        for key, value in finding["beside"].items()
    ]
    cells = [finding["name"].strip(), f"{_figure(finding['median'])} {finding['unit']}", spread]
    return f"| {' | '.join([*cells, target, met, '; '.join(beside)])} |"


def _figure(value: float) -> str:
    return f"{float(f'{value:.3g}'):,g}" if value < 1e4 else f"{float(f'{value:.3g}'):,.0f}"


def _listed(values: list[Any]) -> str:
    return " or ".join(f"{value:g}" for value in values)
