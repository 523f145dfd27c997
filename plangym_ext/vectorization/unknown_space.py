"""The observation space of envs that have none: anything may come."""

from __future__ import annotations

from typing import Any

import gymnasium as gym


class UnknownSpace(gym.Space[Any]):
    """Holds everything; equal to any other one."""

    def __init__(self) -> None:
        super().__init__(None, None)

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Refuse: nobody knows what an observation looks like."""
        raise NotImplementedError("sample: this env has no observation_space. Give it one.")

    def contains(self, x: Any) -> bool:  # noqa: ARG002 - whatever it is
        """Return True."""
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnknownSpace)

    def __hash__(self) -> int:
        return hash(UnknownSpace)

    def __repr__(self) -> str:
        return "UnknownSpace()"


def observation_space(env: gym.Env[Any, Any]) -> gym.Space[Any]:
    """The env's observation space; an `UnknownSpace` if it has none."""
    try:
        return env.observation_space
    except AttributeError:
        return UnknownSpace()
