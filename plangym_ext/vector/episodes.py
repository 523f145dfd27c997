"""Episodes: autoreset bookkeeping per sub-env (running, ended, to be reset)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gymnasium.vector import AutoresetMode

from plangym_ext.vector.errors import VectorResetNeeded

# Of the module: to look a member up in an enum takes longer than to compare it.
_SAME_STEP, _DISABLED = AutoresetMode.SAME_STEP, AutoresetMode.DISABLED


class Episodes:
    """The episodes of n sub-envs: running, or over.

    Never changed: what happens leads to another one, so that it can be kept together with
    where the rows are, at one moment. Methods take the vector env's present `AutoresetMode`:
    who resets what is over, and when.

    Args:
        num_envs: n.

    Attributes:
        ended: `[n]` bool, which are over and were not reset yet.
    """

    def __init__(self, num_envs: int) -> None:
        self.ended = np.zeros(num_envs, bool)
        self._none = np.zeros(num_envs, bool)
        self._none.flags.writeable = False

    def _with(self, ended: np.ndarray) -> Episodes:
        found = Episodes.__new__(Episodes)
        found.ended, found._none = ended, self._none
        return found

    def begun(self, rows: Sequence[int] | np.ndarray, ended: np.ndarray | bool = False) -> Episodes:
        """Return the episodes after `rows` were reset, or set to states."""
        over = self.ended.copy()
        over[rows] = ended
        return self._with(over)

    def check_steppable(self, rows: Sequence[int], mode: AutoresetMode) -> None:
        """Refuse to step ended rows without autoreset."""
        if mode is _DISABLED and self.ended[list(rows)].any():
            ended = [row for row in rows if self.ended[row]]
            raise VectorResetNeeded(
                f"step: sub-envs {ended} have ended and autoreset is disabled. Reset them first: "
                "reset(options={'reset_mask': terminations | truncations})."
            )

    def resets(self, rows: Sequence[int], mode: AutoresetMode) -> np.ndarray:
        """Return `[k]` bool, which sub-envs the next step resets instead; not to be written to."""
        if mode is _SAME_STEP:
            return self._none[: len(rows)]
        return self.ended if isinstance(rows, range) else self.ended[rows]

    def stepped(self, rows: Sequence[int], ended: np.ndarray, mode: AutoresetMode) -> Episodes:
        """Return the episodes after `rows` were stepped; `ended`, `[k]` bool, is kept."""
        if mode is _SAME_STEP:  # they have been reset
            if self.ended is self._none:
                return self
            ended = self._none[: len(rows)]
        if not isinstance(rows, range):
            over = self.ended.copy()
            over[rows] = ended
            ended = over
        return self._with(ended)
