"""What adapters ask of single envs, where those live: no framework is imported for it.

A function travels to a worker by the name of its module, which is imported there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from plangym_ext.states.codec import layers
from plangym_ext.vector.spaces import space_of


class Missing:
    """Stands for an attribute that an env has not.

    An error in a worker would be that of a call, which undoes what the call has done: envs without
    states would lose their episodes.
    """


def given(found: Sequence[Any], name: str) -> list[Any]:
    """Return the same attributes of some envs.

    Raises:
        AttributeError: one of them is missing.
    """
    if any(one is Missing for one in found):
        raise AttributeError(f"an env has no attribute {name!r}")
    return list(found)


def attribute(env: gym.Env[Any, Any], name: str) -> Any:
    """Return an attribute of the env, or of the outermost wrapper that has it; call no method."""
    try:
        return env.get_wrapper_attr(name)
    except AttributeError:
        return Missing


def has_layer(env: gym.Env[Any, Any], kind: type) -> bool:
    """Return whether the env or a wrapper around it is of a class."""
    return any(isinstance(layer, kind) for layer in layers(env))


def own_attribute(env: gym.Env[Any, Any], name: str) -> Any:
    """Attribute of the outermost wrapper, as Python has it; None if there is none."""
    return getattr(env, name, None)


def base_attribute(env: gym.Env[Any, Any], name: str) -> Any:
    """Return an attribute of the env under all wrappers; call no method."""
    return getattr(env.unwrapped, name, Missing)


def seed_as_tianshou(env: gym.Env[Any, Any], seed: int | None) -> tuple[Any] | None:
    """Seed the action space, and the env by its own `seed`; what that returned, None without."""
    space_of(env, "action_space").seed(seed)
    own = getattr(env, "seed", None)
    return None if own is None else (own(seed),)
