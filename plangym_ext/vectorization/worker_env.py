"""The env inside a worker: what its requests are answered with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.row_loop import run_rows
from plangym_ext.core.rows import RowBatch


class WorkerEnv:
    """One `GymEnv` and the batches in shared memory that it runs rows of.

    Args:
        constructor: returns a `GymEnv`, or a gymnasium env to make one of.
    """

    def __init__(self, constructor: Any) -> None:
        env = constructor()
        if isinstance(env, gym.Env):
            made = env
            env = GymEnv(lambda: made)
        if not isinstance(env, GymEnv):
            raise TypeError(
                "constructor: expected it to return a gymnasium.Env or a plangym_ext GymEnv; got "
                f"{type(env).__module__}.{type(env).__qualname__}"
            )
        self._env = env
        self._batches: dict[tuple[int, int, int], RowBatch] = {}

    def description(self) -> dict[str, Any]:
        """Name, spaces and row layout; what the parent checks and shows."""
        env = self._env
        return {
            "name": env.name,
            "observation_space": env.observation_space,
            "action_space": env.action_space,
            "autoreset": env.autoreset,
            "layout": env.layout,
            "info": env.layout.info,
            "identity": env.envelope.identity,
            "payload_width": env.codec.width,
            "exact": env.codec.exact,
        }

    def memory(self, block: SharedBlock) -> np.ndarray:
        """View `[nbytes]` uint8 of a block; the views made of an earlier one are dropped."""
        self._batches.clear()
        return block.ndarray((block.nbytes,), np.uint8)

    def run(
        self, memory: np.ndarray, num_rows: int, horizon: int, ranges: Iterable[tuple[int, int]]
    ) -> dict[int, dict[str, Any]]:
        """Run the given row ranges of a batch in place.

        Returns:
            Infos of the rows whose fields do not fit the shared columns, by row.

        Raises:
            RowError: the env raised.
        """
        key = (memory.ctypes.data, num_rows, horizon)
        batch = self._batches.get(key)
        if batch is None:
            if len(self._batches) > 64:
                self._batches.clear()
            batch = RowBatch(self._env.layout, num_rows, horizon, memory)
            self._batches[key] = batch
        batch.own_infos.clear()
        for first, stop in ranges:
            run_rows(self._env, batch, first, stop)
        return batch.own_infos

    def widen(self, width: int) -> None:
        """Make rows wider; batches are viewed anew."""
        self._env.widen(width)
        self._batches.clear()

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of the env."""
        return getattr(self._env, name)(*args, **kwargs)

    def get(self, name: str) -> Any:
        """Attribute of the env, or of the gymnasium env that it wraps."""
        if hasattr(self._env, name):
            return getattr(self._env, name)
        return self._env.gym_env.get_wrapper_attr(name)

    def close(self) -> None:
        """Close the env."""
        self._env.close()
