"""RowValues: check of the rows' observations and rewards for invalid numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from plangym_ext.core.invalid import MARKS, leaf_checks, remedy, surely_finite
from plangym_ext.errors import InvalidObservation
from plangym_ext.vector.results import StepResults
from plangym_ext.vector.shown import ObsBuffer, layout_of


class RowValues:
    """Refuses or marks NaN, infinite or out-of-bounds values, by a policy.

    Args:
        policy: one of `POLICIES`.
        obs: what the rows show.
        name: of the env, for messages.
    """

    def __init__(self, policy: str, obs: ObsBuffer, name: str) -> None:
        self._policy, self._obs, self._name = policy, obs, name
        layout = layout_of(obs.space)
        checks = [] if layout is None else leaf_checks(policy, layout)
        self._layout = layout
        # Views, taken once: the buffer stays where it is.
        shown = obs.leaves(slice(None))
        self._checks = [(check, shown[check.index]) for check in checks]

    def checked(self, results: StepResults, rows: Sequence[int]) -> StepResults:
        """Return the results of a step or a reset, with marks if requested.

        Raises:
            InvalidObservation: a value is invalid, and those are refused.
        """
        if self._policy == "off":
            return results
        # Nearly always there is none, which a look at each array finds out.
        # Final observations lie elsewhere: their rows are always looked at one by one.
        suspects = len(results.finals)
        # One sum for all; a reward may be infinite, which is no mistake: only nan counts.
        if not surely_finite(results.rewards):
            suspects += int(np.count_nonzero(np.isnan(results.rewards)))
        for check, leaf in self._checks:
            suspects += check.suspects(leaf)
        # Marks are part of the infos even where all of them are False.
        if not suspects and self._policy != "mark":
            return results
        marks = self._marks(results, rows)
        if self._policy == "mark":
            return self._marked(results, marks)
        if marks.any():
            raise self._refusal(results, rows, int(np.argmax(marks)))
        return results

    def _marks(self, results: StepResults, rows: Sequence[int]) -> np.ndarray:
        """Return `[k]` bool, which rows have an invalid value."""
        marks = np.isnan(results.rewards)
        for check, leaf in self._checks:
            marks |= check.rows(leaf[list(rows)])
        # They are no longer in the buffer: the reset has overwritten them.
        for k, obs, _ in results.finals:
            marks[k] |= self._invalid_leaf(obs) is not None
        return marks

    def _marked(self, results: StepResults, marks: np.ndarray) -> StepResults:
        known = dict(results.infos)
        infos = [
            (k, {**known.get(k, {}), MARKS.key: mark}) for k, mark in enumerate(marks.tolist())
        ]
        return results._replace(infos=infos)

    def _invalid_leaf(self, obs: Any) -> str | None:
        """Return a description of the invalid value in one observation."""
        if self._layout is None:
            return None
        parts = self._layout.split(obs)
        for check, _ in self._checks:
            if words := check.words(np.asarray(parts[check.index])):
                return words
        return None

    def _refusal(self, results: StepResults, rows: Sequence[int], k: int) -> InvalidObservation:
        finals = {place: obs for place, obs, _ in results.finals}
        (shown,) = self._obs.rows([rows[k]])
        words = self._invalid_leaf(shown)
        if words is None and k in finals:
            words = self._invalid_leaf(finals[k])
        if words is None:
            words = "reward: expected a number; got nan"
        return InvalidObservation(
            f"{self._name}, sub-env {rows[k]}: {words}. {remedy(self._policy)}"
        )
