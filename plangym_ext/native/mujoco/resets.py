"""MujocoResets: resets of state rows with the generator stored in each state."""

from __future__ import annotations

import numpy as np

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.native.mujoco.player import FreshRows
from plangym_ext.native.mujoco.states import MujocoStates
from plangym_ext.native.mujoco.task import MujocoTask
from plangym_ext.states.envelope import HEADER
from plangym_ext.states.randomness.rng import RNG_BYTES, GeneratorBytes


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
        """Reset all of some rows but their simulations, or these too.

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
