"""MujocoStates: column layout of a MuJoCo env's state rows."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.errors import BackendUnavailable
from plangym_ext.states.codec import StateCodec
from plangym_ext.states.envelope import HEADER
from plangym_ext.states.wrapper_parts import TimeLimitPart

_COUNTER_BYTES = 8


class MujocoStates:
    """Columns of `[B, S]` state rows: the time limit's counter, and the simulation.

    A row holds, after its header, the counter of `TimeLimit` if there is one, then what
    the simulator's codec writes: integration vector, carried fields, and what no step
    changes (the generator, what a reset has drawn).

    Args:
        codec: of an env whose layers are, from the outside, at most `TimeLimit` and
            wrappers without a state, and a MuJoCo simulator.
        limit: the `TimeLimit`, or None.

    Raises:
        BackendUnavailable: another layer has a state.

    Attributes:
        part: the simulator's own part of the codec.
        limit: env steps after which an episode is cut, or None.
        length: bytes of a payload.
    """

    def __init__(self, codec: StateCodec, limit: gym.wrappers.TimeLimit | None) -> None:
        *above, part = codec.parts
        expected = [] if limit is None else [TimeLimitPart]
        if codec.method != "codec" or [type(one) for one in above] != expected:
            names = ", ".join(f"{name} ({one.method})" for one, name in codec.described())
            raise BackendUnavailable(
                "mujoco backend: expected an env whose state is that of a MuJoCo simulator and of "
                f"TimeLimit; got {names}. Use backend='process'."
            )
        self.part: Any = part
        self.limit: int | None = None if limit is None else limit._max_episode_steps
        self.length = sum(one.width for one in codec.parts)
        self._start = HEADER + (_COUNTER_BYTES if limit is not None else 0)

    def simulation(self, rows: np.ndarray) -> np.ndarray:
        """Return a view `[B, *]` uint8, from the integration vector to the end."""
        return rows[:, self._start :]

    def vectors(self, rows: np.ndarray, size: int) -> np.ndarray:
        """Return a view `[B, size]` float64 of the integration vectors."""
        # The header and the counter are whole words.
        start = self._start // 8
        return rows.view("<f8")[:, start : start + size]

    def elapsed(self, rows: np.ndarray) -> np.ndarray:
        """Return a view `[B]` int64 of the steps taken since the reset; for an env with a limit."""
        assert self.limit is not None
        return rows.view("<i8")[:, HEADER // 8]
