"""Kernel registry: registration, and lookup of the kernel that fits a given env."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces, wrappers

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.infos import InfoColumn
from plangym_ext.core.invalid import MARKS
from plangym_ext.errors import NoKernel
from plangym_ext.native.kernel.kernel import Kernel
from plangym_ext.states.codec import layers
from plangym_ext.states.families import family_of, load_named
from plangym_ext.states.wrapper_parts import TimeLimitPart

_registered: dict[str, str | Callable[[Any], Kernel]] = {}

#: Wrappers that the compiled loop stands in for; the second and third do nothing to it.
_WRAPPERS = (wrappers.TimeLimit, wrappers.OrderEnforcing, wrappers.PassiveEnvChecker)
#: Ways of capturing a state that write the same fields at the same places always.
_FIXED = ("codec", "own")


def register_kernel(env_class: type | str, kernel: str | Callable[[Any], Kernel]) -> None:
    """Register a compiled kernel for an env class; `make` then uses it.

    Args:
        env_class: class of the unwrapped env, or its name as "module:name". Classes
            that derive from it are not meant: they may have other rules.
        kernel: callable from the unwrapped env to the `Kernel` for its arguments, or
            its name as "module:name". It raises `NoKernel` for arguments that it does
            not know.
    """
    if isinstance(env_class, type):
        if not issubclass(env_class, gym.Env):
            raise TypeError(f"register_kernel: expected a gymnasium.Env class; got {env_class!r}")
        env_class = f"{env_class.__module__}:{env_class.__qualname__}"
    _registered[env_class] = kernel


def may_have_kernel(target: Any) -> bool:
    """Return whether a kernel is registered for the class that an entry point names or is."""
    if isinstance(target, type):
        target = f"{target.__module__}:{target.__qualname__}"
    # What another callable makes is not known before it is called.
    return bool(_registered) and (not isinstance(target, str) or target in _registered)


def find_kernel(env: GymEnv, kernel: Kernel | None = None) -> Kernel:
    """Return the kernel of an env with its arguments and wrappers.

    Args:
        env: the env.
        kernel: one to examine instead of the registered one.

    Raises:
        NoKernel: there is none, or it would not do what the env does; the message says why.
    """
    try:
        kernel = _kernel_for(env.gym_env.unwrapped) if kernel is None else kernel
    except NoKernel as error:
        raise NoKernel(error.reason, name=env.name) from None
    reason = _wrong_wrapper(env) or _wrong_spaces(env) or _wrong_state(env, kernel)
    reason = reason or _wrong_info(env, kernel)
    if reason:
        raise NoKernel(reason, name=env.name)
    return kernel


def _kernel_for(base: Any) -> Kernel:
    kernel = _factory(base)(base)
    if not isinstance(kernel, Kernel):
        raise TypeError(
            f"{type(base).__qualname__}: what is registered as its kernel must return a Kernel; "
            f"got {kernel!r}"
        )
    return kernel


def _factory(base: Any) -> Callable[[Any], Kernel]:
    cls = type(base)
    own = _registered.get(f"{cls.__module__}:{cls.__qualname__}")
    if own is not None:
        factory: Callable[[Any], Kernel] = load_named(own)
        return factory
    family = family_of(base)
    found = family.load_native("kernel") if family is not None else None
    if found is None:
        raise NoKernel(f"{cls.__qualname__}: no kernel is known for this class")
    return found


def _wrong_wrapper(env: GymEnv) -> str:
    above = layers(env.gym_env)[:-1]
    for layer in above:
        if type(layer) not in _WRAPPERS:
            return f"the compiled loop does not know the wrapper {type(layer).__qualname__}"
    if sum(type(layer) is wrappers.TimeLimit for layer in above) > 1:
        return "the compiled loop counts for one TimeLimit only"
    return ""


def _wrong_spaces(env: GymEnv) -> str:
    for space in (env.observation_space, env.action_space):
        if not isinstance(
            space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary
        ):
            return f"a kernel's observations and actions are single arrays; this is {space}"
    return ""


def _wrong_state(env: GymEnv, kernel: Kernel) -> str:
    parts = [part for part in env.codec.parts if not isinstance(part, TimeLimitPart)]
    if len(parts) != 1 or parts[0].method not in _FIXED or not parts[0].exact:
        ways = ", ".join(part.method for part in parts)
        return f"its state is captured as {ways}; a kernel reads what a codec or get_state writes"
    if kernel.state.itemsize != parts[0].width:
        return (
            f"its state takes {parts[0].width} bytes, that of the kernel "
            f"{kernel.state.itemsize}; both must be the same fields in the same order"
        )
    return ""


def _wrong_info(env: GymEnv, kernel: Kernel) -> str:
    fields = () if kernel.info is None else kernel.info.names or ()
    mine = [(name, *_shaped(kernel.info[name])) for name in fields]  # type: ignore[index]
    theirs = [(column.key, *_shaped(_dtype(column))) for column in env.layout.info]
    # The marks of invalid values are no info of the env's, and stand last.
    theirs = theirs[:-1] if MARKS in env.layout.info else theirs
    if mine != theirs:
        return f"the kernel's info fields must be the env's, {theirs}; got {mine}"
    return ""


def _dtype(column: InfoColumn) -> np.dtype[Any]:
    return np.dtype((column.dtype, column.shape))


def _shaped(dtype: np.dtype[Any]) -> tuple[str, tuple[int, ...]]:
    return dtype.base.str, dtype.shape
