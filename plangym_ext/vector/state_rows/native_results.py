"""NativeResults: results of a native backend in the vector env's format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from plangym_ext.core.backend_env import LiveStepper
from plangym_ext.core.infos import InfoBatch, InfoColumn
from plangym_ext.core.results import RowResets
from plangym_ext.vector.infos import Columns, InfoGroup
from plangym_ext.vector.memory.step_out import StepOut

#: Bytes under which results are copied to `out`: to have them written there takes longer.
_SMALL = 1 << 16


#: Of the arguments of `step_live` those that follow from an `out`: none without one.
ALL_FRESH: dict[str, Any] = {}


class NativeResults:
    """Converts one env's native results to those of a vector env.

    Args:
        env: whose; its `reset_columns` are known after its first resets.
        num_rows: n, most rows of a call.
    """

    def __init__(self, env: LiveStepper, num_rows: int) -> None:
        self._env, self._numbers = env, np.arange(num_rows)
        self._columns: tuple[InfoColumn, ...] = env.plan_env.info_writer.columns
        #: That of the marks of invalid values, if they are wanted.
        self._marks = env.plan_env.layout.info[len(self._columns) :]

    def use_of(self, out: StepOut, *, with_obs: bool) -> dict[str, Any]:
        """Return the arguments of `step_live` for an `out`, computed once.

        Args:
            out: of a step.
            with_obs: whether native code has observations of the dtype that `out` holds.

        Returns:
            `out`, arrays that native code writes to itself; `infos`, "none", if none is wanted.
        """
        found: dict[str, Any] | None = out.layout
        if found is not None:
            return found
        fields = out.arrays.fields
        names = {"obs0": "obs0", "terminated": "terminateds", "truncated": "truncateds"}
        if not with_obs:
            del names["obs0"]
        arrays = {ours: fields[name] for ours, name in names.items() if name in fields}
        small = sum(array.nbytes for array in arrays.values()) < _SMALL
        found = {} if small else {"out": arrays}
        if not self._are_wanted(out):
            found["infos"] = "none"
        if self._env.reset_columns is not None:  # else not all infos are known yet
            out.layout = found
        return found

    def _are_wanted(self, out: StepOut) -> bool:
        """Return whether any info is asked for; marks of invalid values always are."""
        on_reset = self._env.reset_columns
        if on_reset is None:
            return True
        told = {column.key for column in (*self._columns, *on_reset)}
        named = out.wanted is None or not told.isdisjoint(out.wanted)
        return named or bool(self._marks) or out.arrays.has_infos

    def groups(self, infos: InfoBatch, resets: np.ndarray) -> list[InfoGroup]:
        """Return the infos of rows that were stepped, or reset instead."""
        marks, on_reset = self._marks, self._env.reset_columns or ()
        if not self._columns and not on_reset and not marks:
            return []
        if not resets.any():
            everyone = self._numbers[: len(resets)]
            return [InfoGroup(everyone, [(c, infos[c.key]) for c in (*self._columns, *marks)])]
        stepped, reset = np.flatnonzero(~resets), np.flatnonzero(resets)
        return [
            InfoGroup(stepped, _columns((*self._columns, *marks), infos, stepped)),
            InfoGroup(reset, _columns((*on_reset, *marks), infos, reset)),
        ]

    def groups_of_resets(
        self, infos: InfoBatch, resets: RowResets, over: np.ndarray, none: bool
    ) -> list[InfoGroup]:
        """Return the infos of all rows, of which some were reset in the step that ended them.

        Args:
            infos: of the step.
            resets: of those that were reset.
            over: `[k]` bool, which these are.
            none: whether there are none of the step.
        """
        (ended,) = over.nonzero()  # np.flatnonzero takes twice as long
        stepped = *self._columns, *self._marks
        if none:
            return [InfoGroup(ended, (), resets.final_obs[0][ended])]
        group = InfoGroup(
            ended,
            [
                *_columns(self._env.reset_columns or (), resets.infos, ended),
                # What an episode ends with is looked at, too.
                *_columns(self._marks, infos, ended),
            ],
            resets.final_obs[0][ended],
            _columns(self._columns, infos, ended),
        )
        if not stepped:
            return [group]
        others = np.flatnonzero(~over)
        return [InfoGroup(others, _columns(stepped, infos, others)), group]


def _columns(
    columns: Sequence[InfoColumn], infos: InfoBatch | Mapping[str, np.ndarray], rows: np.ndarray
) -> Columns:
    return [(column, infos[column.key][rows]) for column in columns]
