"""Where an episode begins, for protocols that say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class StartedBy:
    """An env whose episode with a seed begins as a function says.

    Args:
        env: what is played and planned in.
        begin: `(env, seed) -> (state, obs, info)`.
    """

    def __init__(self, env: Any, begin: Callable[[Any, int], tuple[Any, Any, dict[str, Any]]]):
        self._env, self._begin = env, begin

    def reset(self, *, seed: int) -> tuple[Any, Any, dict[str, Any]]:
        """Begin the episode of a seed."""
        return self._begin(self._env, seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)
