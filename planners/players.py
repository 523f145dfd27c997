"""Envs in which two players move: who made a move, and who is to make the next."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import WrongKind

#: What the infos of a step say where there are two players: who made the move, whose the reward
#: is, and who makes the next. Players are 0 and 1.
PLAYER, TO_PLAY = "player", "to_play"


def num_players(model: Any) -> int:
    """Return how many players an env has, as its metadata says; 1 if they do not."""
    metadata = getattr(model, "metadata", None) or {}
    return int(metadata.get("num_players", 1))


def movers(env: Any, infos: Any, count: int) -> tuple[list[Any], list[Any]]:
    """Return who made each of `count` moves and who makes the next; None with one player."""
    if num_players(env) != 2:
        return [None] * count, [None] * count
    return np.asarray(infos[PLAYER]).tolist(), np.asarray(infos[TO_PLAY]).tolist()


def next_player(info: Any, env: Any) -> int | None:
    """Return who makes the next move as an info says; None if the env has one player.

    Raises:
        WrongKind: the info of an env with two players does not say so.
    """
    if num_players(env) != 2:
        return None
    if TO_PLAY not in info:
        raise WrongKind(
            f"play: the infos of an env with two players must say in {TO_PLAY!r} who makes the "
            f"next move, 0 or 1; got {sorted(info)}. Return it from reset and from step."
        )
    return int(info[TO_PLAY])


def player_swaps(infos: Any, count: int) -> npt.NDArray[np.bool_]:
    """Return `[L]` bool, whether the next move is the other player's.

    Args:
        infos: of a batch of steps, of an env with two players.
        count: L.

    Raises:
        WrongKind: the infos do not say who moved and who moves next.
    """
    names = infos.keys()
    if PLAYER not in names or TO_PLAY not in names:
        raise WrongKind(
            f"search: the infos of an env with two players must say in {PLAYER!r} who made a move, "
            f"and in {TO_PLAY!r} who makes the next, 0 or 1; got {sorted(names)}. Return both from "
            f"reset and from step."
        )
    swaps = np.ascontiguousarray(np.asarray(infos[PLAYER]) != np.asarray(infos[TO_PLAY]))
    assert swaps.shape == (count,)
    return swaps


def check_players(planner: Any, model: Any) -> None:
    """Refuse an env with two players for a planner that looks for its own gain in every move.

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
    """Refuse an env with more players than one where rewards are added up over an episode.

    Raises:
        WrongKind: that is so.
    """
    count = num_players(env)
    if count != 1:
        raise WrongKind(
            f"{where}: the env must have one player, whose rewards are added up; got {count} in "
            f"{env}. Have it play the others' moves within step, such as a wrapper does."
        )
