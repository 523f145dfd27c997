"""Two-player envs: the player of the last and of the next move."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.core.infos import info_values
from plangym_ext.errors import WrongKind

#: What the infos of a step say where there are two players: who made the move, whose the reward
#: is, and who makes the next. Players are 0 and 1.
PLAYER, TO_PLAY = "player", "to_play"


def num_players(model: Any) -> int:
    """Return the number of players in an env's metadata; 1 by default."""
    metadata = getattr(model, "metadata", None) or {}
    return int(metadata.get("num_players", 1))


def infos_of_players(env: Any) -> dict[str, Any]:
    """Return the info keys that name players in a two-player env, with their dtypes."""
    return dict.fromkeys((PLAYER, TO_PLAY), np.int64) if num_players(env) == 2 else {}


def movers(env: Any, infos: Any, ended: npt.NDArray[np.bool_]) -> tuple[list[Any], list[Any]]:
    """Return the players of the last moves `[L]` and of the next; None with one player.

    Raises:
        WrongKind: see `player_swaps`.
    """
    if num_players(env) != 2:
        return [None] * len(ended), [None] * len(ended)
    made, following = _players(infos, ended)
    return made.tolist(), following.tolist()


def earned(reward: float, player: int | None) -> float:
    """Return a move's reward for player 0; that of player 1 is negated."""
    return -reward if player == 1 else reward


def next_player(info: Any, env: Any) -> int | None:
    """Return the player of the next move from an info; None with one player.

    Raises:
        WrongKind: the info of an env with two players does not say so.
    """
    return _player_in(info, TO_PLAY, "who makes the next move") if num_players(env) == 2 else None


def who_moved(info: Any, env: Any) -> int | None:
    """Return the player of a step's move from its info; None with one player.

    Raises:
        WrongKind: the info of an env with two players does not say so.
    """
    return _player_in(info, PLAYER, "who made the move") if num_players(env) == 2 else None


def _player_in(info: Any, name: str, what: str) -> int:
    if name not in info or not _are_players(np.asarray(info[name]), ()):
        got = repr(info[name])[:60] if name in info else sorted(info)
        raise WrongKind(
            f"play: the infos of an env with two players must say in {name!r} {what}, 0 or 1; got "
            f"{got}. Return it from reset and from step."
        )
    return int(info[name])


def player_swaps(infos: Any, ended: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return `[L]` bool, whether the next move is the other player's.

    Args:
        infos: of a batch of steps, of an env with two players.
        ended: `[L]` bool, where there is no next move: who makes it need not be said.

    Raises:
        WrongKind: the infos do not say who moved and who moves next.
    """
    made, following = _players(infos, ended)
    return np.ascontiguousarray(made != following)


def in_turns(count: int) -> dict[str, npt.NDArray[np.int64]]:
    """Return infos of `count` moves, after each of which the other player moves."""
    return {PLAYER: np.zeros(count, np.int64), TO_PLAY: np.ones(count, np.int64)}


def check_turns(where: str, swaps: npt.NDArray[np.bool_]) -> None:
    """Refuse games that a model of strict turns predicts wrongly.

    Args:
        where: they were played.
        swaps: `[L]` bool, whether the other player made the next move.

    Raises:
        WrongKind: a player has moved twice in a row.
    """
    if not swaps.all():
        raise WrongKind(
            f"{where}: the two players of a learned model must move in turns; a player moved "
            f"twice in a row. Search in the env instead, as the algorithm 'alphazero' does."
        )


def _players(
    infos: Any, ended: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return who made the moves `[L]`, and who makes the next ones; as before where none is."""
    count = len(ended)
    (made, told), (following, known) = (info_values(infos, n, count) for n in (PLAYER, TO_PLAY))
    if not told.all() or not (known | ended).all():
        raise _unsaid(sorted(infos.keys()))
    following = np.where(known, following, made)
    for name, values in ((PLAYER, made), (TO_PLAY, following)):
        if not _are_players(values, (count,)):
            raise _unsaid(f"{name!r} {repr(values.tolist())[:60]}")
    return made.astype(np.int64), following.astype(np.int64)


def _are_players(values: npt.NDArray[Any], shape: tuple[int, ...]) -> bool:
    """Return whether there is a 0 or 1 in each place of an array."""
    return (
        values.shape == shape
        and values.dtype.kind in "biuf"
        and bool(np.isin(values, (0, 1)).all())
    )


def _unsaid(got: Any) -> WrongKind:
    return WrongKind(
        f"search: the infos of an env with two players must say in {PLAYER!r} who made a move, "
        f"and in {TO_PLAY!r} who makes the next, 0 or 1; got {got}. Return both from reset and "
        f"from step."
    )


def check_players(planner: Any, model: Any) -> None:
    """Refuse two-player envs for a planner of single-player returns.

    Raises:
        WrongKind: that is so, or there are more than two.
    """
    count, name = num_players(model), type(planner).__name__
    if count == 1:
        return
    if count == 2 and planner.two_players:
        if getattr(model, "frameskip", 1) != 1:
            raise WrongKind(
                f"{name}: frameskip must be 1 in an env with two players, whose moves it would add "
                f"up; got {model.frameskip}. Make the env without it."
            )
        return
    raise WrongKind(
        f"{name}: env must have {'one or two players' if planner.two_players else 'one player'}; "
        f"got {count} in {model}. {planner.for_two_players}"
    )


def check_one_player(env: Any, where: str) -> None:
    """Refuse two-player envs where rewards are summed over an episode.

    Raises:
        WrongKind: that is so.
    """
    count = num_players(env)
    if count != 1:
        raise WrongKind(
            f"{where}: the env must have one player, whose rewards are added up; got {count} in "
            f"{env}. Have it play the others' moves within step, such as a wrapper does."
        )
