"""GoGame env for two players: Go with area scoring and simple ko."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.envs.rules.line_game import METADATA, info_of
from plangym_ext.errors import InvalidOption
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel.row_kernel import Kernel
from plangym_ext.native.kernel.rules_env import RulesEnv

_EMPTY = 0


class GoGame(NamedTuple):
    """The env's arguments, and the points beside each."""

    komi: float
    max_moves: int
    beside: np.ndarray


class GoGameEnv(RulesEnv):
    """Go on a board of `size` by `size`; player 0, black, begins.

    Action `row * size + column` places a stone, the last action passes. A stone takes the chains
    of the other player that have no liberty left. Illegal are taken points, suicide, and taking
    back at once the one stone that took one (simple ko); positional superko is absent. An
    illegal move ends the game and loses it.

    Two passes end the game, and so does move `max_moves`. A player's area is its stones and the
    empty regions that only these touch; no stones are taken for dead. White has `komi` on top.
    The reward is that of the player who moved: 1 for more area, -1 for less, 0 for a draw and
    before the end; the other player's is its negative. Infos are those of `LineGameEnv`:
    `player`, `to_play`, `action_mask`. Steps after the end change nothing, pay 0 and report it
    again. Nothing is random.

    The observation is `[4, size, size]` uint8, fresh: the stones of the player who moves next,
    those of the other, that player's number, 0 or 1, everywhere, and the point that ko forbids.

    Args:
        size: of the board, 2 to 19.
        komi: -400 to 400.
        max_moves: 1 to 10,000, passes included; None for twice the number of points.
        render_mode: None or "ansi".

    Raises:
        ValueError: an argument is out of range.

    Source: J. Tromp and B. Taylor, "Logical rules of Go", with suicide forbidden.
    """

    metadata = METADATA

    def __init__(
        self,
        size: int = 9,
        komi: float = 7.5,
        *,
        max_moves: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        limit = 2 * size**2 if max_moves is None else max_moves
        if not (2 <= size <= 19 and -400 <= komi <= 400 and 1 <= limit <= 10_000):
            raise InvalidOption(
                "GoGameEnv: expected a size of 2 to 19, a komi of -400 to 400 and 1 to 10,000 "
                f"moves; got {size}, {komi} and {limit}."
            )
        points = size**2
        # Points row by row, empty or 1 + player; the point that ko forbids, 1 + its number, or 0.
        fields = [("points", "u1", (points,)), ("moves", "<u2"), ("ko", "<u2")]
        fields += [("passes", "u1"), ("over", "u1")]
        params = GoGame(float(komi), int(limit), _beside(int(size)))
        kernel = Kernel(
            np.dtype(fields), step, reset, observe, params, info_of(points + 1), check, reset_info
        )
        obs = spaces.Box(0, 1, (4, size, size), np.uint8)
        super().__init__(kernel, obs, spaces.Discrete(points + 1), render_mode=render_mode)

    def text(self) -> str:
        """Return the board, `x` for player 0 and `o` for player 1."""
        points = self.state["points"]
        rows = points.reshape(-1, math.isqrt(points.size))
        return "\n".join("".join(".xo"[point] for point in row) for row in rows)


def _beside(size: int) -> np.ndarray:
    """Return the points beside each, `[points, 4]` int64, -1 beyond the edge."""
    inside = np.arange(size**2).reshape(size, size)
    padded = np.pad(inside, 1, constant_values=-1)
    sides = (padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:])
    return np.stack(sides, axis=-1).reshape(-1, 4).astype(np.int64)


@compiled
def _chains(points: Any, params: Any) -> tuple[Any, Any]:
    """Return the chain, or the empty region, of each point, named by its first point.

    Second, what is known of each, at its name: of a chain its one liberty, -1 without one, -2 with
    several; of an empty region the sum of the colours that it touches, 1 and 2.
    """
    chain, liberty = np.full(points.size, -1, np.int64), np.full(points.size, -1, np.int64)
    waiting = np.empty(points.size, np.int64)
    for first in range(points.size):
        if chain[first] >= 0:
            continue
        chain[first], waiting[0], count = first, first, 1
        colours = np.int64(0)
        while count > 0:
            count -= 1
            at = waiting[count]
            for direction in range(4):
                to = params.beside[at, direction]
                if to < 0:
                    continue
                if points[to] != points[first]:
                    colours |= np.int64(points[to])
                    if points[to] == _EMPTY and liberty[first] != to:
                        liberty[first] = to if liberty[first] == -1 else -2
                elif chain[to] < 0:
                    chain[to], waiting[count] = first, to
                    count += 1
        if points[first] == _EMPTY:
            liberty[first] = colours
    return chain, liberty


