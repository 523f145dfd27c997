"""Rows: checked arguments of the return functions, with terminations and bootstrap values."""

from __future__ import annotations

from typing import Any, NamedTuple

from plangym_ext.learn.returns.namespace import namespace_of
from plangym_ext.learn.returns.recurrence import recurrence


class Rows(NamedTuple):
    """T steps of B envs in one library and one floating dtype; see `checked_rows`.

    Rows that are not valid are skipped, as though they were not there: the row
    before one is followed by the next valid row, or by `bootstrap`.
    """

    reward: Any  # [T, B, *K]
    value: Any  # [T, B, *K]
    bootstrap: Any  # [B, *K]
    terminated: Any  # [T, B, *1] bool
    truncated: Any  # the same, False where terminated; None if nothing is
    final_value: Any  # [T, B, *K], read where truncated
    valid: Any  # [T, B, *1] bool; None if all are
    gamma: float

    @property
    def ended(self) -> Any:
        """`[T, B, *1]` bool: no later row continues the episode."""
        return self.terminated if self.truncated is None else self.terminated | self.truncated

    @property
    def nothing(self) -> Any:
        """`[B, *K]` zeros: the value after the last row without a bootstrap."""
        return namespace_of(self.bootstrap).zeros_like(self.bootstrap)

    def following(self, array: Any) -> Any:
        """Return the value after each row's transition, `[T, B, *K]`.

        That is the next row of `array`, or `bootstrap` after the last, `final_value`
        where truncated and 0 where terminated.

        Args:
            array: `[T, B, *K]`, a value of the observation before each transition.
        """
        xp = namespace_of(array)
        if self.valid is not None:
            # A row that is skipped shows what the next valid one does.
            array = self._carried(array, self.bootstrap)
        later = xp.concatenate([array[1:], self.bootstrap[None]])
        if self.truncated is not None:
            later = xp.where(self.truncated, self.final_value, later)
        return xp.where(self.terminated, 0.0, later)

    def fold(self, step: Any, decay: Any, last: Any) -> Any:
        """Return x with x_t = step_t + decay_t x_{t+1} within each episode, 0 in skipped rows.

        Args:
            step: `[T, B, *K]`.
            decay: float, or `[T, B, *K]`; read only where the episode goes on.
            last: `[B, *K]`, x after the last row.
        """
        xp = namespace_of(step)
        decay = xp.full_like(step, decay) if isinstance(decay, float) else decay
        decay = xp.where(self.ended, 0.0, decay)
        if self.valid is None:
            return recurrence(step, decay, last)
        step, decay = self.masked(step), xp.where(self.valid, decay, 1.0)
        return self.masked(recurrence(step, decay, last))

    def masked(self, array: Any) -> Any:
        """Return the array with zeros in the rows that are skipped."""
        if self.valid is None:
            return array
        return namespace_of(array).where(self.valid, array, 0.0)

    def _carried(self, array: Any, last: Any) -> Any:
        """Return the array with every skipped row as the next valid one."""
        xp = namespace_of(array)
        return recurrence(self.masked(array), xp.where(self.valid, 0.0, xp.ones_like(array)), last)
