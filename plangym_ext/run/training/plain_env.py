"""PlainEnv: evaluation env for simulators without exact states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.closing import Closing
from plangym_ext.core.drawing import Film
from plangym_ext.errors import IncompleteState

#: A byte, as states have at least one.
_NO_STATE = np.zeros(1, np.uint8)


class PlainEnv(Closing):
    """Plays one episode at a time, for players that only read observations.

    It stands where `play` expects an env with states; the states that it returns mean nothing.

    Args:
        build: makes the env.
        name: for messages.

    Attributes:
        exact: False: nothing can be restored.
    """

    exact = False
    #: See `GymEnv.film`.
    film: Film | None = None

    def __init__(self, build: Callable[[], Any], name: str) -> None:
        self.gym_env, self.name = build(), name
        self.observation_space = self.gym_env.observation_space
        self.action_space = self.gym_env.action_space
        self.metadata = self.gym_env.metadata

    def reset(self, *, seed: int | None = None) -> tuple[npt.NDArray[np.uint8], Any, Any]:
        """Begin an episode: a state that means nothing, obs, info."""
        obs, info = self.gym_env.reset(seed=seed)
        return _NO_STATE, obs, info

    def step(self, action: Any, state: Any = None) -> tuple[Any, ...]:  # noqa: ARG002
        """Step the episode; the state argument has no meaning."""
        film = self.film
        if film is None:
            return (_NO_STATE, *self.gym_env.step(action))
        film.on = True
        found = self.gym_env.step(action)
        film.after_step()
        film.on = False
        return (_NO_STATE, *found)

    def step_batch(self, actions: Any, **_: Any) -> Any:
        """Refuse to restore states.

        Raises:
            IncompleteState: always.
        """
        raise IncompleteState(
            f"{self.name}: {len(actions)} actions were to be played from states, which are not "
            f"exact here. Play one episode after the other, by an agent."
        )

    def render(self) -> Any:
        """Return the env's picture."""
        return self.gym_env.render()

    def close(self) -> None:
        """Close the env; safe to call twice."""
        self.gym_env.close()