@compiled
def _may_place(points: Any, params: Any, chain: Any, liberty: Any, at: int, colour: int) -> bool:
    """Return whether a stone on an empty point would have a liberty."""
    for direction in range(4):
        to = params.beside[at, direction]
        if to >= 0:
            # With a last liberty here, a chain of the other player is taken, and one's own is not
            # saved.
            is_last = liberty[chain[to]] == at
            if points[to] == _EMPTY or (points[to] == colour) != is_last:
                return True
    return False


@compiled
def _is_legal(state: Any, params: Any, chain: Any, liberty: Any, action: int) -> bool:
    points = state["points"]
    if state["over"] != 0:
        return False
    if action == points.size:
        return True
    if points[action] != _EMPTY or state["ko"] == action + 1:
        return False
    return _may_place(points, params, chain, liberty, action, 1 + state["moves"] % 2)


@compiled
def _place(state: Any, params: Any, chain: Any, liberty: Any, action: int) -> None:
    """Place a stone, take chains, and note a ko."""
    points, colour = state["points"], 1 + state["moves"] % 2
    taken, last = 0, -1
    points[action] = colour
    for direction in range(4):
        to = params.beside[action, direction]
        if to >= 0 and points[to] == 3 - colour and liberty[chain[to]] == action:
            for at in range(points.size):
                if chain[at] == chain[to]:
                    points[at] = _EMPTY
                    taken, last = taken + 1, at
    is_ko = taken == 1
    for direction in range(4):
        to = params.beside[action, direction]
        is_ko = is_ko and (to < 0 or to == last or points[to] == 3 - colour)
    state["ko"] = 1 + last if is_ko else 0


@compiled
def _lead(state: Any, params: Any) -> float:
    """Return black's area less white's and komi."""
    points = state["points"]
    chain, liberty = _chains(points, params)
    lead = -params.komi
    for at in range(points.size):
        owner = np.int64(points[at]) if points[at] != _EMPTY else liberty[chain[at]]
        if owner == 1:
            lead += 1.0
        elif owner == 2:
            lead -= 1.0
    return lead


@compiled
def describe(state: Any, params: Any, player: int, info: Any) -> None:
    """Write who moved, who moves next, and where."""
    points = state["points"]
    chain, liberty = _chains(points, params)
    info["player"], info["to_play"] = player, state["moves"] % 2
    for action in range(points.size + 1):
        info["action_mask"][action] = _is_legal(state, params, chain, liberty, action)


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Place a stone, or pass."""
    points, reward = state["points"], 0.0
    player: Any = np.int64(state["moves"] % 2)
    if state["over"] == 0:
        chain, liberty = _chains(points, params)
        if not _is_legal(state, params, chain, liberty, action):
            state["over"], state["ko"], reward = 1, 0, -1.0
        else:
            if action == points.size:
                state["passes"] += 1
                state["ko"] = 0
            else:
                state["passes"] = 0
                _place(state, params, chain, liberty, action)
            state["over"] = state["passes"] == 2 or state["moves"] + 1 >= params.max_moves
            if state["over"] != 0:
                lead = _lead(state, params)
                reward = np.sign(lead) if player == 0 else -np.sign(lead)
        state["moves"] += 1
    describe(state, params, player, info)
    return reward, state["over"] != 0, False


def reset(state: Any, params: Any) -> None:
    """Empty the board."""
    state["points"][:] = _EMPTY
    state["moves"] = state["ko"] = 0
    state["passes"] = state["over"] = 0


def reset_info(state: Any, params: Any, info: Any) -> None:
    """Write the infos of a position; who moved is not known, and is 0."""
    describe(state, params, 0, info)


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write the stones of the next player, those of the other, the player, and ko."""
    points, flat, player = state["points"], obs.reshape(-1), state["moves"] % 2
    for k in range(points.size):
        flat[k] = points[k] == 1 + player
        flat[points.size + k] = points[k] == 2 - player
        flat[2 * points.size + k] = player
        flat[3 * points.size + k] = state["ko"] == k + 1


def check(state: Any, params: Any) -> bool:
    """Return whether it is a board, and what it notes is possible."""
    for point in state["points"]:
        if point > 2:
            return False
    is_counted = state["moves"] <= params.max_moves and state["passes"] <= 2
    return is_counted and state["ko"] <= state["points"].size and state["over"] <= 1
