"""The cells of the table of vector envs, what they are to show, and its part of the page."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from table import contestants
from table.contestants import Contestant
from table.tasks import CART_POLES, PREPROCESSED_PONG, SPREADS, TRAINING, Task, task_named

_PROCESS, _BEST = "ours, two workers", "ours, best"
_PROCESS_SB3, _BEST_SB3 = "ours, two workers, for SB3", "ours, best, for SB3"
_ASYNC, _SUBPROC = "gymnasium, async", "SB3, SubprocVecEnv"
_OWN, _ENVPOOL = "gymnasium, own vector env", "EnvPool"
_PROCESS_PPO, _BEST_PPO = "PPO with ours, two workers", "PPO with ours, best"
_SUBPROC_PPO, _NO_ENVS_PPO = "PPO with SubprocVecEnv", "PPO with envs that do nothing"
_NATIVE, _BATCHES = "ours, make_vec(...).step", "ours, make(...).step_batch"
_SB3 = "stable_baselines3"

_OURS = [
    Contestant(_PROCESS, "table.ours_vector:process"),
    Contestant(_BEST, "table.ours_vector:best"),
    Contestant(_PROCESS_SB3, "table.ours_vector:process_for_sb3", _SB3),
    Contestant(_BEST_SB3, "table.ours_vector:best_for_sb3", _SB3),
]
_OTHERS = [who for who in contestants.CONTESTANTS if who.name in (_ASYNC, _SUBPROC, _OWN, _ENVPOOL)]
_TRAINED = [
    Contestant(_PROCESS_PPO, "table.training:process", _SB3),
    Contestant(_BEST_PPO, "table.training:best", _SB3),
    Contestant(_SUBPROC_PPO, "table.training:theirs", _SB3),
    Contestant(_NO_ENVS_PPO, "table.training:none", _SB3),
]
_NATIVES = [
    Contestant(_NATIVE, "table.ours_vector:best"),
    Contestant(_BATCHES, "table.ours_vector:step_batch"),
    *(who for who in _OTHERS if who.name in (_OWN, _ENVPOOL)),
]
_SUPERSUIT = Contestant("SuperSuit, two processes", "table.others:supersuit", "supersuit")
CONTESTANTS = [*_OURS, *_OTHERS, *_TRAINED, *_NATIVES[:2], _SUPERSUIT]


@dataclass(frozen=True)
class Cell:
    """One env and number of rows.

    Attributes:
        task: what is stepped.
        rows: how many of it.
        contestants: who takes part.
        aims: one of ours, one of the others, and the least ratio of their speeds.
    """

    task: Task
    rows: int
    contestants: list[Contestant]
    aims: tuple[tuple[str, str, float], ...]

    @property
    def name(self) -> str:
        """In the file of results."""
        return f"{self.task.env_id} x{self.rows}"


def _stepped(task: Task, rows: int, *aims: tuple[str, str, float]) -> Cell:
    return Cell(task, rows, [*_OURS, *_OTHERS], aims)


_VECTOR_CELLS = [
    _stepped(task_named("CartPole-v1"), 64, (_PROCESS, _ASYNC, 10), (_PROCESS_SB3, _SUBPROC, 1.5)),
    _stepped(task_named("HalfCheetah-v5"), 16, (_BEST, _ASYNC, 3), (_BEST_SB3, _SUBPROC, 1.5)),
    _stepped(
        PREPROCESSED_PONG,
        16,
        (_BEST, _ASYNC, 1.3),
        (_BEST_SB3, _SUBPROC, 1.5),
        (_BEST, _ENVPOOL, 1.0),
        (_BEST, _OWN, 1.0),
    ),
    *(
        Cell(
            TRAINING,
            rows,
            _TRAINED,
            tuple((who, _SUBPROC_PPO, 1 / 0.7) for who in (_PROCESS_PPO, _BEST_PPO)),
        )
        for rows in (64, 8)
    ),
]


def _natively(task: Task, rows: int, *aims: tuple[str, float]) -> Cell:
    return Cell(task, rows, _NATIVES, tuple((_NATIVE, who, least) for who, least in aims))


_NATIVE_CELLS = [
    *(_natively(task, 8, (_ENVPOOL, 1.5)) for task in CART_POLES),
    *(
        _natively(task, rows, (_ENVPOOL, 3.0), (_OWN, 1.5))
        for rows in (64, 512)
        for task in CART_POLES
    ),
    _natively(task_named("HalfCheetah-v5"), 64, (_ENVPOOL, 1.1)),
]
_SEVERAL_CELLS = [
    Cell(task, 16, [_NATIVES[0], _SUPERSUIT], ((_NATIVE, _SUPERSUIT.name, 3.0),))
    for task in SPREADS
]
CELLS = [*_VECTOR_CELLS, *_NATIVE_CELLS, *_SEVERAL_CELLS]


@dataclass(frozen=True)
class Part:
    """One part of the page.

    Attributes:
        name: of the part.
        title: its heading, in Markdown.
        cells: whose figures it shows.
        introduction, meanings: what is said before the figures.
    """

    name: str
    title: str
    cells: list[Cell]
    introduction: str
    meanings: str


_INTRODUCTION = """Env steps per second of `reset` and `step` as frameworks call them, whole results
included. `tests/benchmarks/vector.py` measures them and writes this part. Contestants run in
processes of their own and are measured in turn; a figure is the median of the rounds.
"""
_MEANINGS = """
- **ours, two workers**: `make_vec(make, rows, n_workers=2)` with the envs that the others get;
  states can be saved, restored and forked meanwhile.
