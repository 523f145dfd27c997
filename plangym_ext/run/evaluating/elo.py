"""Elo ratings of players of a two-player env, from matches of each pair."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.core.numbers import at_least
from plangym_ext.errors import InvalidOption, WrongKind
from plangym_ext.planners.base import as_planner
from plangym_ext.planners.games import Game, Sides, step_games
from plangym_ext.planners.players import earned, num_players
from plangym_ext.run.bootstrap import Floats, ends

#: Resamples of an interval.
_RESAMPLES = 1_000
#: Steps towards the most likely ratings: most, and how small the last one is.
_ITERATIONS, _LAST = 1_000, 1e-9
#: Draws that each pair is given beside its games, so that one that wins all has a finite rating.
_PRIOR = 1.0


class _Opening(NamedTuple):
    """A move drawn at random, where a planner would return a `Plan`."""

    action: int


def match(
    env: Any,
    first: Any,
    second: Any,
    *,
    games: int,
    seed: int,
    max_steps: int,
    opening: int = 0,
    callback: Callable[[int], None] | None = None,
) -> Floats:
    """Play games of two players, each once with either side, and return `[games, 2]` scores.

    Args:
        env: of two players, with discrete actions.
        first: a planner, or an agent.
        second: likewise.
        games: how many; game k of either side begins by the seed `seed + k`.
        seed: of the first.
        max_steps: moves of a game at most, at least 1; one that is cut by it is a draw.
        opening: moves at the beginning that are drawn at random, alike for either side.
        callback: called with the number of each move.

    Returns:
        What `first` scores as player 0, and as player 1: 1 for a win, 0.5 for a draw.

    Raises:
        WrongKind: the env does not have two players.
        InvalidOption: a number is out of range, or moves of an opening are to be drawn of other
            actions.
    """
    max_steps = at_least("match: max_steps", max_steps, 1)
    opening = at_least("match: opening", opening, 0)
    if opening and not isinstance(env.action_space, spaces.Discrete):
        raise InvalidOption(
            f"match: opening must be 0 where actions are not Discrete, as no moves can be drawn of "
            f"{env.action_space}; got {opening}."
        )
    if num_players(env) != 2:
        raise WrongKind(
            f"match: the env must have two players; got {num_players(env)} in {env}. Compare "
            f"players of other envs by their returns, with play."
        )
    players = [as_planner(first), as_planner(second)]
    scores = np.empty((at_least("match: games", games, 1), 2))
    for side in (0, 1):
        sides = Sides(*(players if side == 0 else players[::-1]))
        going = every = [Game(env, seed + k) for k in range(games)]
        total = dict.fromkeys(map(id, every), 0.0)
        for move in range(max_steps):
            if move < opening:
                chosen: list[Any] = [_Opening(_drawn(env, game)) for game in going]
            else:
                chosen = sides.plan(env, going)
            steps, _ = step_games(env, going, chosen)
            for game, step in zip(going, steps, strict=True):
                game.take(step)
                total[id(game)] += earned(step.reward, step.player)
            going = [game for game in going if not game.ended]
            if callback is not None:
                callback(move)
            if not going:
                break
        won = 0.5 + 0.5 * np.sign([total[id(game)] if game.ended else 0.0 for game in every])
        scores[:, side] = won if side == 0 else 1.0 - won
    return scores


def _drawn(env: Any, game: Game) -> int:
    """Return a legal action, drawn by the game's own generator."""
    space = env.action_space
    legal = np.ones(int(space.n), bool) if game.legal is None else game.legal
    return int(space.start) + int(game.rng.choice(np.flatnonzero(legal)))


