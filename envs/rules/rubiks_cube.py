"""RubiksCube env: a cube of n by n by n, scrambled by drawn quarter turns."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.core.options import OneOf, Range
from plangym_ext.errors import InvalidOption
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel import pcg64
from plangym_ext.native.kernel.row_kernel import Kernel
from plangym_ext.native.kernel.rules_env import RulesEnv

#: Faces in their order, as outward normals: up, down, front, back, right, left.
_FACES = np.array([[0, 0, 1], [0, 0, -1], [0, -1, 0], [0, 1, 0], [1, 0, 0], [-1, 0, 0]], np.int64)
_REWARDS = ("step", "solved", "stickers")


class RubiksCube(NamedTuple):
    """The env's arguments; after turn k, the sticker at i is the one that was at `turns[k, i]`."""

    scramble: int
    smart: bool
    reward: int
    solved: np.ndarray
    turns: np.ndarray


class RubiksCubeEnv(RulesEnv):
    """A cube of n by n by n in six colours.

    Actions turn a layer a quarter, clockwise if they are even, counterclockwise if odd, as seen
    from outside its face: for each face, of up, down, front, back, right, left, first its outermost
    layer, then those below it, `n // 2` in all. The turn after which each face has one colour ends
    the episode. A reset scrambles the solved cube by `scramble` drawn turns; it may lie nearer
    than that, and is drawn again if it is solved.

    The observation is `[6, n, n, colours]` float32, fresh: the colour of each sticker, one-hot.

    Args:
        n: 2 to 7.
        scramble: turns, 1 to 1,000.
        reward: "step" pays -1 a turn, 0 for the last; "solved" 1 for the last, else 0; "stickers"
            the share of stickers that have their colour of the solved cube's.
        colours: of the six faces, 0 to 5, at least two different ones; None for all.
        smart: whether no turn of a scramble undoes the one before, or comes four times in a row.
        render_mode: None or "ansi".

    Raises:
        ValueError: an argument is out of range.

    Source: E. Rubik 1974; every position of n = 3 can be solved in 26 quarter turns (Rokicki,
    Davidson 2014). Alpacka's takes a cube of two as unsolved if it is turned as a whole.
    """

    def __init__(
        self,
        n: Annotated[int, Range(2, 7)] = 3,
        scramble: Annotated[int, Range(1, 1000)] = 100,
        *,
        reward: Annotated[str, OneOf(_REWARDS)] = "step",
        colours: Sequence[int] | None = None,
        smart: bool = True,
        render_mode: str | None = None,
    ) -> None:
        pattern = np.arange(6) if colours is None else np.array(colours)
        used = {*pattern.ravel().tolist()}
        if pattern.shape != (6,) or not used <= {*range(6)} or len(used) < 2:
            raise InvalidOption(
                "RubiksCubeEnv: colours must be six numbers from 0 to 5, not all the same; got "
                f"{colours}."
            )
        solved = np.repeat(pattern.astype(np.uint8), n * n)
        kind = _REWARDS.index(reward)
        params = RubiksCube(int(scramble), bool(smart), kind, solved, turns(n))
        state = np.dtype([("stickers", "u1", (6 * n * n,)), ("rng", pcg64.RNG)])
        kernel = Kernel(state, step, reset, observe, params, check=check)
        obs = spaces.Box(0.0, 1.0, (6, n, n, int(pattern.max()) + 1), np.float32)
        super().__init__(kernel, obs, spaces.Discrete(len(params.turns)), render_mode=render_mode)

    def text(self) -> str:
        """Return a line of stickers for each face, by the first letters of the faces."""
        faces = self.state["stickers"].reshape(6, -1)
        return "\n".join("".join("UDFBRL"[colour] for colour in face) for face in faces)


@functools.cache
def turns(n: int) -> np.ndarray:
    """Return which sticker each turn brings to each place, `[12 (n // 2), 6 n n]` int64.

    A sticker is a place on the cube, in steps of 2 from its middle, and the normal of its face; a
    turn rotates those of one layer.
    """
    places = [
        (tuple(place), tuple(normal))
        for normal in _FACES.tolist()
        for place in (2 * np.array([*np.ndindex(n, n, n)]) - (n - 1)).tolist()
        if np.dot(place, normal) == n - 1
    ]
    number = {sticker: i for i, sticker in enumerate(places)}
    found = np.empty((len(_FACES), n // 2, 2, len(places)), np.int64)
    for face, level, direction in np.ndindex(*found.shape[:3]):
        axis = _FACES[face]
        for i, (place, normal) in enumerate(places):
            at, facing = np.array(place), np.array(normal)
            if at @ axis == n - 1 - 2 * level:
                at, facing = (_rotated(vector, axis, direction) for vector in (at, facing))
            found[face, level, direction, number[tuple(at.tolist()), tuple(facing.tolist())]] = i
    return found.reshape(-1, len(places))


def _rotated(vector: np.ndarray, axis: np.ndarray, direction: int) -> np.ndarray:
    """Return a vector after a quarter turn about an axis, clockwise as seen from its tip."""
    along: np.ndarray = axis * (vector @ axis)
    across = np.cross(vector, axis) if direction == 0 else np.cross(axis, vector)
    return along + across


@compiled
def _turn(stickers: Any, turn: Any) -> None:
    before = stickers.copy()
    for i in range(stickers.size):
        stickers[i] = before[turn[i]]


@compiled
def _is_solved(stickers: Any) -> bool:
    size, solved = stickers.size // 6, True
    for i in range(stickers.size):
        solved = solved and stickers[i] == stickers[i - i % size]
    return solved


def step(state: Any, params: Any, action: int, info: Any) -> tuple[float, bool, bool]:
    """Turn a layer."""
    stickers = state["stickers"]
    _turn(stickers, params.turns[action])
    solved = _is_solved(stickers)
    reward = 1.0 if solved else 0.0
    if params.reward == 0:
        reward -= 1.0
    elif params.reward == 2:
        right = 0
        for i in range(stickers.size):
            right += stickers[i] == params.solved[i]
        reward = right / stickers.size
    return reward, solved, False


def reset(state: Any, params: Any) -> None:
    """Scramble the solved cube."""
    stickers = state["stickers"]
    stickers[:] = params.solved
    while _is_solved(stickers):
        last, run = -1, 0
        for _ in range(params.scramble):
            turn = pcg64.integers(state["rng"], len(params.turns))
            while params.smart and (turn == last ^ 1 if run < 3 else turn // 2 == last // 2):
                turn = pcg64.integers(state["rng"], len(params.turns))
            run = run + 1 if turn == last else 1
            last = turn
            _turn(stickers, params.turns[turn])


def observe(state: Any, params: Any, obs: Any) -> None:
    """Write the colours, one-hot."""
    stickers = state["stickers"]
    flat = obs.reshape(stickers.size, -1)
    flat[:] = 0.0
    for i in range(stickers.size):
        flat[i, stickers[i]] = 1.0


def check(state: Any, params: Any) -> bool:
    """Return whether there are as many stickers of each colour, and such a generator."""
    counts = np.zeros(256, np.int64)
    for i in range(params.solved.size):
        counts[state["stickers"][i]] += 1
        counts[params.solved[i]] -= 1
    for count in counts:
        if count != 0:
            return False
    return pcg64.could_be_rng(state["rng"])
