"""Film: the moves of an episode, drawn when a notebook shows them."""

from __future__ import annotations

import math
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import rows_of
from plangym_ext.core.drawing import rgb_frame
from plangym_ext.planners.pages.tree import as_base64, filled, png, reduced

#: Pixels of the longer side of a frame, frames of a film, and bytes of all of them.
LARGEST, MOST_FRAMES, MOST_BYTES = 300, 120, 1_500_000


class Film:
    """Plays the actions of an episode again to draw it; nothing is drawn before.

    A copy, or what another process gets, is None: it would need the env.

    Args:
        env: in which the episode was played, still open; made with `render_mode="rgb_array"`.
        state: `[S]` that it began from.
    """

    def __init__(self, env: Any, state: npt.NDArray[np.uint8]) -> None:
        # An episode must not keep the env, and its workers, alive.
        self._env, self._state = weakref.ref(env), state

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()

    def page(self, actions: Any, rewards: npt.NDArray[np.float64]) -> str | None:
        """Return the page; None if the env is gone. The env is afterwards where it was.

        Args:
            actions: of the moves, one each.
            rewards: `[T]` float64, of player 0.

        Raises:
            PlangymExtError: the env is closed, in use by another thread, or cannot draw.
        """
        env = self._env()
        if env is None or not len(rewards):
            return None
        here = env.get_state()
        # Moves after which a picture is taken; 0 is the beginning.
        count = min(len(rewards) + 1, MOST_FRAMES)
        moves = np.unique(np.linspace(0, len(rewards), count).astype(int)).tolist()
        try:
            frames = self._frames(env, actions, frozenset(moves))
        finally:
            env.set_state(here)
        # Pictures of much detail are dropped until the rest fits; the last one always stays.
        every = math.ceil(sum(map(len, frames)) / MOST_BYTES)
        kept = slice(len(moves) - 1, None, -every)
        totals = np.append(0.0, np.cumsum(rewards))[moves]
        seconds = len(rewards) * _seconds_of_a_move(env)
        data = {
            "moves": moves[kept][::-1],
            "totals": [f"{total:g}" for total in totals[kept][::-1]],
            "frames": frames[kept][::-1],
        }
        data["interval"] = 1000 * seconds / max(len(data["moves"]) - 1, 1)
        return filled("film.html", data)

    def _frames(self, env: Any, actions: Any, moves: frozenset[int]) -> list[str]:
        state, found = self._state, []
        env.set_state(state)
        for move in range(max(moves) + 1):
            if move:
                state, *_ = env.step(rows_of(actions, move - 1), state)
            if move in moves:
                found.append(as_base64(png(reduced(rgb_frame(env.render(), "film"), LARGEST))))
        return found


def film_of(env: Any, state: npt.NDArray[np.uint8]) -> Film | None:
    """Return the film of an episode that begins; None of an env that draws none, or inexactly."""
    draws = getattr(getattr(env, "gym_env", None), "render_mode", None) == "rgb_array"
    return Film(env, state) if draws and getattr(env, "exact", False) is not False else None


def _seconds_of_a_move(env: Any) -> float:
    rate = env.metadata.get("render_fps")
    known = isinstance(rate, int | float | np.number) and 0 < rate < np.inf
    return float(getattr(env, "frameskip", 1) or 1) / (float(rate) if known else 30.0)
