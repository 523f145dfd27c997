"""MujocoResets: resets of state rows with their own generators; MujocoStates, a row's columns."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import BackendUnavailable
from plangym_ext.native.mujoco.player import FreshRows
from plangym_ext.native.mujoco.task import MujocoTask
from plangym_ext.states.codec import StateCodec
from plangym_ext.states.envelope import HEADER
from plangym_ext.states.randomness.rng import RNG_BYTES, GeneratorBytes
from plangym_ext.states.wrapper_parts import TimeLimitPart


class MujocoResets:
    """Resets state rows in place.

    Args:
        env: resets the rows of a task that does not say what a reset draws.
        task: may say it.
        states: where a row holds what.
        carried_end: bytes from the simulation's part of a row to what follows it.
    """

    def __init__(
        self, env: GymEnv, task: MujocoTask, states: MujocoStates, carried_end: int
    ) -> None:
        self._env, self._task, self._states = env, task, states
        self._kept_at = carried_end
        kept_bytes = 0 if task.kept is None else states.part.kept_bytes
        self._rng_at = carried_end + kept_bytes
        self._rng = np.random.Generator(np.random.PCG64(0))
        self._bytes = GeneratorBytes()
        #: Whether a reset is drawn here, rather than by the env.
        self.draws = task.draw(self._rng) is not None

    def reset(self, rows: np.ndarray, ended: np.ndarray) -> FreshRows | None:
        """Reset some rows, with or without their simulations.

        Args:
            rows: `[B, S]` uint8 states; written in place, without a new seal.
            ended: `[B]` bool, which ones.

        Returns:
            The joints at which their simulations are to begin; None if that is done.
        """
        chosen = np.flatnonzero(ended)
        if not self.draws:
            self._reset_by_env(rows, chosen)
            return None
        simulations = self._states.simulation(rows)
        joints = [self._drawn(simulations[row]) for row in chosen]
        if self._states.limit is not None:
            self._states.elapsed(rows)[chosen] = 0
        return FreshRows(chosen, np.array(joints))

    def _drawn(self, simulation: np.ndarray) -> np.ndarray:
        """Return joints `[nq + nv]` that a reset of a row draws; its generator goes on."""
        generator = simulation[self._rng_at : self._rng_at + RNG_BYTES].data
        self._bytes.restore(self._rng, generator, 0)
        found = self._task.draw(self._rng)
        assert found is not None
        # Into the row itself: its next reset draws on from there.
        self._bytes.capture(self._rng, generator, 0)
        positions, velocities = found
        if self._task.kept is not None:
            simulation[self._kept_at : self._rng_at] = positions[self._task.kept].view(np.uint8)
        return np.concatenate((positions, velocities))

    def _reset_by_env(self, rows: np.ndarray, chosen: np.ndarray) -> None:
        env = self._env
        # The env proper is its user's, and goes back to where it was.
        here = env.get_state() if env.is_reset else None
        try:
            for row in chosen:
                env.codec.restore(rows[row].data, HEADER)
                env.gym_env.reset()
                end = env.codec.capture(rows[row].data, HEADER)
                # What a longer state has left; seals count on zeros there.
                rows[row, end:] = 0
        finally:
            if here is not None:
                env.codec.restore(here.data, HEADER)


# MujocoStates: column layout of a MuJoCo env's state rows ---------------------


_COUNTER_BYTES = 8


class MujocoStates:
    """Columns of `[B, S]` state rows: the time limit's counter, and the simulation.

    A row holds, after its header, the counter of `TimeLimit` if there is one, then what
    the simulator's codec writes: integration vector, carried fields, and data that no step changes
    (the generator, draws of the reset).

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
