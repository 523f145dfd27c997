"""Batched spaces of a vector env from the spaces of its sub-envs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium import spaces
from gymnasium.spaces.utils import is_space_dtype_shape_equiv
from gymnasium.vector.utils import batch_differing_spaces, batch_space

if TYPE_CHECKING:
    from plangym_ext.vector.backend import RowsDescription

#: "same", "different", or (batched space, single space).
ObservationMode = str | tuple[spaces.Space[Any], spaces.Space[Any]]


def observation_spaces(
    found: RowsDescription, mode: ObservationMode
) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    """Return the batched and the single observation space.

    Args:
        found: what the sub-envs say.
        mode: "same" for equal spaces, "different" for spaces of the same shapes and dtypes
            whose bounds may differ, or the two spaces themselves.

    Raises:
        RuntimeError: a sub-env's space does not fit.
        ValueError, TypeError: no such mode.
    """
    singles = found.observation_spaces
    single = singles[0]
    if mode == "different" and isinstance(single, UnknownSpace):
        mode = "same"  # they have no bounds, and gymnasium cannot compare them
    if isinstance(mode, tuple) and len(mode) == 2:
        if not all(isinstance(space, spaces.Space) for space in mode):
            raise TypeError(
                "Expected both elements of observation_mode to be Spaces, "
                f"got {type(mode[0])} and {type(mode[1])}"
            )
        batched, single = mode
    elif mode == "same":
        batched = batch_space(single, len(singles))
    elif mode == "different":
        batched = batch_differing_spaces(singles)
    else:
        raise ValueError(
            "observation_mode must be 'same', 'different' or a tuple of batched and single "
            f"space; got {mode!r}"
        )
    for row, space in enumerate(singles):
        if mode == "same" and space != single:
            raise RuntimeError(
                f"sub-env {row}: its observation space is {space}; sub-env 0 has {single}. If "
                "that is intended, use observation_mode='different'."
            )
        # Of spaces that are equal nothing more is asked: gymnasium cannot compare custom ones.
        if mode != "same" and not is_space_dtype_shape_equiv(space, single):
            raise RuntimeError(
                f"sub-env {row}: its observation space {space} must have the shapes and dtypes "
                f"of {single}"
            )
    for row, space in enumerate(found.action_spaces):
        if space != found.action_spaces[0]:
            raise RuntimeError(
                f"sub-env {row}: its action space is {space}; sub-env 0 has "
                f"{found.action_spaces[0]}"
            )
    return batched, single


class UnknownSpace(gym.Space[Any]):
    """A space that contains everything and equals any other one."""

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
    """Return the env's `observation_space` or `action_space`; an `UnknownSpace` if it has none."""
    try:
        found: gym.Space[Any] = getattr(env, name)
    except AttributeError:
        return UnknownSpace()
    return found
