"""One step of an actor's envs into its columns."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import leaves, mapped
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.learn.sampling.columns import Columns
from plangym_ext.vector.vector_env import PlanVectorEnv

Ndarray = npt.NDArray[Any]


class Stepped(NamedTuple):
    """What is left of a step once arrays are written.

    Attributes:
        rows: `[k]` int, the rows that were stepped; None for all.
        infos: of these rows, as gymnasium's vector envs give them.
    """

    rows: Ndarray | None
    infos: dict[str, Any]

    def where(self, chosen: Ndarray) -> Ndarray:
        """Return `[m]`, at which entries of the infos the chosen rows are; all were stepped."""
        return chosen if self.rows is None else np.searchsorted(self.rows, chosen)


class EnvSteps:
    """Steps envs, and writes what comes of it where it belongs.

    Args:
        venv: the vector env.
        columns: of its rows.
        layout: of the observations.
    """

    def __init__(self, venv: PlanVectorEnv, columns: Columns, layout: SpaceLayout) -> None:
        self._venv, self._columns, self._layout = venv, columns, layout
        self._rows: Ndarray | None = None

    def begin(self, t: int, rows: Ndarray | None) -> None:
        """Begin step t, of some rows or, for None, of all."""
        self._rows = rows
        actions, venv = self._columns.action[t], self._venv
        if rows is None:
            venv.step_async(actions)
        elif len(rows):
            venv.step_async(mapped(lambda leaf: leaf[rows], actions), rows)

    def finish(self, t: int) -> Stepped:
        """Wait for step t; write rewards, endings and observations, those of endings too."""
        columns, rows = self._columns, self._rows
        if rows is not None and not len(rows):
            return Stepped(rows, {})
        obs, reward, terminated, truncated, infos = self._venv.step_wait()
        at: Any = slice(None) if rows is None else rows
        columns.reward[t, at], columns.terminated[t, at] = reward, terminated
        columns.truncated[t, at] = truncated
        for target, part in zip(leaves(columns.obs[t + 1]), self._layout.split(obs), strict=True):
            target[at] = part
        if "final_obs" in infos:
            self._write_finals(t, Stepped(rows, infos))
        return Stepped(rows, infos)

    def settle(self) -> None:
        """Wait for a step that was begun and not finished, whatever comes of it."""
        # An interrupt may have come at any moment, so only the vector env knows.
        with contextlib.suppress(gym.error.NoAsyncCallError, Exception):
            self._venv.step_wait()

    def _write_finals(self, t: int, stepped: Stepped) -> None:
        entries = np.flatnonzero(stepped.infos["_final_obs"])
        for entry in entries.tolist():
            row = entry if stepped.rows is None else int(stepped.rows[entry])
            parts = self._layout.split(stepped.infos["final_obs"][entry])
            for target, part in zip(leaves(self._columns.final_obs[t]), parts, strict=True):
                target[row] = part
