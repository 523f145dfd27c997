"""Validation of numpy bit-generator states from untrusted data.

A position beyond the buffer makes numpy read, and give out, memory that is not its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

KINDS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
#: Where in the state the position is, and the largest that it may be.
_POSITIONS = {"MT19937": (("state", "pos"), 624), "Philox": (("buffer_pos",), 4)}
_PCG = ("PCG64", "PCG64DXSM")


def check(state: Any) -> str:
    """Return the kind of bit generator that `state` belongs to.

    Args:
        state: as `bit_generator.state` has it.

    Raises:
        ValueError, KeyError, TypeError: it is no state, or none that could come about.
    """
    kind = state["bit_generator"]
    if kind not in KINDS:
        raise ValueError(f"unknown bit generator {kind!r}")
    # MT19937 may stand at 624, after its last word: it fills its buffer before the next draw.
    if kind in _POSITIONS:
        path, most = _POSITIONS[kind]
        position: Any = state
        for name in path:
            position = position[name]
        if not 0 <= int(position) <= most:
            raise ValueError(f"{kind}: a position of {position}, expected 0 to {most}")
    elif kind in _PCG and not state["state"]["inc"] & 1:
        raise ValueError(f"{kind}: an even increment")
    return str(kind)


def generator(state: Mapping[str, Any]) -> np.random.Generator:
    """Return a fresh `Generator` in the given state.

    Raises:
        ValueError, KeyError, TypeError, OverflowError: it is none.
    """
    bit_generator = getattr(np.random, check(state))(0)
    bit_generator.state = state
    return np.random.Generator(bit_generator)