def ratings(names: Sequence[str], scores: Mapping[tuple[str, str], Floats]) -> list[dict[str, Any]]:
    """Return the Elo rating of each player, with the first one's at 0.

    Ratings are the most likely ones if a player wins with probability
    1 / (1 + 10^(-difference / 400)), where a draw is half a win and half a loss, and each pair has
    one draw beside its games. Intervals are of 1,000 resamples of the games of each pair; both
    sides of a game stay together.

    Args:
        names: of the players.
        scores: of the first player of each pair, `[games, 2]`; see `match`. A pair may be there
            in either order, and in both.

    Returns:
        For each player "player", "elo", "low", "high" (the ends of a 95 % interval), "score" (the
        mean of its games) and "games".

    Raises:
        InvalidOption: games do not connect all players, so that ratings would be arbitrary.

    Source: Bradley and Terry 1952, "Rank analysis of incomplete block designs"; Sun and Tran-Dinh
    2019, "Generalized self-concordant functions", for the length of Newton's steps.
    """
    place = {name: k for k, name in enumerate(names)}
    count = len(names)
    # [R, n, n]: wins of the row's player over the column's; the first of all are the real ones.
    wins = np.zeros((1 + _RESAMPLES, count, count))
    played = np.zeros((count, count))
    rng = np.random.default_rng(0)
    for (one, other), games in scores.items():
        i, j = place.get(one), place.get(other)
        if i is None or j is None or i == j:
            raise InvalidOption(
                f"ratings: scores must be of pairs of {list(names)}; got {one, other}. Name all "
                f"players."
            )
        if games.ndim != 2 or not games.size or not ((games >= 0) & (games <= 1)).all():
            raise InvalidOption(
                f"ratings: scores of {one} and {other} must be [games, 2] in [0, 1]; got "
                f"{games.shape}: {games.tolist()!r:.60}. Look for rewards that are NaN."
            )
        sums = games.sum(axis=1)
        drawn = sums[rng.integers(len(sums), size=(_RESAMPLES, len(sums)))].sum(axis=1)
        won = np.concatenate([[sums.sum()], drawn])
        wins[:, i, j] += won
        wins[:, j, i] += games.size - won
        played[i, j] += games.size
        played[j, i] += games.size
    met = played > 0
    # Who meets whom, by way of others.
    if not np.linalg.matrix_power(np.eye(count) + met, count)[0].all():
        raise InvalidOption(
            f"ratings: games must connect all of {list(names)}, directly or by way of others; got "
            f"{list(scores)}. Let those that are left out play."
        )
    rated = _elo(wins + 0.5 * _PRIOR * met, played + _PRIOR * met)
    low, high = ends(rated[1:])
    return [
        {
            "player": name,
            "elo": float(rated[0, k]),
            "low": float(low[k]),
            "high": float(high[k]),
            "score": float(wins[0, k].sum() / played[k].sum()),
            "games": int(played[k].sum()),
        }
        for name, k in place.items()
    ]


def _elo(wins: Floats, played: Floats) -> Floats:
    """Return `[R, n]` ratings of wins `[R, n, n]` in `[n, n]` games, each set on its own."""
    found = np.zeros(wins.shape[:2])
    won, alone = wins.sum(axis=2), np.eye(len(played), dtype=bool)
    for _ in range(_ITERATIONS):
        chance = 1 / (1 + np.exp(found[:, None, :] - found[:, :, None]))
        # Only differences are known: the first one stays at 0.
        slope = (won - (played * chance).sum(axis=2))[:, 1:, None]
        spread = played * chance * (1 - chance)
        bend = np.where(alone, spread.sum(axis=2)[..., None], -spread)[:, 1:, 1:]
        step = np.linalg.solve(bend, slope)[..., 0]
        # Short where the likelihood is no parabola: a full step may lead away.
        size = np.maximum(2 * abs(step).max(axis=1, keepdims=True, initial=0.0), _LAST)
        found[:, 1:] += step * np.log1p(size) / size
        if size.max() <= 2 * _LAST:
            break
    found *= 400 / math.log(10)
    return found


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the ratings as text."""
    wide = max(len(row["player"]) for row in [*rows, {"player": "player"}])
    lines = [f"{'player':<{wide}} {'Elo':>7} {'95 % interval':>17} {'score':>7} {'games':>6}"]
    for row in rows:
        interval = f"[{row['low']:.0f}, {row['high']:.0f}]"
        lines.append(
            f"{row['player']:<{wide}} {row['elo']:>7.0f} {interval:>17} {row['score']:>7.3f} "
            f"{row['games']:>6}"
        )
    return "\n".join(lines)
