"""Episodes: autoreset bookkeeping per sub-env (running, ended, to be reset)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode

from plangym_ext.vector.errors import VectorResetNeeded

# Of the module: to look a member up in an enum takes longer than to compare it.
_SAME_STEP, _DISABLED = AutoresetMode.SAME_STEP, AutoresetMode.DISABLED


class Episodes(NamedTuple):
    """The episodes of n sub-envs: running, or over.

    Never changed: what happens leads to another one, so that it can be kept together with
    where the rows are, at one moment. Methods take the vector env's present `AutoresetMode`:
    who resets what is over, and when.

    Attributes:
        ended: `[n]` bool, which are over and were not reset yet.
        none: `[n]` zeros, read-only.
    """

    ended: np.ndarray
    none: np.ndarray

    def begun(self, rows: Sequence[int] | np.ndarray, ended: np.ndarray | bool = False) -> Episodes:
        """Return the episodes after `rows` were reset, or set to states."""
        over = self.ended.copy()
        over[rows] = ended
        return Episodes(over, self.none)

    def resets(self, rows: Sequence[int], mode: AutoresetMode) -> np.ndarray:
        """Return `[k]` bool, which sub-envs the next step resets instead; not to be written to.

        Raises:
            VectorResetNeeded: one has ended and is not reset by itself.
        """
        if mode is _SAME_STEP:
            return self.none[: len(rows)]
        if mode is _DISABLED and self.ended[list(rows)].any():
            ended = [row for row in rows if self.ended[row]]
            raise VectorResetNeeded(
                f"step: sub-envs {ended} have ended and autoreset is disabled. Reset them first: "
                "reset(options={'reset_mask': terminations | truncations})."
            )
        return self.ended if isinstance(rows, range) else self.ended[rows]

    def stepped(self, rows: Sequence[int], ended: np.ndarray, mode: AutoresetMode) -> Episodes:
        """Return the episodes after `rows` were stepped; `ended`, `[k]` bool, is kept."""
        if mode is _SAME_STEP:  # they have been reset
            if self.ended is self.none:
                return self
            ended = self.none[: len(rows)]
        if not isinstance(rows, range):
            over = self.ended.copy()
            over[rows] = ended
            ended = over
        return Episodes(ended, self.none)


def first_episodes(num_envs: int) -> Episodes:
    """Return the episodes of sub-envs of which none is over."""
    none = np.zeros(num_envs, bool)
    none.flags.writeable = False
    return Episodes(none.copy(), none)
