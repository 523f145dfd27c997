"""The part of the documentation's page of benchmarks about 49 Atari games."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator
from typing import Any

from scoring import atari
from scoring.anchors import ANCHORS, AT_32_SECONDS
from scoring.kept import Kept

#: Calls a move: a tenth of the protocol's, and its own.
BUDGETS = (12, atari.CALLS)
#: In the few games whose scores at 64 times the protocol's are published.
LARGER = (4 * atari.CALLS, 8 * atari.CALLS, 16 * atari.CALLS)
GAMES_ASKED, MEDIAN_ASKED = 46, 2.0
#: Searches of trees beside it, in a few games.
TREES = ("mcts", "sts")

_INTRODUCTION = """\
## Rollout-IW in 49 Atari games

`tests/benchmarks/atari_games.py` plays and writes this part, by the protocol of "Quality at
equal budget" and with the options of its `rollout-iw`, the same in all games: they were tried in
seeds 0 and 1 of fifteen of them. Scores are means over episodes, whose number is in brackets;
**bold** where they are at or above the published ones. People and random play are those of Mnih et
al. 2015; a normalised score is 0 for random play and 1 for a person.
"""


def part(kept: Kept) -> str:
    """All of it, in Markdown."""
    scores = {calls: dict(_scores(kept, calls)) for calls in BUDGETS}
    sums = [line for calls in BUDGETS if scores[calls] for line in _sums(calls, scores[calls])]
    tables = [*_table(scores), "", *sums, "", *_larger(kept), "", *_trees(kept)]
    return "\n".join([_INTRODUCTION, *_setting(kept), "", *tables])


def _rows(kept: Kept, game: str, planner: str, calls: int) -> list[dict[str, Any]]:
    return list(kept.episodes(atari.game_cell(game, planner, calls, ())).values())


def _scores(
    kept: Kept, calls: int, planner: str = "rollout-iw"
) -> Iterator[tuple[str, tuple[float, int]]]:
    """Mean score and number of episodes, by game that was played."""
    for game in ANCHORS:
        rows = _rows(kept, game, planner, calls)
        if rows:
            yield game, (statistics.fmean(row["score"] for row in rows), len(rows))


def _setting(kept: Kept) -> Iterator[str]:
    played = itertools.product(ANCHORS, ("rollout-iw", *TREES), (*BUDGETS, *LARGER))
    rows = [row for game, planner, calls in played for row in _rows(kept, game, planner, calls)]
    dates = sorted({row["date"] for row in rows})
    yield f"- Date: {' and '.join(dates) or 'nothing was played yet'}."
    for machine in {str(row["machine"]): row["machine"] for row in rows}.values():
        yield f"- Machine: {', '.join(f'{key} {value}' for key, value in machine.items())}."
    model_steps = sum(row["model_steps"] for row in rows)
    seconds = sum(row["seconds"] for row in rows)
    if rows:
        yield f"- {model_steps / seconds:,.0f} calls a second on one processor."


def _table(scores: dict[int, dict[str, tuple[float, int]]]) -> Iterator[str]:
    yield (
        "| game | random | person | published | "
        + " | ".join(f"{calls} calls" for calls in scores)
        + f" | normalised, {atari.CALLS} calls |"
    )
    yield "|---|---:|---:|---:|" + "---:|" * (len(scores) + 1)
    for game, anchor in ANCHORS.items():
        entries = [_entry(scores[calls].get(game), anchor.published) for calls in scores]
        found = scores[atari.CALLS].get(game)
        share = f"{anchor.normalised(found[0]):.2f}" if found else ""
        yield (
            f"| {game} | {anchor.random:,} | {anchor.human:,} | {anchor.published:,} | "
            + " | ".join([*entries, share])
            + " |"
        )


def _entry(found: tuple[float, int] | None, published: float) -> str:
    if found is None:
        return ""
    score, episodes = found
    text = f"{score:,.1f}"
    return f"{f'**{text}**' if score >= published else text} ({episodes})"


def _sums(calls: int, scores: dict[str, tuple[float, int]]) -> Iterator[str]:
    """What all games together come to, beside the published scores of the same games."""
    below = [game for game, (score, _) in scores.items() if score < ANCHORS[game].published]
    ours = statistics.median(ANCHORS[game].normalised(score) for game, (score, _) in scores.items())
    theirs = statistics.median(ANCHORS[game].normalised(ANCHORS[game].published) for game in scores)
    yield (
        f"- {calls} calls: {len(scores) - len(below)} of {len(scores)} games at or above the "
        f"published score, normalised median {ours:.2f}; that of the published scores is "
        f"{theirs:.2f}. Below: {', '.join(below) or 'none'}."
    )
    if calls == atari.CALLS:
        yield f"- Asked for are {GAMES_ASKED} games and a median of {MEDIAN_ASKED}."


def _larger(kept: Kept) -> Iterator[str]:
    """The games in which more calls are played, beside what is published of many more."""
    scores = {calls: dict(_scores(kept, calls)) for calls in (atari.CALLS, *LARGER)}
    yield "### Beside 32 seconds a decision\n"
    yield (
        f"Published scores at 64 times the calls, {64 * atari.CALLS:,}; **bold** where ours are at "
        "or above them.\n"
    )
    yield "| game | published | " + " | ".join(f"{calls} calls" for calls in scores) + " |"
    yield "|---|---:|" + "---:|" * len(scores)
    for game, published in AT_32_SECONDS.items():
        entries = [_entry(found.get(game), published) for found in scores.values()]
        yield f"| {game} | {published:,.0f} | " + " | ".join(entries) + " |"
    # Of each game the row with the most calls, whether or not that is the better one.
    most = {game: found[game][0] for found in scores.values() for game in found}
    played = [game for game in AT_32_SECONDS if game in most]
    reached = [game for game in played if most[game] >= AT_32_SECONDS[game]]
    yield (
        f"\nWith the most calls that were played of each: {len(reached)} of {len(played)} games; "
        "asked for are 5 of 6."
    )


def _trees(kept: Kept) -> Iterator[str]:
    """The same games with other planners, at equal calls."""
    names = ("rollout-iw", *TREES)
    scores = {name: dict(_scores(kept, atari.CALLS, name)) for name in names}
    yield "### Searches of trees at equal calls\n"
    yield (
        "`mcts` keeps rollouts of 13 moves as nodes of its tree, `sts` expands 13 nodes in a row,\n"
        "each with two children that are drawn; both play what begins the best branch, and look\n"
        "ahead with a discount of 0.97.\n"
    )
    yield "| game | published | " + " | ".join(names) + " |"
    yield "|---|---:|" + "---:|" * len(names)
    for game in atari.GAMES:
        published = ANCHORS[game].published
        entries = [_entry(scores[name].get(game), published) for name in names]
        yield f"| {game} | {published:,} | " + " | ".join(entries) + " |"
    yield ""
    for name in TREES:
        found = [game for game in atari.GAMES if game in scores[name]]
        reached = [game for game in found if scores[name][game][0] >= ANCHORS[game].published]
        yield f"- {name}: {len(reached)} of {len(found)} games at or above the published score."
