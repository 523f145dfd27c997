"""Resets of rows that ended: each by the generator in its own state."""

from __future__ import annotations

import numpy as np

from plangym_ext.core.envelope import HEADER
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.rng import RNG_BYTES, GeneratorBytes
from plangym_ext.native.mujoco_player import MujocoPlayer
from plangym_ext.native.mujoco_states import MujocoStates
from plangym_ext.native.mujoco_task import MujocoTask


class MujocoResets:
    """Resets state rows where they are.

    Args:
        env: resets the rows of a task that does not say what a reset draws.
        task: may say it.
        player: computes the states.
        states: where a row holds what.
    """

    def __init__(
        self, env: GymEnv, task: MujocoTask, player: MujocoPlayer, states: MujocoStates
    ) -> None:
        self._env, self._task, self._player, self._states = env, task, player, states
        self._rng = np.random.Generator(np.random.PCG64(0))
        self._bytes = GeneratorBytes()

    def reset(self, rows: np.ndarray, ended: np.ndarray) -> None:
        """Bring rows to fresh episodes.

        Args:
            rows: `[B, S]` uint8 states; written in place, without a new seal.
            ended: `[B]` bool, which ones.
        """
        chosen = np.flatnonzero(ended)
        drawn = [self._drawn(rows[row]) for row in chosen]
        joints = [joint for joint in drawn if joint is not None]
        if len(joints) < len(chosen):
            self._reset_by_env(rows, chosen)
            return
        self._player.restart(np.array(joints), chosen, self._states.simulation(rows))
        if self._states.limit is not None:
            self._states.elapsed(rows)[chosen] = 0

    def _drawn(self, row: np.ndarray) -> np.ndarray | None:
        """Joints `[nq + nv]` that a reset of this row draws; its generator goes on."""
        simulation = self._states.simulation(row[None])[0]
        kept_at = self._player.carried_end
        rng_at = kept_at + (0 if self._task.kept is None else self._states.part.kept_bytes)
        generator = simulation[rng_at : rng_at + RNG_BYTES]
        self._bytes.restore(self._rng, generator.data, 0)
        found = self._task.draw(self._rng)
        if found is None:
            return None
        self._bytes.capture(self._rng, generator.data, 0)
        positions, velocities = found
        if self._task.kept is not None:
            simulation[kept_at:rng_at] = positions[self._task.kept].view(np.uint8)
        return np.concatenate((positions, velocities))

    def _reset_by_env(self, rows: np.ndarray, chosen: np.ndarray) -> None:
        env = self._env
        here = env.get_state() if env.is_reset else None
        try:
            for i in chosen:
                env.codec.restore(rows[i].data, HEADER)
                env.gym_env.reset()
                env.codec.capture(rows[i].data, HEADER)
        finally:
            if here is not None:
                env.codec.restore(here.data, HEADER)
