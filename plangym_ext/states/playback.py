"""Playback: hooks for replaying the episodes of a simulator that cannot be copied."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import gymnasium as gym


class Playback:
    """Replay rules of a simulator; this one serves most simulators.

    A family derives from it when resetting a used simulator is not like resetting a
    new one, or when steps that are not observed can be had for less (`Family.playback`).

    Attributes:
        repeats_observations: whether `play` returns what the last step showed, as it showed it
            the first time.
    """

    repeats_observations = True

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self._env: Any = env

    def carried(self, options: dict[str, Any] | None) -> Any:  # noqa: ARG002 - most need none
        """Return plain data that a reset with these options takes over from earlier episodes."""
        return None

    def prepare(self, carried: Any) -> None:
        """Prepare a reset, live or replayed, so that both begin equally."""

    def unseen(self) -> AbstractContextManager[Any]:
        """Return the context of a replay, whose observations, rewards and pictures are not used."""
        return contextlib.nullcontext()

    def play(self, actions: Sequence[Any]) -> Any:
        """Play `actions` unseen; what later steps read is then as if they were stepped.

        Returns:
            The observation of the last, if `repeats_observations`.
        """
        obs = None
        for action in actions:
            obs = self._env.step(action)[0]
        return obs

    def show(self) -> None:
        """Render the end of a replay, if the env is displayed."""

    def identity(self) -> dict[str, Any]:
        """Return the data, beside the env's arguments, on which replayed outcomes depend."""
        package = type(self._env).__module__.partition(".")[0]
        version = getattr(sys.modules.get(package), "__version__", None)
        return {} if version is None else {package: version}
