"""Construction, check and closing of a gymnasium env from a caller's constructor."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import gymnasium as gym

from plangym_ext.core.masks import MASK, flat_mask
from plangym_ext.core.own_children import constructed, end_copies, ends_with
from plangym_ext.errors import WrongKind
from plangym_ext.states.codec import layers
from plangym_ext.states.content_hash import remember_constructor


def made_env(make: Callable[[], Any]) -> gym.Env[Any, Any]:
    """Call a constructor, and return its gymnasium env after checks.

    Raises:
        TypeError: it is not callable, or makes something else.
        WrongKind: its env has gym's old interface.
    """
    if not callable(make):
        raise WrongKind(
            f"GymEnv: make must be a callable that returns a gymnasium env; got {make!r}. "
            "Pass a function such as `lambda: gymnasium.make(...)`, so that it can be cloned."
        )
    env, copies = constructed(make)
    if not isinstance(env, gym.Env):
        raise WrongKind(
            f"GymEnv: make() must return a gymnasium.Env; got {type(env).__module__}."
            f"{type(env).__qualname__}"
        )
    # Not `unwrapped`, which may be no gymnasium env, as robosuite's is not.
    proper = layers(env)[-1]
    ends_with(proper, copies)
    check_reset(proper)
    remember_constructor(env, make)
    return MaskInInfo(env) if env.has_wrapper_attr(_METHOD) else env


def close_env(env: gym.Env[Any, Any]) -> None:
    """Close an env, and end the forks of this process that its constructor has made."""
    try:
        env.close()
    finally:
        end_copies(layers(env)[-1])


def check_reset(env: gym.Env[Any, Any]) -> None:
    """Refuse an env of gym's old interface, which took no seed."""
    try:
        signature = inspect.signature(env.reset)
    except ValueError:  # of compiled code
        return
    try:
        signature.bind(seed=None, options=None)
    except TypeError as error:
        name = f"{type(env).__module__}.{type(env).__qualname__}"
        raise WrongKind(
            f"{name}: reset must take the keywords seed and options, as gymnasium's envs do; got "
            f"reset{signature}. Write reset(self, *, seed=None, options=None) and begin it with "
            f"super().reset(seed=seed); its step returns obs, reward, terminated, truncated, info. "
            f"An env of the old gym that you cannot change is wrapped by the package shimmy."
        ) from error


def check_space(env: gym.Env[Any, Any], name: str) -> None:
    """Refuse an env without the space `name`."""
    if getattr(env, name, None) is None:
        raise WrongKind(
            f"{type(env).__module__}.{type(env).__qualname__}: {name} must be a gymnasium space; "
            f"there is none. Set it in the class or in __init__."
        )


# Wrapper that puts the mask of an env's `action_masks()` method into its infos


#: As envs for sb3-contrib's MaskablePPO have it.
_METHOD = "action_masks"


class MaskInInfo(gym.Wrapper[Any, Any, Any, Any]):
    """Adds the mask of the method `action_masks()` to infos without one."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; see `gymnasium.Env.reset`."""
        obs, info = self.env.reset(seed=seed, options=options)
        return obs, self._told(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step; see `gymnasium.Env.step`."""
        *found, info = self.env.step(action)
        return *found, self._told(info)

    def _told(self, info: dict[str, Any]) -> dict[str, Any]:
        if MASK in info:
            return info
        # Copied: an env may go on writing into its masks.
        mask = copy.deepcopy(self.env.get_wrapper_attr(_METHOD)())
        return {**info, MASK: flat_mask(mask)}
