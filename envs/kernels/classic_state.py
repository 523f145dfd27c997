"""State record of the five classic control kernels, with the bytes of `ClassicControlPart`."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.errors import NoKernel
from plangym_ext.native.compiled import compiled
from plangym_ext.native.kernel.pcg64 import RNG, could_be_rng


def classic_state(size: int, optional: tuple[str, str] | None = None) -> np.dtype[Any]:
    """Return the dtype of the state of an env whose vector has `size` numbers.

    Args:
        size: numbers in the vector.
        optional: name and type of the field beside it that may hold a number
            (`is_held`), if there is one.
    """
    return np.dtype(
        [
            ("kind", "u1"),  # FLOAT64, FLOAT32 or TUPLE: later arithmetic runs in this type
            ("is_held", "u1"),  # whether the optional field holds a number, or else None
            ("vector", "<f8", (size,)),
            *([] if optional is None else [optional]),
            ("rng", RNG),
        ]
    )


@compiled
def could_be_classic(state: Any, params: Any) -> bool:
    """Return whether there is such a generator."""
    return could_be_rng(state["rng"])


def number(env: Any, name: str) -> float:
    """Return a constant of the env, if it is a plain number: other types compute otherwise.

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
