"""The space of envs that declare none: any observation may come, any action may be given."""

from __future__ import annotations

from typing import Any

import gymnasium as gym


class UnknownSpace(gym.Space[Any]):
    """Holds everything; equal to any other one."""

    def __init__(self) -> None:
        super().__init__(None, None)

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Refuse: there is nothing to sample from."""
        raise NotImplementedError(
            "sample: this env declares no observation_space or no action_space. Give it one."
        )

    def contains(self, x: Any) -> bool:  # noqa: ARG002 - whatever it is
        """Return True."""
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnknownSpace)

    def __hash__(self) -> int:
        return hash(UnknownSpace)

    def __repr__(self) -> str:
        return "UnknownSpace()"


def space_of(env: gym.Env[Any, Any], name: str) -> gym.Space[Any]:
    """The env's `observation_space` or `action_space`; an `UnknownSpace` if it has none."""
    try:
        found: gym.Space[Any] = getattr(env, name)
    except AttributeError:
        return UnknownSpace()
    return found
