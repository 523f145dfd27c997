"""The part of the documentation's page of benchmarks that says how well planners play."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from plangym_ext.run.bootstrap import mean_interval
from scoring import atari, control, sokoban
from scoring.anchors import ANCHORS
from scoring.cells import Cell
from scoring.kept import Kept

_COMMAND = "python tests/benchmarks/quality.py atari control sokoban --levels PATH"
#: Mean return over 20 seeds that Pendulum must reach.
PENDULUM_BOUND = -170.0


def summary(cell: Cell, episodes: dict[str, Any]) -> str:
    """One line about a cell."""
    rows = list(episodes.values())
    mean, low, high = mean_interval([row["score"] for row in rows])
    solved = [row["solved"] for row in rows if "solved" in row]
    share = f", solved {sum(solved)} of {len(solved)}" if solved else ""
    return (
        f"{cell.key}: {mean:.1f} [{low:.1f}, {high:.1f}] in {len(rows)} episodes{share}, "
        f"{_steps_a_move(rows):.0f} model steps a move"
    )


def part(kept: Kept) -> str:
    """All of it, in Markdown."""
    return "\n".join(
        [
            "## Quality at equal budget\n",
            "How well planners play when each move may cost the same number of model steps.",
            "`tests/benchmarks/quality.py` plays and writes this part. Numbers in brackets are",
            "95 % bootstrap intervals of the mean over episodes.\n",
            *_setting(kept),
            f"\n```sh\n{_COMMAND}\n```\n",
            *_atari(kept),
            *_sokoban(kept),
            *_control(kept),
        ]
    )


def _steps_a_move(rows: list[dict[str, Any]]) -> float:
    return float(sum(row["model_steps"] for row in rows) / sum(row["length"] for row in rows))


def _all_cells() -> list[Cell]:
    return [*atari.cells(), *sokoban.cells(), *control.cells()]


def _setting(kept: Kept) -> Iterator[str]:
    rows = [row for cell in _all_cells() for row in kept.episodes(cell).values()]
    dates = sorted({row["date"] for row in rows})
    yield f"- Date: {' and '.join(dates) or 'nothing was played yet'}."
    for machine in {str(row["machine"]): row["machine"] for row in rows}.values():
        yield f"- Machine: {', '.join(f'{key} {value}' for key, value in machine.items())}."
    counts: dict[str, list[int]] = {}
    for cell in _all_cells():
        count = counts.setdefault(f"{cell.protocol} {cell.planner}", [0, 0])
        count[0] += len(kept.episodes(cell))
        count[1] += sum(map(len, cell.chunks))
    missing = [f"{name} ({a} of {b})" for name, (a, b) in counts.items() if a < b]
    if missing:
        yield f"- Not all episodes were played of: {'; '.join(missing)}."


def _mean(rows: list[dict[str, Any]]) -> str:
    mean, low, high = mean_interval([row["score"] for row in rows])
    return f"{mean:,.1f} [{low:,.1f}, {high:,.1f}]"


def _atari(kept: Kept) -> Iterator[str]:
    games = list(atari.GAMES)
    yield "### Atari, protocol of Rollout-IW\n"
    yield (
        f"{atari.CALLS} simulator calls before every move, a move is {atari.FRAMESKIP} frames, "
        f"no sticky actions,\nup to {atari.NO_OPS} no-ops of {atari.FRAMESKIP} frames, then at "
        f"most {atari.FRAMES:,} frames. The published score is of\nRollout-IW with pairs of tiles "
        "as features at 0.5 s a decision, which were 116 calls on average\n(Bandres, Bonet & "
        "Geffner 2018; table of its authors' repository). It is not the same in all:\nits "
        "decisions are often carried out for several moves, until something is earned, where\n"
        "ours search before every move; it plays all 18 actions, ours those that the game "
        "uses. Like\nit, ours see a lost life as a large negative reward while planning (`life_"
        "penalty`); scores are\nwithout. `rollout-iw` has whole observations as features, "
        "walks of 30 moves that follow the\nbest branch at four of five choices, a discount "
        "of 0.98, and where nothing is earned\na small bonus for what the episode has seldom "
        "shown; "
        "`rollout-iw-near` walks of 14 moves, at half of the choices,\nand 0.97. "
        "`mcts` keeps rollouts of 13 moves as nodes of its tree and plays the\nbest branch; `sts` "
        "expands 13 nodes in a row, with two children each; `mcts-leaves` and `sts-leaves` see\n"
        "two or three moves ahead. All options are in `tests/benchmarks/scoring/atari.py`.\n"
    )
    yield "| game | published | " + " | ".join(atari.PLANNERS) + " |"
    yield "|---|---:|" + "---:|" * len(atari.PLANNERS)
    reached: dict[str, list[str]] = {name: [] for name in atari.PLANNERS}
    by_place = {(cell.task, cell.planner): cell for cell in atari.cells()}
    for game in games:
        entries = []
        for name in atari.PLANNERS:
            rows = list(kept.episodes(by_place[game, name]).values())
            entries.append(f"{_mean(rows)} ({len(rows)})" if rows else "")
            if rows and sum(row["score"] for row in rows) / len(rows) >= ANCHORS[game].published:
                reached[name].append(game)
        yield f"| {game} | {ANCHORS[game].published:,} | " + " | ".join(entries) + " |"
    yield "\nIn brackets after a score: episodes. At or above the published score:\n"
    for name, found in reached.items():
        played = [game for game in games if kept.episodes(by_place[game, name])]
        if played:
            yield f"- {name}: {len(found)} of {len(played)} games ({', '.join(found) or 'none'})."
    yield ""


def _sokoban(kept: Kept) -> Iterator[str]:
    yield "### Sokoban, breadth against depth\n"
    yield (sokoban.__doc__ or "").partition("\n\n")[2]
    yield "| | solved | boxes on targets, reward | model steps a move |"
    yield "|---|---:|---:|---:|"
    for cell in sokoban.cells():
        rows = list(kept.episodes(cell).values())
        if rows:
            share, low, high = mean_interval([row["solved"] for row in rows])
            yield (
                f"| {cell.planner} | {100 * share:.1f} % [{100 * low:.1f}, {100 * high:.1f}] "
                f"of {len(rows)} | {_mean(rows)} | {_steps_a_move(rows):.0f} |"
            )
    yield (
        '\n"tree" is `STS`, PUCT in a tree that is kept from move to move; "graph" is '
        "`GraphSearch`,\ngreedy, with one node per board. Steps into endings and known edges "
        "are not taken again, so a\nmove may cost less than the 200 steps that it may take.\n"
    )


def _control(kept: Kept) -> Iterator[str]:
    yield "### Continuous control\n"
    yield (
        f"At most {control.SEQUENCES} sequences of {control.HORIZON} steps a move, "
        f"{control.MOVES} moves; the options are the planners' defaults.\n"
    )
    yield "| env | planner | mean return | episodes | model steps a move |"
    yield "|---|---|---:|---:|---:|"
    for cell in control.cells():
        rows = list(kept.episodes(cell).values())
        if rows:
            yield (
                f"| {cell.task} | {cell.planner} | {_mean(rows)} | {len(rows)} "
                f"| {_steps_a_move(rows):,.0f} |"
            )
        if rows and cell.task == "Pendulum-v1":
            mean = sum(row["score"] for row in rows) / len(rows)
            verdict = "reached" if mean >= PENDULUM_BOUND else "missed"
            verdicts = f"\nThe bound of {PENDULUM_BOUND:g} for Pendulum is {verdict}: {mean:.1f}."
    if any(cell.task == "Pendulum-v1" and kept.episodes(cell) for cell in control.cells()):
        yield verdicts
