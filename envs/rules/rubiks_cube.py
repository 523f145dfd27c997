"""RubiksCube env: the cube of three by three by three, scrambled by drawn quarter turns."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.errors import InvalidOption
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.kernel.row_kernel import Kernel
from plangym_ext.native.kernel.rules_env import RulesEnv

_STATE = np.dtype([("stickers", "u1", (54,)), ("rng", pcg64.RNG)])
#: Faces in the order of their colours, as outward normals: up, down, left, right, front, back.
_FACES = np.array([[0, 0, 1], [0, 0, -1], [-1, 0, 0], [1, 0, 0], [0, -1, 0], [0, 1, 0]], np.int64)


class RubiksCube(NamedTuple):
    """The env's argument; after turn k, the sticker at i is the one that was at `turns[k, i]`."""

    scramble: int
    turns: np.ndarray


class RubiksCubeEnv(RulesEnv):
    """A cube of 54 stickers in six colours.

    Actions 2 f and 2 f + 1 turn face f, of up, down, left, right, front, back, a quarter clockwise
    and counterclockwise, as seen from outside. The turn after which each face has one colour
    pays 1 and ends the episode; all others pay 0. A reset scrambles the solved cube by `scramble`
    drawn turns; it may lie nearer than that, and is drawn again if it is solved.

    The observation is `[54, 6]` float32, fresh: the colour of each sticker, one-hot. Stickers are
    numbered face by face.

    Args:
        scramble: turns, 1 to 1,000.
        render_mode: None or "ansi".

    Raises:
        ValueError: an argument is out of range.

    Source: E. Rubik 1974; every position can be solved in 26 quarter turns (Rokicki, Davidson
    2014).
    """

    def __init__(self, scramble: int = 20, *, render_mode: str | None = None) -> None:
        if not 1 <= scramble <= 1000:
            raise InvalidOption(f"RubiksCubeEnv: scramble must be in [1, 1000]; got {scramble}.")
        params = RubiksCube(int(scramble), turns())
        kernel = Kernel(_STATE, step, reset, observe, params, check=check)
        obs = spaces.Box(0.0, 1.0, (54, 6), np.float32)
        super().__init__(kernel, obs, spaces.Discrete(12), render_mode=render_mode)

    def text(self) -> str:
        """Return a line of nine stickers for each face, by the first letters of the faces."""
        faces = self.state["stickers"].reshape(6, 9)
        return "\n".join("".join("UDLRFB"[colour] for colour in face) for face in faces)


@functools.cache
def turns() -> np.ndarray:
    """Return which sticker each turn brings to each place, `[12, 54]` uint8.

    A sticker is a place on the cube, with coordinates -1, 0 and 1, and the normal of its face; a
    turn rotates those of one layer.
    """
    places = [
        (tuple(place), tuple(normal))
        for normal in _FACES.tolist()
        for place in np.ndindex(3, 3, 3)
        if np.dot(np.array(place) - 1, normal) == 1
    ]
    number = {sticker: i for i, sticker in enumerate(places)}
    found = np.empty((12, 54), np.uint8)
    for face, axis in enumerate(_FACES):
        for direction in range(2):
            for i, (place, normal) in enumerate(places):
                at = np.array(place) - 1
                is_turned = at @ axis == 1
                moved = _rotated(at, axis, direction) if is_turned else at
                facing = _rotated(np.array(normal), axis, direction) if is_turned else normal
                to = number[tuple((moved + 1).tolist()), tuple(np.array(facing).tolist())]
                found[2 * face + direction, to] = i
    return found


def _rotated(vector: np.ndarray, axis: np.ndarray, direction: int) -> np.ndarray:
    """Return a vector after a quarter turn about an axis, clockwise as seen from its tip."""
    along: np.ndarray = axis * (vector @ axis)
    across = np.cross(vector, axis) if direction == 0 else np.cross(axis, vector)
    return along + across


@compiled
def _turn(stickers: Any, turn: Any) -> None:
    before = stickers.copy()
    for i in range(54):
        stickers[i] = before[turn[i]]


@compiled
def _is_solved(stickers: Any) -> bool:
    solved = True
    for i in range(54):
        solved = solved and stickers[i] == stickers[i - i % 9]
    return solved


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Turn a face."""
    _turn(state["stickers"], params.turns[action])
    solved = _is_solved(state["stickers"])
    return 1.0 if solved else 0.0, solved, False


def reset(state: Any, params: Any) -> None:
    """Scramble the solved cube."""
    stickers = state["stickers"]
    for i in range(54):
        stickers[i] = i // 9
    while _is_solved(stickers):
        for _ in range(params.scramble):
            _turn(stickers, params.turns[pcg64.integers(state["rng"], 12)])


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write the colours, one-hot."""
    obs[:] = 0.0
    for i in range(54):
        obs[i, state["stickers"][i]] = 1.0


def check(state: Any, params: Any) -> bool:
    """Return whether there are such colours and such a generator."""
    for colour in state["stickers"]:
        if colour > 5:
            return False
    return pcg64.could_be_rng(state["rng"])
