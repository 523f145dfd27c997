"""The state of a numpy Generator as 40 bytes, read and written in place."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from plangym_ext.errors import IncompleteState

#: Bytes of a captured generator: 128-bit state, 128-bit increment, buffered half.
RNG_BYTES = 40


class GeneratorBytes:
    """Direct view of the memory of a `Generator` over `PCG64`.

    Going through `bit_generator.state` builds dicts of big integers and costs
    2 us for a get and a set; copying the struct itself costs a tenth of it. The
    struct's layout is not a documented promise of numpy, so every new generator is
    compared with the documented `bit_generator.state` once, when it is first met.
    """

    def __init__(self) -> None:
        self._generator: Any = self  # no generator at all
        self._words: memoryview = memoryview(b"")
        self._half: memoryview = memoryview(b"")

    def _bind(self, generator: Any) -> None:
        bit_generator = getattr(generator, "bit_generator", None)
        if type(bit_generator) is not np.random.PCG64:
            raise IncompleteState(
                "random state: expected a numpy Generator over PCG64, as gymnasium seeds it; got "
                f"{type(generator).__name__} over {type(bit_generator).__name__}. "
                "Give the env a get_state/set_state pair that covers its generator."
            )
        # struct { pcg64 *words; int has_half; uint32 half; }
        address = bit_generator.ctypes.state_address
        words_at = ctypes.c_uint64.from_address(address).value
        words = (ctypes.c_ubyte * 32).from_address(words_at)
        half = (ctypes.c_ubyte * 8).from_address(address + 8)
        self._words = memoryview(words).cast("B")
        self._half = memoryview(half).cast("B")
        self._check_layout(bit_generator)
        self._generator = generator  # keeps the memory alive

    def _check_layout(self, bit_generator: np.random.PCG64) -> None:
        state = bit_generator.state
        inner = state["state"]
        halves = {
            "little": inner["state"].to_bytes(16, "little") + inner["inc"].to_bytes(16, "little"),
            # Without a native 128-bit integer the high word comes first.
            "high first": b"".join(
                (inner[k] >> 64).to_bytes(8, "little")
                + (inner[k] & (2**64 - 1)).to_bytes(8, "little")
                for k in ("state", "inc")
            ),
        }
        tail = state["has_uint32"].to_bytes(4, "little") + state["uinteger"].to_bytes(4, "little")
        if self._words.tobytes() not in halves.values() or self._half.tobytes() != tail:
            raise IncompleteState(
                f"random state: numpy {np.__version__} lays PCG64 out in an unknown way; "
                "please report it, with this version."
            )

    def capture(self, generator: Any, row: memoryview, offset: int) -> int:
        """Copy the generator's state to `row[offset:]`; returns the offset behind it."""
        if generator is not self._generator:
            self._bind(generator)
        row[offset : offset + 32] = self._words
        row[offset + 32 : offset + 40] = self._half
        return offset + RNG_BYTES

    def restore(self, generator: Any, row: memoryview, offset: int) -> int:
        """Inverse of `capture`, into `generator` itself; returns the offset behind it."""
        if generator is not self._generator:
            self._bind(generator)
        self._words[:] = row[offset : offset + 32]
        self._half[:] = row[offset + 32 : offset + 40]
        return offset + RNG_BYTES
