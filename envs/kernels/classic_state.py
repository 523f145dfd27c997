"""How the five classic control envs keep their state, as `ClassicControlPart` writes it."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.envs.classic_control import _FLOAT32, _FLOAT64, _TUPLE
from plangym_ext.errors import NoKernel
from plangym_ext.native.pcg64 import RNG

#: Type of the env's `state`, in which later arithmetic runs.
FLOAT64, FLOAT32, TUPLE = _FLOAT64, _FLOAT32, _TUPLE


def classic_state(size: int, optional: tuple[str, str] | None = None) -> np.dtype[Any]:
    """Dtype of the state of an env.

    Args:
        size: how many numbers its vector has.
        optional: name and type of the number that it may hold beside it; `is_held` says
            whether it does, and it is 0 if not.
    """
    fields: list[Any] = [("kind", "u1"), ("is_held", "?"), ("vector", "<f8", (size,))]
    fields += [optional] if optional else []
    return np.dtype([*fields, ("rng", RNG)])


def number(env: Any, name: str) -> float:
    """A constant of the env, if it is a plain number: other types compute otherwise.

    Raises:
        NoKernel: it is something else, such as a numpy float32.
    """
    value = getattr(env, name)
    if type(value) not in (int, float):
        raise NoKernel(
            f"{type(env).__qualname__}: its kernel takes {name} as a Python number; got "
            f"{type(value).__qualname__}"
        )
    return float(value)
