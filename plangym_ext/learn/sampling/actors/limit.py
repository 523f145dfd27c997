"""Limit: truncation of an actor's episodes at a maximal number of steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import rows_of, write_rows
from plangym_ext.learn.sampling.actors.columns import Columns
from plangym_ext.learn.sampling.actors.legal_actions import legal_actions
from plangym_ext.learn.sampling.actors.stepping import Stepped
from plangym_ext.learn.sampling.actors.venv_rows import VenvRows
from plangym_ext.learn.sampling.noise import row_seeds
from plangym_ext.learn.sampling.options import SamplerOptions

Ndarray = npt.NDArray[Any]


class Limit:
    """Truncates the episodes of an actor at `SamplerOptions.max_steps`, and resets their envs.

    Args:
        venv: the envs.
        columns: of their rows.
        options: of the sampler, with `max_steps`.
        numbers: of the rows among all, by which resets are seeded.
    """

    def __init__(
        self, venv: VenvRows, columns: Columns, options: SamplerOptions, numbers: range
    ) -> None:
        self._venv, self._columns = venv, columns
        assert options.max_steps is not None
        self._most, self._seed = options.max_steps, options.seed
        self._numbers = np.array(numbers)
        self._lengths = np.zeros(columns.num_rows, np.int64)

    def begin(self, lengths: Ndarray) -> None:
        """Begin a fragment; `lengths` `[b]` are the steps of the episodes in progress."""
        self._lengths[:] = lengths

    def cut(self, t: int, stepped: Stepped, before: npt.NDArray[np.uint64]) -> Ndarray:
        """Truncate the episodes that are too long after step t.

        Args:
            t: the step, whose results are in the columns.
            stepped: what is left of it.
            before: `[b]`, steps that each row had taken before it, ever.

        Returns:
            `[b]` bool, the rows in which an episode was cut.
        """
        columns = self._columns
        self._lengths[slice(None) if stepped.rows is None else stepped.rows] += 1
        ended = columns.terminated[t] | columns.truncated[t]
        found: Ndarray = (self._lengths >= self._most) & ~ended
        (rows,) = found.nonzero()
        if len(rows):
            columns.truncated[t, rows] = True
            write_rows(columns.final_obs[t], rows, rows_of(columns.obs[t + 1], rows))
            self._reset(t, rows, before)
        return found

    def _reset(self, t: int, rows: Ndarray, before: npt.NDArray[np.uint64]) -> None:
        """Begin the next episodes of some rows."""
        columns, space = self._columns, self._venv.single_action_space
        # By row and step: no other row, and no earlier episode, begins with this seed.
        seeds = row_seeds(self._seed, self._numbers[rows], before[rows] + np.uint64(1))
        obs, infos = self._venv.reset_rows(rows, seeds)
        write_rows(columns.obs[t + 1], rows, obs)
        if columns.legal is not None:
            told = legal_actions(infos, space, len(rows))
            columns.legal[t + 1, rows] = True if told is None else told

    def leave(self, t: int, going_on: Ndarray) -> None:
        """Restart the step count of rows whose game ended with step t."""
        columns = self._columns
        self._lengths[(columns.terminated[t] | columns.truncated[t]) & ~going_on] = 0
