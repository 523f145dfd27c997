"""How the five classic control envs keep their state, as `ClassicControlPart` writes it."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.envs.classic_control import _FLOAT32, _FLOAT64, _HAS_STEPS, _HAS_TORQUE, _TUPLE
from plangym_ext.errors import NoKernel
from plangym_ext.native.pcg64 import RNG

#: Type of the env's `state`, in which later arithmetic runs.
FLOAT64, FLOAT32, TUPLE = _FLOAT64, _FLOAT32, _TUPLE
HAS_STEPS, HAS_TORQUE = _HAS_STEPS, _HAS_TORQUE


def classic_state(size: int) -> np.dtype[Any]:
    """Dtype of the state of an env whose vector has `size` numbers."""
    return np.dtype(
        [
            ("kind", "u1"),
            ("flags", "u1"),
            ("steps", "<i8"),  # past the end
            ("vector", "<f8", (size,)),
            ("torque", "<f8"),
            ("rng", RNG),
        ]
    )


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
