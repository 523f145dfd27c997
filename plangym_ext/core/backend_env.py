"""What backends have in common: a local env to play, and rows that run elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.one_caller import one_call
from plangym_ext.core.plan_env import PlanEnv
from plangym_ext.core.results import StateTransition, Transition
from plangym_ext.core.rows import RowLayout
from plangym_ext.states.codec import StateCodec
from plangym_ext.states.envelope import Envelope


class BackendEnv(PlanEnv):
    """A serial env that is played and is the reference; a subclass says where rows run.

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
        """How the env's states are captured."""
        return self.plan_env.codec

    @property
    def exact(self) -> bool | None:
        """Whether restored futures equal the real ones; see `PlanEnv.exact`."""
        return self.plan_env.exact

    @property
    def layout(self) -> RowLayout:  # type: ignore[override]
        """What a row holds."""
        return self.plan_env.layout

    @property
    def envelope(self) -> Envelope:  # type: ignore[override]
        """Seals and checks states."""
        return self.plan_env.envelope

    @one_call
    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        return_state: bool = True,
    ) -> tuple[Any, ...]:
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
    ) -> Transition | StateTransition:
        """Advance the env; see `PlanEnv.step`."""
        return self.plan_env.step(action, state, dt, return_state)

    @one_call
    def get_state(self) -> np.ndarray:
        """Fresh `[S]` uint8 array; see `PlanEnv.get_state`."""
        return self.plan_env.get_state()

    def _set_env_state(self, state: np.ndarray) -> None:
        self.plan_env._set_env_state(state)

    def _first_state(self) -> np.ndarray:
        return self.plan_env._first_state()

    def render(self) -> Any:
        """Picture of the env; see `PlanEnv.render`."""
        return self.plan_env.render()

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the gymnasium env; see `PlanEnv.metadata`."""
        return self.plan_env.metadata
