"""Backends that run rows in this process, and whose inputs compiled code looks at first."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.core.backend_env import BackendEnv
from plangym_ext.native.row_checks import RowChecks


class NativeEnv(BackendEnv):
    """A `BackendEnv` whose batches are so fast that numpy's checks of them would show."""

    #: Says yes to the usual; None before it is compiled.
    _checks: RowChecks | None = None

    def checked_states(self, states: Any, where: str) -> np.ndarray:
        """The states as `[B, S]` uint8; see `RowStepper.checked_states`."""
        if self._checks is not None and self._checks.whole(states):
            found: np.ndarray = states
            return found
        # What is unusual: another width or layout, or a state to be refused by name.
        return super().checked_states(states, where)

    def _checked_actions(
        self, actions: Any, batch_shape: tuple[int, ...], where: str
    ) -> tuple[np.ndarray, ...]:
        if self._checks is not None and self._checks.in_range(actions, batch_shape):
            return (actions,)
        return super()._checked_actions(actions, batch_shape, where)
