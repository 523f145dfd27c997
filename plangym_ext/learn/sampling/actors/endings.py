"""Endings: infos of final steps (lost life or game over, episode fields)."""

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
        """Return whether the endings of a step need infos."""
        return bool(self._fields) or "final_info" in stepped.infos

    def add(self, t: int, rows: Ndarray, stepped: Stepped, cut: Ndarray | None) -> None:
        """Read the infos of rows that ended in step t.

        Args:
            t: the step.
            rows: `[k]`, in which an episode ended.
            stepped: what is left of the step.
            cut: `[b]` bool, rows whose episode was cut by the sampler: their infos are no final
                ones. None: no row's was.
        """
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
        # Where the game goes on no episode ends for the table, so its fields are not missed.
        entries = entries[over]
        cut = np.zeros(len(entries), bool) if cut is None else cut[rows[over]]
        for name in self._fields:
            parts = [
                _values(infos, name, entries[which])
                for infos, which in ((finals, ~cut), (stepped.infos, cut))
                if which.any()
            ]
            if parts:
                # Back to the order of rows: those that were cut came last.
                order = np.argsort(np.argsort(cut, kind="stable"), kind="stable")
                self._found[name].append(np.concatenate(parts)[order])

    def fields(self, count: int) -> dict[str, Ndarray]:
        """Return the columns of the episodes that ended in this fragment, `[E]` each."""
        found = {
            name: np.concatenate(parts) if parts else np.empty(0)
            for name, parts in self._found.items()
        }
        assert all(len(column) == count for column in found.values())
        return found


def _values(infos: Any, name: str, entries: Ndarray) -> Ndarray:
    """Return the numbers of a field in some entries of infos, all of which must have it."""
    values, known = info_column(infos, name)
    if values is None or not known[entries].all():
        raise missing_info(name, infos, "episode_fields")
    check_numbers(name, values, "episode_fields")
    found: Ndarray = values[entries]
    return found


def games_going_on(infos: Any, ended: Ndarray) -> Ndarray:
    """Return `[k]` bool, which endings are those of a life and not of the game.

    Args:
        infos: of a step of k rows.
        ended: `[k]` bool.
    """
    over, known = info_column(infos.get("final_info", {}), GAME_OVER)
    return np.zeros_like(ended) if over is None else known & ~over.astype(bool)
