"""StepsAhead: rows that were stepped before their first reset, for replay.

Envs may allow that, as gymnasium's vector envs do. Where such a row is has no state to bring it
back to: it is what the constructor made, and the steps since. So these are played again in a new
process; in one whose envs have been stepped there is no way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.states.codec import layers
from plangym_ext.vector.results import VectorResetNeeded

#: Steps after which they are not kept any longer to be played again.
_MOST_STEPS = 10_000


class StepsAhead:
    """Remembers which rows were stepped though they were never reset.

    Args:
        first: number of the process's first row in the vector env.
    """

    def __init__(self, first: int) -> None:
        self._first = first
        self._rows: frozenset[int] = frozenset()
        #: The same before the last call that stepped some.
        self._before = self._rows
        self._steps = 0

    def note(self, rows: Sequence[int], resets: Sequence[bool], fresh: Sequence[bool]) -> None:
        """Note rows that are about to be stepped.

        Args:
            rows: which are moved.
            resets: whether a row is reset instead.
            fresh: of all rows of the process: whether it was never reset.
        """
        moved = zip(rows, resets, strict=True)
        ahead = [row for row, reset in moved if fresh[row] and not reset]
        self._before = self._rows
        if ahead:
            self._rows = self._rows.union(ahead)
            self._steps += 1

    def note_error(
        self, error: BaseException, env: gym.Env[Any, Any], unmoved: Sequence[int]
    ) -> None:
        """Forget rows that an error has left alone, if it is the refusal of `OrderEnforcing`.

        Args:
            error: what the env has raised.
            env: of the first of `unmoved`.
            unmoved: rows that were not moved in this call if so.
        """
        if isinstance(error, gym.error.ResetNeeded) and any(
            isinstance(layer, gym.wrappers.OrderEnforcing) and not layer.has_reset
            for layer in layers(env)
        ):
            self._rows -= frozenset(unmoved) - self._before

    def open(self, fresh: Sequence[bool]) -> bool:
        """Return whether a row was stepped and is not reset yet; `fresh` as for `note`."""
        return any(fresh[row] for row in self._rows)

    @property
    def too_many(self) -> bool:
        """Whether there were more steps than the record holds."""
        return self._steps > _MOST_STEPS

    def check_back(self, states: Sequence[np.ndarray | None]) -> None:
        """Check that rows can be set back to states, None for never reset.

        Raises:
            ResetNeeded: such a row is not what its constructor made any more.
        """
        moved = [self._first + row for row in sorted(self._rows) if states[row] is None]
        if moved:
            raise VectorResetNeeded(
                f"sub-envs {moved} were stepped before their first reset, so there is no state to "
                "bring them back to after a call that failed. Reset all of them."
            )