- **ours, best**: for CartPole and HalfCheetah what `backend="auto"` chooses; for Pong
  `preprocessing=True` with two workers, which returns the same bytes as gymnasium's wrappers.
- **for SB3**: through `StableBaselines3VecEnv`.
- `AsyncVectorEnv` and `SubprocVecEnv` have a process for each row. EnvPool and ale-py's own
  vector env have two threads, take no wrappers and cannot set a state.
- Pong is preprocessed in the standard way: four frames a step, the brighter of the last two
  in grey, 84x84, stacks of four; no sticky actions.
- **PPO**: a whole training of SB3's on CartPole with the settings of rl-zoo3, the making and
  closing of the envs included; the ratio of the rates is that of the wall times. With envs
  that do nothing what is left is SB3's own part, the most that any envs could reach.
"""
_NATIVE_INTRODUCTION = """Env steps per second on native backends, from few rows to many.
`tests/benchmarks/vector.py` measures them and writes this part, in the same way.
"""
_NATIVE_MEANINGS = """
- **make_vec(...).step**: the vector env, with the resets of rows that end, infos and fresh
  arrays; **make(...).step_batch**: batches of the same env that go on where the rows are.
- With one action a pole falls in ten steps, so about a tenth of the rows is reset in each step.
- EnvPool has two threads. Gymnasium's own vector env of CartPole steps all rows with numpy,
  with one generator for all of them; no other of these tasks has one.
"""
_SEVERAL_INTRODUCTION = """Env steps per second of MPE's `simple_spread_v3`, with three agents each.
`tests/benchmarks/vector.py` measures them and writes this part, in the same way.
"""
_SEVERAL_MEANINGS = """
- **make_vec(...).step**: `make_vec("pettingzoo/mpe2.simple_spread_v3", 16, n_workers=2)`, which
  steps PettingZoo's own code, and `plangym_ext/SimpleSpread-v0`, a kernel with the same numbers.
- SuperSuit's vector env has a row for each agent and steps the same code of PettingZoo's. That
  code takes most of the time of both.
"""

PARTS = [
    Part("vector envs", "## Vector envs", _VECTOR_CELLS, _INTRODUCTION, _MEANINGS),
    Part(
        "native vector envs",
        "## Vector envs on native backends",
        _NATIVE_CELLS,
        _NATIVE_INTRODUCTION,
        _NATIVE_MEANINGS,
    ),
    Part(
        "several agents",
        "## Vector envs of several agents",
        _SEVERAL_CELLS,
        _SEVERAL_INTRODUCTION,
        _SEVERAL_MEANINGS,
    ),
]


def section(part: Part, kept: dict[str, Any], command: str) -> str:
    """A part of the page, in Markdown; "" if nothing of it was measured."""
    names = {cell.name for cell in part.cells}
    results = {name: found for name, found in kept["results"].items() if name in names}
    if not results:
        return ""
    machine = ", ".join(f"{key} {value}" for key, value in kept["machine"].items())
    dates = sorted({cell["date"] for cell in results.values()})
    lines = [
        f"{part.title}\n\n{part.introduction}",
        f"- Date: {' and '.join(dates)}. Machine: {machine}.",
        *(f"- {name} ran with: {text}." for name, text in kept["peers"].items()),
        f"\n```sh\n{command}\n```\n",
        "### What is compared\n" + part.meanings,
        "### Rates\n",
        "| steps/s | least of a round | median | greatest |\n|---|---:|---:|---:|",
        *_rates(part.cells, results),
        "\n### Aims\n",
        "| | ours | beside | ratio | aim | |\n|---|---|---|---:|---:|---|",
        *_aims(part.cells, results),
    ]
    left_out = [
        f"- {name}: {who} ({reason})."
        for name, cell in results.items()
        for who, reason in cell["left_out"].items()
    ]
    return "\n".join([*lines, *(["\nNot measured:\n", *left_out] if left_out else [])]) + "\n"


def _rates(cells: list[Cell], results: dict[str, Any]) -> Iterator[str]:
    for cell in cells:
        for who, rates in results.get(cell.name, {"rates": {}})["rates"].items():
            figures = min(rates), statistics.median(rates), max(rates)
            shown = " | ".join(f"{float(f'{figure:.3g}'):,.0f}" for figure in figures)
            yield f"| {cell.name}: {who} | {shown} |"


def _aims(cells: list[Cell], results: dict[str, Any]) -> Iterator[str]:
    for cell in cells:
        rates = results.get(cell.name, {"rates": {}})["rates"]
        for ours, other, least in cell.aims:
            if ours in rates and other in rates:
                ratio = statistics.median(rates[ours]) / statistics.median(rates[other])
                verdict = "reached" if ratio >= least else "**missed**"
                yield f"| {cell.name} | {ours} | {other} | {ratio:.2f} | {least:.2f} | {verdict} |"
