"""BackendEnv, base class of all backends but the serial one; LiveStepper, of native backends."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.infos import InfoColumn
from plangym_ext.core.one_caller import one_call
from plangym_ext.core.plan_env import PlanEnv
from plangym_ext.core.results import RowResults
from plangym_ext.core.rows import RowLayout
from plangym_ext.states.codec import StateCodec
from plangym_ext.states.envelope import Envelope
from plangym_ext.states.layer_attributes import Exactness

#: No arrays to write results to.
NO_OUT: Mapping[str, np.ndarray] = {}


class BackendEnv(PlanEnv):
    """Abstract; plays on a serial env, the reference; subclasses define how rows run.

    Attributes:
        plan_env: the local env, which `reset`, `step` and `set_state` move.
    """

    _plan_env: GymEnv | None

    @property
    def plan_env(self) -> GymEnv:
        """The local env that `reset`, `step` and `set_state` move."""
        assert self._plan_env is not None
        return self._plan_env

    @property
    def gym_env(self) -> Any:
        """The gymnasium env that is played."""
        return self.plan_env.gym_env

    @property
    def codec(self) -> StateCodec:
        """Captures and restores the env's states."""
        return self.plan_env.codec

    @property
    def exactness(self) -> Exactness:
        return self.plan_env.exactness

    @property
    def incomparable(self) -> str:
        return self.codec.incomparable

    @property
    def exact(self) -> bool | None:
        return self.plan_env.exact

    @property
    def layout(self) -> RowLayout:  # type: ignore[override]
        """Layout of a row."""
        return (self._plan_env or self.plan_env).layout

    @property
    def envelope(self) -> Envelope:  # type: ignore[override]
        """Seals and checks states."""
        return (self._plan_env or self.plan_env).envelope

    @one_call
    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        return_state: bool = True,
    ) -> Any:
        """Start a new episode; see `PlanEnv.reset`."""
        self._check_rows_free("reset")
        found = self.plan_env.reset(seed=seed, options=options, return_state=return_state)
        self._continued.drop()
        return found

    @one_call
    def step(
        self,
        action: Any,
        state: np.ndarray | None = None,
        dt: int = 1,
        return_state: bool | None = None,
    ) -> Any:
        """Advance the env; see `PlanEnv.step`."""
        return self.plan_env.step(action, state, dt, return_state=return_state)

    @one_call
    def get_state(self) -> np.ndarray:
        return self.plan_env.get_state()

    def _set_env_state(self, state: np.ndarray) -> None:
        self.plan_env._set_env_state(state)

    @one_call
    def reseeded(self, states: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        return self.plan_env.reseeded(states, rng)

    def _first_state(self) -> np.ndarray:
        return self.plan_env._first_state()

    def render(self) -> Any:
        return self.plan_env.render()

    @property
    def metadata(self) -> dict[str, Any]:
        return self.plan_env.metadata


class LiveStepper(BackendEnv):
    """Backend that steps and resets rows without a Python call for each of them.

    Attributes:
        reset_columns: the infos that a reset returns, or None if rows cannot be reset here.
            It is known once `step_live` has been called.
    """

    reset_columns: tuple[InfoColumn, ...] | None = None

    @abstractmethod
    def step_live(
        self,
        actions: np.ndarray,
        states: np.ndarray,
        resets: np.ndarray,
        *,
        whole: bool,
        same_step: bool = False,
        infos: str = "numeric",
        out: Mapping[str, np.ndarray] = NO_OUT,
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
            same_step: whether a row that ends is to be reset in the same step, if this backend
                can: the results have `resets` then. No row is among `resets`.
            infos: "none" if only the counts are wanted.
            out: arrays that `obs0`, `terminated` and `truncated` may be written to; the results
                hold these very arrays if they were.

        Returns:
            Fresh arrays, but for the states; or None if the env itself has to play these
            rows, because it must judge one of them or its resets are unknown here.

        Raises:
            InvalidAction: shape, dtype or range of an action does not match.
        """

    def _live_actions(self, actions: np.ndarray, resets: np.ndarray) -> np.ndarray:
        """Return actions that are checked in the rows that are stepped, and zeros in the others."""
        # What is given for rows that are reset may be anything, and is not checked.
        stepped = ~resets
        if stepped.all():
            return self._checked_actions(actions, resets.shape, "step")[0]
        (leaf,) = self.layout.action.leaves
        chosen = np.zeros((len(resets), *leaf.shape), leaf.dtype)
        # [B, *act], or [k, *act] of the k rows that are stepped.
        if len(actions) == len(resets):
            actions = actions[stepped]
        (chosen[stepped],) = self._checked_actions(actions, (int(stepped.sum()),), "step")
        return chosen

    @abstractmethod
    def seeded_rows(
        self, states: np.ndarray, fresh: np.ndarray, seeds: Sequence[int | None]
    ) -> np.ndarray | None:
        """Return rows that `step_live` resets as `reset` with seeds does.

        Args:
            states: `[k, S]` uint8, from a state or from `step_live`. They are not changed.
            fresh: `[k]` bool, which rows were never reset: their states say nothing.
            seeds: of each; None goes on with the generator of the row, which is not fresh.

        Returns:
            `[k, S]` uint8, fresh; None if the env itself has to reset them.
        """

    @abstractmethod
    def sealed(self, rows: np.ndarray) -> np.ndarray:
        """Return states from `step_live` as fresh `[B, S]` uint8, which any equal env takes."""
