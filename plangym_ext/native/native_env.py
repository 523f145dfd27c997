"""NativeEnv: base class of the in-process native backends, with compiled input checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from plangym_ext.core.backend_env import LiveStepper
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.slot_stepper import LocalStepper
from plangym_ext.native.row_checks import RowChecks
from plangym_ext.native.seeded_resets import SeededResets
from plangym_ext.states.envelope import HEADER, as_wide


class NativeEnv(LocalStepper, LiveStepper):
    """A `LiveStepper` for backends so fast that numpy's input checks would be noticeable."""

    #: Compiled check that accepts usual inputs; None before it is compiled.
    _checks: RowChecks | None = None
    #: None before rows are first reset by seeds.
    _seeded: SeededResets | None = None

    def checked_states(self, states: Any, where: str) -> np.ndarray:
        """Return the states as `[B, S]` uint8; see `RowStepper.checked_states`."""
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

    # Rows of a vector env -------------------------------------------------------

    def seeded_rows(
        self, states: np.ndarray, fresh: np.ndarray, seeds: Sequence[int | None]
    ) -> np.ndarray | None:
        """Return rows after a native reset by seeds; see `LiveStepper`."""
        if self._seeded is None:
            self._seeded = SeededResets(self)
        return self._seeded.begun(states, fresh, seeds)

    def sealed(self, rows: np.ndarray) -> np.ndarray:
        """Return `[B, S]` uint8 from `step_live` as states that any equal env takes; fresh."""
        found = as_wide(rows.copy(), self.state_width)
        self.envelope.seal(found, sum(part.width for part in self.codec.parts))
        return found


def state_of(env: GymEnv) -> Any:
    """Return the gymnasium env's state, `[1, S]` uint8, even where `get_state` refuses."""
    row = np.zeros((1, env.state_width), np.uint8)
    end = env.codec.capture(row[0].data, HEADER)
    env.envelope.seal(row, end - HEADER)
    return row
