"""What infos say of steps: of all, what is kept; of those that end an episode, what it was like."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.learn.sampling.columns import Columns
from plangym_ext.learn.sampling.infos import GAME_OVER, info_column, missing_info
from plangym_ext.learn.sampling.options import SamplerOptions
from plangym_ext.learn.sampling.stepping import Stepped

Ndarray = npt.NDArray[Any]


class Endings:
    """Reads infos of an actor's steps.

    Under same-step autoreset the info of the step that ended an episode is in "final_info";
    beside it is that of the reset.

    Args:
        columns: of the actor.
        options: of the sampler.

    Attributes:
        going_on: `[T, b]` bool, endings after which the game goes on: the info "game_over" of
            the step is false, as when a life is lost.
    """

    def __init__(self, columns: Columns, options: SamplerOptions) -> None:
        self._columns = columns
        self._names, self._fields = tuple(options.env_info), tuple(options.episode_fields)
        self.going_on = np.zeros((columns.num_steps, columns.num_rows), bool)
        self._found: dict[str, list[Ndarray]] = {name: [] for name in self._fields}

    def clear(self) -> None:
        """Forget everything: a new fragment begins."""
        self.going_on[:] = False
        for parts in self._found.values():
            parts.clear()

    def write_infos(self, t: int, stepped: Stepped) -> None:
        """Write the infos that are kept of step t."""
        if not self._names:
            return
        columns, infos = self._columns, stepped.infos
        rows: Any = slice(None) if stepped.rows is None else stepped.rows
        finals = infos.get("final_info", {})
        ended = infos.get("_final_info")
        for name, target in zip(self._names, columns.env_info[t], strict=True):
            values, known = info_column(infos, name)
            last, last_known = info_column(finals, name)
            if values is None and last is None:
                raise missing_info(name, infos, "env_info")
            target[rows] = 0
            if values is not None:
                chosen = known if ended is None else known & ~ended
                self._put(target, stepped, chosen, values)
            if last is not None:
                self._put(target, stepped, last_known, last)

    @staticmethod
    def _put(target: Ndarray, stepped: Stepped, chosen: Ndarray, values: Ndarray) -> None:
        entries = np.flatnonzero(chosen)
        rows = entries if stepped.rows is None else stepped.rows[entries]
        for row, entry in zip(rows.tolist(), entries.tolist(), strict=True):
            target[row] = values[entry]

    def add(self, t: int, rows: Ndarray, stepped: Stepped) -> None:
        """Read the infos of rows that ended in step t."""
        finals = stepped.infos.get("final_info", {})
        entries = stepped.where(rows)
        over = np.ones(len(rows), bool)
        told, known = info_column(finals, GAME_OVER)
        if told is not None:
            over = told[entries].astype(bool) | ~known[entries]
            self.going_on[t, rows] = ~over
        for name in self._fields:
            values, known = info_column(finals, name)
            missing = entries[over] if values is None else entries[over & ~known[entries]]
            if len(missing):
                raise missing_info(name, finals, "episode_fields")
            if values is not None:
                self._found[name].append(values[entries[over]])

    def fields(self, count: int) -> dict[str, Ndarray]:
        """Return the columns of the episodes that ended in this fragment, `[E]` each."""
        found = {
            name: np.concatenate(parts) if parts else np.empty(0)
            for name, parts in self._found.items()
        }
        assert all(len(column) == count for column in found.values())
        return found
