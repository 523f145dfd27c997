"""A numpy Generator's state as 40 bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.errors import DamagedState, IncompleteState

#: 16 bytes state, 16 bytes increment, 4 bytes flag and 4 bytes of the buffered half.
RNG_BYTES = 40


def pack_rng(generator: np.random.Generator) -> bytes:
    """State of a generator over PCG64, little-endian.

    Raises:
        IncompleteState: the generator runs on something else than PCG64.
    """
    bit_generator = generator.bit_generator
    if type(bit_generator) is not np.random.PCG64:
        raise IncompleteState(
            "get_state: expected np_random over PCG64, as gymnasium makes it; got "
            f"{type(bit_generator).__name__}. Seed the env with reset(seed=...) instead."
        )
    state: Any = bit_generator.state
    return (
        state["state"]["state"].to_bytes(16, "little")
        + state["state"]["inc"].to_bytes(16, "little")
        # Half of a 64-bit draw waits here for the next 32-bit one.
        + state["has_uint32"].to_bytes(4, "little")
        + state["uinteger"].to_bytes(4, "little")
    )


def check_rng(data: bytes) -> None:
    """Refuse 40 bytes that no PCG64 can hold.

    Raises:
        DamagedState: the increment is even or the flag is neither 0 nor 1.
    """
    has_half = int.from_bytes(data[32:36], "little")
    if not data[16] & 1 or has_half > 1:
        raise DamagedState(
            "set_state: the random state must have an odd increment and a flag of 0 or 1; "
            f"got a lowest byte of {data[16]} and {has_half}. Pass a row from get_state."
        )


def unpack_rng(generator: np.random.Generator, data: bytes) -> None:
    """Set `generator` to what `pack_rng` returned; `data` has passed `check_rng`."""
    bit_generator: Any = generator.bit_generator
    if type(bit_generator) is not np.random.PCG64:
        raise IncompleteState(
            "set_state: expected np_random over PCG64, as gymnasium makes it; got "
            f"{type(bit_generator).__name__}. Seed the env with reset(seed=...) first."
        )
    bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {
            "state": int.from_bytes(data[:16], "little"),
            "inc": int.from_bytes(data[16:32], "little"),
        },
        "has_uint32": int.from_bytes(data[32:36], "little"),
        "uinteger": int.from_bytes(data[36:40], "little"),
    }
