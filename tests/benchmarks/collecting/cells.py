"""The cells of the table of samplers, and what they are to show."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from table.contestants import Contestant
from table.tasks import PREPROCESSED_PONG, Task, task_named

from collecting.own_cost import OWN_COST

_SERIAL, _CENTRAL = "ours, serial", "ours, central, two workers"
_BUSY, _BUSY_TWO = "central, one worker", "central, two workers"
_BUSY_HALVES = "alternating, a worker for each half"
_WORKERS = "ours, actors in two workers"
_ALONE = "ours, envs alone"
_DUMMY, _SUBPROC = "SB3, DummyVecEnv", "SB3, SubprocVecEnv"
_TORCHRL, _TIANSHOU, _ENVPOOL = "TorchRL", "Tianshou", "EnvPool"
_SAMPLE_FACTORY = "Sample Factory, two workers"

_BY_NAME = {
    who.name: who
    for who in [
        Contestant(_SERIAL, "collecting.ours:serial"),
        Contestant(_CENTRAL, "collecting.ours:two_workers"),
        Contestant(_BUSY, "collecting.balanced:central"),
        Contestant(_BUSY_TWO, "collecting.balanced:two_workers"),
        Contestant(_BUSY_HALVES, "collecting.balanced:alternating"),
        Contestant(_WORKERS, "collecting.ours:in_workers"),
        Contestant(_ALONE, "collecting.ours:envs_alone"),
        Contestant(_DUMMY, "collecting.peers:dummy", "stable_baselines3"),
        Contestant(_SUBPROC, "collecting.peers:subproc", "stable_baselines3"),
        Contestant(_TORCHRL, "collecting.peers:torchrl", "torchrl"),
        Contestant(_TIANSHOU, "collecting.peers:tianshou", "tianshou"),
        Contestant(_ENVPOOL, "collecting.peers:envpool", "envpool"),
        Contestant(_SAMPLE_FACTORY, "collecting.sample_factory:central", "sample_factory"),
    ]
}
CONTESTANTS = [*_BY_NAME.values()]


@dataclass(frozen=True)
class Cell:
    """One env and number of rows.

    Attributes:
        task: what is played.
        rows: B.
        names: of the contestants.
        aims: one of ours, one of the others, and the least ratio of their speeds.
        title: name, if not that of the task.
    """

    task: Task
    rows: int
    names: tuple[str, ...]
    aims: tuple[tuple[str, str, float], ...]
    title: str = ""

    @property
    def name(self) -> str:
        """In the file of results."""
        return self.title or f"{self.task.env_id} x{self.rows}"

    @property
    def contestants(self) -> list[Contestant]:
        """Who takes part."""
        return [_BY_NAME[name] for name in self.names]


CELLS = [
    Cell(
        task_named("CartPole-v1"),
        64,
        (_SERIAL, _WORKERS, _DUMMY, _TORCHRL, _TIANSHOU, _ENVPOOL),
        ((_SERIAL, _DUMMY, 5), (_SERIAL, _TORCHRL, 10), (_SERIAL, _TIANSHOU, 5)),
    ),
    Cell(
        task_named("HalfCheetah-v5"),
        16,
        (_SERIAL, _WORKERS, _ALONE, _DUMMY, _SUBPROC, _ENVPOOL),
        ((_SERIAL, _DUMMY, 3), (_SERIAL, _SUBPROC, 3), (_SERIAL, _ENVPOOL, 1)),
    ),
    Cell(
        PREPROCESSED_PONG,
        16,
        (_CENTRAL, _WORKERS, _SUBPROC, _SAMPLE_FACTORY, _ENVPOOL),
        (
            (_CENTRAL, _SUBPROC, 1.5),
            (_WORKERS, _SUBPROC, 1.5),
            (_CENTRAL, _SAMPLE_FACTORY, 1),
            (_WORKERS, _SAMPLE_FACTORY, 1),
        ),
    ),
    # Envs that take as long as the network, for which the name of the task is of no meaning.
    Cell(
        task_named("CartPole-v1"),
        64,
        (_BUSY, _BUSY_TWO, _BUSY_HALVES),
        ((_BUSY_HALVES, _BUSY, 1.5),),
        title="Envs as slow as the network x64",
    ),
]


def table_of(results: dict[str, Any]) -> str:
    """Rates and aims, in Markdown."""
    return "\n".join(
        [
            "| steps/s | least of a round | median | greatest |\n|---|---:|---:|---:|",
            *_rates(results),
            "\n| | ours | beside | ratio | aim | |\n|---|---|---|---:|---:|---|",
            *_aims(results),
            *_own_cost(results),
        ]
    )


def _rates(results: dict[str, Any]) -> Iterator[str]:
    for name, found in results.items():
        for who, rates in found.get("rates", {}).items():
            figures = min(rates), statistics.median(rates), max(rates)
            shown = " | ".join(f"{float(f'{figure:.3g}'):,.0f}" for figure in figures)
            yield f"| {name}: {who} | {shown} |"
        for who, reason in found.get("left_out", {}).items():
            yield f"| {name}: {who} | not measured: {reason} | | |"


def _aims(results: dict[str, Any]) -> Iterator[str]:
    for cell in CELLS:
        rates = results.get(cell.name, {"rates": {}})["rates"]
        for ours, other, least in cell.aims:
            if ours in rates and other in rates:
                ratio = statistics.median(rates[ours]) / statistics.median(rates[other])
                verdict = "reached" if ratio >= least else "**missed**"
                yield f"| {cell.name} | {ours} | {other} | {ratio:.2f} | {least:.2f} | {verdict} |"


def _own_cost(results: dict[str, Any]) -> Iterator[str]:
    if OWN_COST not in results:
        return
    yield "\n| CartPole x64, us a step | all | agent | env | sampler | its share |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name, found in results[OWN_COST].items():
        own = found["all"] - found["agent"] - found["env"]
        figures = " | ".join(f"{value:.1f}" for value in (*found.values(), own))
        yield f"| {name} | {figures} | {own / found['all']:.1%} |"
