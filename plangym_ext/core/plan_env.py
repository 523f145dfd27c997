"""PlanEnv: the contract of an environment that is stepped in batches from any state.

`PlanEnv` checks what callers pass and shapes what they get; a backend says where
the rows run. Results are bit for bit those of the `serial` backend.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, Self, overload

import numpy as np

from plangym_ext.arrays.closing import Closing
from plangym_ext.arrays.nested import as_array
from plangym_ext.core.numbers import html_table
from plangym_ext.core.results import StateTransition, Transition
from plangym_ext.core.slot_stepper import SlotStepper
from plangym_ext.errors import StateError
from plangym_ext.states.layer_attributes import Exactness


class PlanEnv(SlotStepper, Closing):
    """One env to play, and any number of rows to plan with.

    The env proper is moved by `reset`, `step` and `set_state`. `step_batch` with
    states and `rollout_batch` are functions of their arguments: they leave the env
    and its rows where they are. `step_batch` without states continues the rows: row
    i is an env of its own. It begins where the env is when the row is first stepped,
    and anew after a `reset`, `set_state` or `sync_states`.

    Attributes:
        name: the env's id.
        backend: which backend runs the rows: "serial", "process", "kernel" or "mujoco".
        backend_note: why `make` chose it, where it did and it is no native one; else "".
        frameskip: env steps for which one control step holds an action.
    """

    name: str
    backend: str
    backend_note: str = ""
    frameskip: int

    # What a backend implements ------------------------------------------------

    @overload
    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        return_state: Literal[True] = True,
    ) -> tuple[np.ndarray, Any, dict[str, Any]]: ...
    @overload
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None, return_state: bool
    ) -> tuple[Any, ...]: ...
    @abstractmethod
    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        return_state: bool = True,
    ) -> tuple[Any, ...]:
        """Start a new episode; every row starts there too.

        Returns:
            `(state, obs, info)`, or `(obs, info)` if `return_state` is False.
        """

    @overload
    def step(
        self, action: Any, state: None = None, dt: int = 1, return_state: None = None
    ) -> Transition: ...
    @overload
    def step(
        self, action: Any, state: np.ndarray, dt: int = 1, return_state: None = None
    ) -> StateTransition: ...
    @overload
    def step(
        self,
        action: Any,
        state: np.ndarray | None = None,
        dt: int = 1,
        *,
        return_state: bool | None,
    ) -> Transition | StateTransition: ...
    @abstractmethod
    def step(
        self,
        action: Any,
        state: np.ndarray | None = None,
        dt: int = 1,
        return_state: bool | None = None,
    ) -> Transition | StateTransition:
        """Advance the env by `dt` control steps, from `state` if one is given.

        Without a state, an env that ended is reset afterwards if `autoreset` is on;
        the result is still that of the ending. With a state nothing is ever reset.

        Args:
            action: one action of the action space, held for all steps.
            state: `[S]` uint8 from `get_state`, or None to continue.
            dt: control steps, at least 1; each is `frameskip` env steps.
            return_state: whether the result carries the new state; None means
                that it does if `state` was given.

        Raises:
            InvalidAction: shape, dtype or range does not match the action space.
            StateError: the state is damaged or belongs to another env.
            ResetNeeded: no state was given and the env was never reset.
        """

    @abstractmethod
    def get_state(self) -> np.ndarray:
        """Return the complete state of the env, a fresh `[S]` uint8 array."""

    @abstractmethod
    def _set_env_state(self, state: np.ndarray) -> None:
        """Bring the env proper to a checked `[S]` state."""

    @abstractmethod
    def clone(self, **overrides: Any) -> Self:
        """Return a new env with the same settings; `overrides` change some. Not its state."""

    @abstractmethod
    def render(self) -> Any:
        """Return a picture of the env by its render mode; `[H, W, 3]` uint8 for rgb_array.

        Raises:
            MissingExtra: a package that it draws with is not installed.
            CannotDraw: the renderer failed.
        """

    @property
    @abstractmethod
    def metadata(self) -> dict[str, Any]:
        """The gymnasium env's metadata: render modes, frames a second."""

    @abstractmethod
    def close(self) -> None:
        """Release everything. Further calls of `close` do nothing."""

    # What every backend shares ------------------------------------------------

    @property
    def exact(self) -> bool | None:
        """Whether restored states lead to the same future.

        False only if that was asked for; None if it was not looked at (`check=False`), until
        `check_env` has proved it.
        """
        return True

    @property
    def exactness(self) -> Exactness | None:
        """Method, extent and audits of the proof that states are exact; None of a learned model."""
        return None

    @property
    def incomparable(self) -> str:
        """Reason why equal states may differ in their bytes; "" if they do not.

        Planners that compare states are refused then.
        """
        return ""

    @property
    def obs_shape(self) -> tuple[int, ...] | None:
        """Shape of one observation; None for a nested space."""
        return self.observation_space.shape

    @property
    def action_shape(self) -> tuple[int, ...] | None:
        """Shape of one action, `()` if discrete; None for a nested space."""
        return self.action_space.shape

    @property
    def unwrapped(self) -> PlanEnv:
        """The env itself; for code that expects gymnasium's property."""
        return self

    def sample_action(self) -> Any:
        """Return one action, drawn by the action space's own generator."""
        return self.action_space.sample()

    def set_state(self, state: np.ndarray) -> None:
        """Set the env (and so every row), or each of B rows, to a saved state.

        Args:
            state: `[S]` uint8 for the env, or `[B, S]` for rows 0 to B - 1.

        Raises:
            StateError: a state is damaged or belongs to another env.
        """
        with self._one_caller:
            if as_array(state, "set_state: state", StateError).ndim == 2:
                self.set_row_states(state)
                return
            self._check_rows_free("set_state")
            # Before the rows are dropped: a state that is refused leaves them where they are.
            self._set_env_state(self._checked_state(state, "set_state"))
            self._continued.drop()

    @abstractmethod
    def reseeded(self, states: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
        """Return states with new random generators; the rest of each state is unchanged.

        A state holds the env's random generator, so what follows from it is settled. Of states
        from here nothing is: a planner that does not know the future steps these.

        Args:
            states: `[B, S]` uint8; not changed.
            rng: draws B generators, and is advanced. None puts the same one into every state, so
                that states which differ in nothing else become equal bytes.

        Returns:
            `[B, S]` uint8, fresh.

        Raises:
            IncompleteState: the states do not hold the generator: they are replayed.
            StateError: a state is damaged or belongs to another env.
        """

    def sync_states(self, state: np.ndarray) -> None:
        """Set the env and all its rows to one saved `[S]` state."""
        with self._one_caller:
            self.set_state(self._checked_state(state, "sync_states"))

    def __repr__(self) -> str:
        note = {True: "", False: ", approximate states", None: ", unproved states"}[self.exact]
        return f"<{type(self).__name__} {self.name} ({self.backend}{note})>"

    def _repr_html_(self) -> str:
        """Return the notebook view."""
        proof = self.exactness
        rows = {
            "backend": self.backend,
            "why": self.backend_note or None,
            "observations": self.observation_space,
            "actions": self.action_space,
            "frameskip": self.frameskip,
            "states": f"{self.state_width} bytes, exact: {self.exact}",
            "captured by": proof
            and f"{proof.method}, {proof.transitions} transitions played again",
            "cost": self._cost(),
        }
        return html_table(self.name, [row for row in rows.items() if row[1] is not None])

    def _cost(self) -> str | None:
        """Return what a step and a state were measured to take when the env was made."""
        binding = getattr(getattr(self, "plan_env", self), "binding", None)
        if binding is None or binding.step_seconds is None:
            return None
        states = f", {binding.cost.seconds * 1e6:,.0f} us a state" if binding.cost.seconds else ""
        return f"{binding.step_seconds * 1e6:,.0f} us a step{states}"

    def _checked_state(self, state: Any, where: str) -> np.ndarray:
        found = as_array(state, f"{where}: state", StateError)
        if found.ndim != 1:
            raise StateError(
                f"{where}: state must be ({self.state_width},) uint8 from get_state; "
                f"got shape {found.shape}"
            )
        return self.checked_states(found[None], where)[0]
