"""ExternalProcess: one env in its own worker process."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.core.pending import Pending
from plangym_ext.core.results import StateTransitions, Transitions
from plangym_ext.workers.protocol import Get
from plangym_ext.workers.worker_handle import WorkerHandle, requests


class ExternalProcess(WorkerHandle):
    """One env in a separate process, which `build` or the first call starts.

    Methods that take `blocking` return their result, or with `blocking=False` a
    promise: a callable that waits for the result and returns it. What the constructor of
    the env raises, and its death, are raised by the first of them.

    Args:
        constructor: callable that returns a gymnasium env or a `GymEnv`; it is
            called in the worker. Lambdas and local classes travel by cloudpickle.
        index: number of the worker, for messages.

    Raises:
        TypeError: the constructor is not callable or cannot be pickled.
    """

    @property
    def observation_space(self) -> Any:
        """Observation space of the env."""
        return self.describe()["observation_space"]

    @property
    def action_space(self) -> Any:
        """Action space of the env."""
        return self.describe()["action_space"]

    def __getattr__(self, name: str) -> Any:
        """Read an attribute of the env; one round trip to the worker."""
        if name.startswith("_") or name == "process":  # there is none before `build`
            raise AttributeError(name)
        return self._ask(Get(next(requests), name))()

    def reset(self, blocking: bool = True, return_states: bool = False, **kwargs: Any) -> Any:
        """Reset the env.

        Returns:
            `(obs, info)`, or `(state, obs, info)` with `return_states`.
        """
        return _now(self.call("reset", return_state=return_states, **kwargs), blocking)

    def set_state(self, state: np.ndarray, blocking: bool = True) -> Any:
        """Set the env to a saved state, `[S]` uint8, of which the worker keeps a copy."""
        return _now(self.call("set_state", state), blocking)

    def step(
        self,
        action: Any,
        state: np.ndarray | None = None,
        dt: int = 1,
        blocking: bool = True,
        return_state: bool | None = None,
    ) -> Any:
        """Step the env; arguments and result as `PlanEnv.step`."""
        return _now(self.call("step", action, state, dt, return_state), blocking)

    def step_batch(
        self,
        actions: Any,
        states: np.ndarray | None = None,
        dt: int | np.ndarray | None = None,
        return_state: bool | None = None,
        blocking: bool = True,
    ) -> Transitions | StateTransitions | Pending[Any]:
        """Step rows; arguments and result as `PlanEnv.step_batch`; `dt` None is 1."""
        dt = 1 if dt is None else dt
        return _now(self.call("step_batch", actions, states, dt, return_state), blocking)


def _now(promise: Pending[Any], blocking: bool) -> Any:
    return promise() if blocking else promise
