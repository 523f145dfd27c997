"""Reseeding of a state: a new random generator, with the rest of the state unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.errors import IncompleteState
from plangym_ext.states.codec import StateCodec, layers

#: uint64 numbers that stand for a generator: 128 bits of its state, 128 of its increment.
WORDS = 4


def generator_words(rng: np.random.Generator | None, count: int) -> np.ndarray:
    """Return `[count, WORDS]` uint64, one generator per row.

    Args:
        rng: draws them; None: the same for every row, always.
        count: of rows.
    """
    if rng is None:
        return np.ones((count, WORDS), np.uint64)
    words = rng.integers(0, 2**64, size=(count, WORDS), dtype=np.uint64)
    # The increment of PCG64 is odd.
    words[:, 2] |= np.uint64(1)
    return words


def reseed(env: Any, codec: StateCodec, words: np.ndarray) -> None:
    """Set the random generator of an env from `words` `[WORDS]`.

    That is `np_random` of the simulator, and what its state's codec says beside it.

    Raises:
        IncompleteState: the state is what happened since the reset, which no generator changes,
            or `np_random` is not over PCG64.
    """
    if codec.method in ("replay", "approximate"):
        raise IncompleteState(
            f"reseeded: the states of {type(env.unwrapped).__name__} must hold its random "
            f"generator; got states that are captured by {codec.method}, which holds what "
            f"happened since the reset. Give the env get_state and set_state."
        )
    low, high, inc_low, inc_high = (int(word) for word in words)
    generator = layers(env)[-1].np_random.bit_generator
    if type(generator) is not np.random.PCG64:
        raise IncompleteState(
            f"reseeded: np_random must be over PCG64, as gymnasium seeds it; got "
            f"{type(generator).__name__}."
        )
    generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": high << 64 | low, "inc": inc_high << 64 | inc_low},
        "has_uint32": 0,
        "uinteger": 0,
    }
    for part in codec.parts:
        part.reseed(low)
