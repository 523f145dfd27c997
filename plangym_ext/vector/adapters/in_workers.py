"""Attribute access and seeding of single envs in their workers, for the adapters.

A function travels to a worker by the name of its module, which is imported there.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from plangym_ext.states.codec import layers
from plangym_ext.vector.spaces import space_of


def attribute(env: gym.Env[Any, Any], name: str) -> Any:
    """Return an attribute of the env, or of the outermost wrapper that has it; call no method."""
    return env.get_wrapper_attr(name)


def has_layer(env: gym.Env[Any, Any], kind: type) -> bool:
    """Return whether the env or a wrapper around it is of a class."""
    return any(isinstance(layer, kind) for layer in layers(env))


def own_attribute(env: gym.Env[Any, Any], name: str) -> Any:
    """Attribute of the outermost wrapper, as Python has it; None if there is none."""
    return getattr(env, name, None)


def base_attribute(env: gym.Env[Any, Any], name: str) -> Any:
    """Return an attribute of the env under all wrappers; call no method."""
    return getattr(env.unwrapped, name)


def seed_as_tianshou(env: gym.Env[Any, Any], seed: int | None) -> tuple[Any] | None:
    """Seed the action space, and the env by its own `seed`; what that returned, None without."""
    space_of(env, "action_space").seed(seed)
    own = getattr(env, "seed", None)
    return None if own is None else (own(seed),)
