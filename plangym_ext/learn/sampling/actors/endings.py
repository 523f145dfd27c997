"""What infos say of steps that end an episode."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.learn.sampling.actors.columns import Columns
from plangym_ext.learn.sampling.actors.infos import (
    GAME_OVER,
    check_numbers,
    info_column,
    missing_info,
)
from plangym_ext.learn.sampling.actors.stepping import Stepped
from plangym_ext.learn.sampling.options import SamplerOptions

Ndarray = npt.NDArray[Any]


class Endings:
    """Reads infos of the steps of an actor that end episodes.

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
        self._fields = tuple(options.episode_fields)
        self.going_on = np.zeros((columns.num_steps, columns.num_rows), bool)
        self._found: dict[str, list[Ndarray]] = {name: [] for name in self._fields}

    def clear(self) -> None:
        """Forget everything: a new fragment begins."""
        self.going_on[:] = False
        for parts in self._found.values():
            parts.clear()

    def needs(self, stepped: Stepped) -> bool:
        """Return whether something of a step is to be read where episodes have ended."""
        return bool(self._fields) or "final_info" in stepped.infos

    def add(self, t: int, rows: Ndarray, stepped: Stepped) -> None:
        """Read the infos of rows that ended in step t."""
        finals = stepped.infos.get("final_info", {})
        told, known = info_column(finals, GAME_OVER)
        if told is None and not self._fields:
            return
        # Infos have the rows that were stepped alone.
        entries, over = stepped.where(rows), np.ones(len(rows), bool)
        if told is not None:
            # A row that says nothing of it has ended its game.
            over = told[entries].astype(bool) | ~known[entries]
            self.going_on[t, rows] = ~over
        for name in self._fields:
            values, known = info_column(finals, name)
            # Where the game goes on no episode ends for the table, so its fields are not missed.
            missing = entries[over] if values is None else entries[over & ~known[entries]]
            if len(missing):
                raise missing_info(name, finals, "episode_fields")
            if values is not None:
                check_numbers(name, values, "episode_fields")
                self._found[name].append(values[entries[over]])

    def fields(self, count: int) -> dict[str, Ndarray]:
        """Return the columns of the episodes that ended in this fragment, `[E]` each."""
        found = {
            name: np.concatenate(parts) if parts else np.empty(0)
            for name, parts in self._found.items()
        }
        assert all(len(column) == count for column in found.values())
        return found


def games_going_on(infos: Any, ended: Ndarray) -> Ndarray:
    """Return `[k]` bool, which endings are those of a life and not of the game.

    Args:
        infos: of a step of k rows.
        ended: `[k]` bool.
    """
    over, known = info_column(infos.get("final_info", {}), GAME_OVER)
    return np.zeros_like(ended) if over is None else known & ~over.astype(bool)
