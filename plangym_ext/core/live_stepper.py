"""What a vector env asks of an env that steps its rows natively, as states."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from plangym_ext.core.backend_env import BackendEnv
from plangym_ext.core.infos import InfoColumn
from plangym_ext.core.rows import RowResults


class LiveStepper(BackendEnv):
    """Backend that steps and resets rows without a Python call for each of them.

    Attributes:
        reset_columns: the infos that a reset returns, or None if rows cannot be reset here.
            It is known once `step_live` has been called.
    """

    reset_columns: tuple[InfoColumn, ...] | None = None

    @abstractmethod
    def step_live(
        self, actions: np.ndarray, states: np.ndarray, resets: np.ndarray, *, whole: bool
    ) -> RowResults | None:
        """Step rows, or reset some of them instead.

        Args:
            actions: `[B, *act]`; those of rows that are reset are ignored.
            states: `[B, S]` uint8, from a state or from this method. They are not changed,
                so that a call that fails has moved nothing.
            resets: `[B]` bool, which rows are reset and take no step: their reward is 0 and
                of `infos` they have the `reset_columns`.
            whole: whether these are all rows there are. Then the states that come back are
                valid until the next but one of such calls, and have no seal.

        Returns:
            Fresh arrays, but for the states; or None if the env itself has to play these
            rows, because it must judge one of them or its resets are unknown here.

        Raises:
            InvalidAction: shape, dtype or range of an action does not match.
        """

    @abstractmethod
    def sealed(self, rows: np.ndarray) -> np.ndarray:
        """States from `step_live` as `[B, S]` uint8 states that any equal env takes; fresh."""
