"""Observations and rewards of a vector env's rows, looked at after each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from plangym_ext.core.invalid import MARKS, LeafCheck
from plangym_ext.errors import InvalidObservation
from plangym_ext.vector.obs_buffer import ObsBuffer, layout_of
from plangym_ext.vector.results import StepResults

_REMEDY = "Correct the env, or make it with invalid='mark' or invalid='off'."


class RowValues:
    """Refuses or marks what is no number, or infinite where the space has a bound.

    Args:
        policy: one of `POLICIES`.
        board: what the rows show.
        name: of the env, for messages.
    """

    def __init__(self, policy: str, board: ObsBuffer, name: str) -> None:
        self._policy, self._board, self._name = policy, board, name
        layout = layout_of(board.space)
        leaves = [] if layout is None else layout.leaves
        self._layout = layout
        shown = board.leaves(slice(None))
        self._checks = [
            (LeafCheck(k, leaf), shown[k])
            for k, leaf in enumerate(leaves)
            if leaf.dtype.kind == "f"
        ]

    def checked(self, played: StepResults, rows: Sequence[int]) -> StepResults:
        """What came of a step or a reset, with marks if they are wanted.

        Args:
            played: of k rows, whose observations are on the board.
            rows: their numbers.

        Raises:
            InvalidObservation: a value is invalid, and those are refused.
        """
        if self._policy == "off":
            return played
        # Nearly always there is none, which a look at each array finds out.
        suspects = np.count_nonzero(np.isnan(played.rewards)) + len(played.finals)
        for check, leaf in self._checks:
            suspects += check.suspects(leaf)
        if not suspects and self._policy == "raise":
            return played
        marks = self._marks(played, rows)
        if self._policy == "mark":
            return self._marked(played, marks)
        if marks.any():
            raise self._refusal(played, rows, int(np.argmax(marks)))
        return played

    def _marks(self, played: StepResults, rows: Sequence[int]) -> np.ndarray:
        """`[k]` bool, which rows have an invalid value."""
        marks = np.isnan(played.rewards)
        for check, leaf in self._checks:
            marks |= check.rows(leaf[list(rows)])
        for k, obs, _ in played.finals:
            marks[k] |= self._invalid_leaf(obs) is not None
        return marks

    def _marked(self, played: StepResults, marks: np.ndarray) -> StepResults:
        known = dict(played.infos)
        infos = [
            (k, {**known.get(k, {}), MARKS.key: mark}) for k, mark in enumerate(marks.tolist())
        ]
        return played._replace(infos=infos)

    def _invalid_leaf(self, obs: Any) -> str | None:
        """What is invalid in one observation, in words."""
        if self._layout is None:
            return None
        parts = self._layout.split(obs)
        for check, _ in self._checks:
            if words := check.words(np.asarray(parts[check.index])):
                return words
        return None

    def _refusal(self, played: StepResults, rows: Sequence[int], k: int) -> InvalidObservation:
        finals = {place: obs for place, obs, _ in played.finals}
        (shown,) = self._board.rows([rows[k]])
        words = self._invalid_leaf(shown)
        if words is None and k in finals:
            words = self._invalid_leaf(finals[k])
        if words is None:
            words = "reward: expected a number; got nan"
        return InvalidObservation(f"{self._name}, sub-env {rows[k]}: {words}. {_REMEDY}")
