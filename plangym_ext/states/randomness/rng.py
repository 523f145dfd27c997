"""GeneratorBytes: a PCG64 generator as 40 bytes, read and written in place."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from plangym_ext.errors import DamagedState, IncompleteState

#: Bytes of a captured generator: 128-bit state, 128-bit increment, buffered half.
RNG_BYTES = 40
_LAYOUT = struct.Struct("<32s8s")
#: Offset of the increment where 128-bit numbers lie as such.
_LOW_FIRST = 16


#: Generators that were met last, by `id`. That they are held here keeps the `id` theirs.
_bound: dict[int, GeneratorBytes] = {}
_MOST_BOUND = 256
#: Those of them that `unheld` has made, with how often such a one is referred to if nothing else
#: holds it; oldest first.
_made: collections.deque[tuple[GeneratorBytes, int]] = collections.deque(maxlen=_MOST_BOUND)
#: How many of them are looked at: states are mostly restored in turn.
_LOOKED_AT = 2


def bound(generator: np.random.Generator) -> GeneratorBytes | None:
    """Return the memory of a generator over PCG64, if numpy keeps its words low bytes first."""
    found = _bound.get(id(generator))
    if found is None or found._generator is not generator:
        if len(_bound) >= _MOST_BOUND:
            _bound.clear()
            _made.clear()
        found = GeneratorBytes()
        with contextlib.suppress(IncompleteState):  # numpy has changed
            found._bind(generator)
        if found._increment_at != _LOW_FIRST:
            return None
        _bound[id(generator)] = found
    return found


def unheld(make: Callable[[], np.random.Generator]) -> np.random.Generator:
    """Return a generator over PCG64, in any state, that nothing else refers to.

    A restore needs one for each that an env holds beside `np_random`. To make one, and to find its
    memory, takes as long as some hundred attributes; the one of the restore before last is free.
    """
    for _ in range(_LOOKED_AT):
        try:
            one, alone = found = _made.popleft()  # out of reach for other threads meanwhile
        except IndexError:
            break
        is_free = _references(one) == alone
        generator: np.random.Generator = one._generator
        _made.append(found)
        if is_free:
            return generator
    generator = make()
    memory = bound(generator)
    if memory is None:
        return generator
    del generator  # which would be counted
    found = memory, _references(memory)
    generator = memory._generator
    _made.append(found)
    return generator


def _references(one: GeneratorBytes) -> int:
    """Return how often a generator and what it draws from are referred to."""
    return sys.getrefcount(one._generator) + sys.getrefcount(one._generator.bit_generator)


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
        self._increment_at = 0

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of an env has a generator of its own, in other memory.
        return GeneratorBytes, ()

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
        # By the offset of the increment's lowest byte.
        layouts = {
            _LOW_FIRST: inner["state"].to_bytes(16, "little") + inner["inc"].to_bytes(16, "little"),
            # Without a native 128-bit integer the high word comes first.
            24: b"".join(
                (inner[k] >> 64).to_bytes(8, "little")
                + (inner[k] & (2**64 - 1)).to_bytes(8, "little")
                for k in ("state", "inc")
            ),
        }
        words = self._words.tobytes()
        self._increment_at = next((at for at, layout in layouts.items() if layout == words), 0)
        tail = state["has_uint32"].to_bytes(4, "little") + state["uinteger"].to_bytes(4, "little")
        if not self._increment_at or self._half.tobytes() != tail:
            raise IncompleteState(
                f"random state: numpy {np.__version__} lays PCG64 out in an unknown way; "
                "please report it, with this version."
            )

    def capture(self, generator: Any, row: memoryview, offset: int) -> int:
        """Copy the generator's state to `row[offset:]`; return the offset after it."""
        if generator is not self._generator:
            self._bind(generator)
        row[offset : offset + 32] = self._words
        row[offset + 32 : offset + 40] = self._half
        return offset + RNG_BYTES

    def restore(self, generator: Any, row: memoryview, offset: int) -> int:
        """Restore what `capture` wrote into `generator` itself; return the offset after it."""
        if generator is not self._generator:
            self._bind(generator)
        words, half = _LAYOUT.unpack_from(row, offset)
        # Of an even increment numpy draws whole numbers that are never accepted, for ever.
        if not words[self._increment_at] & 1:
            raise DamagedState("random state: a PCG64 must have an odd increment")
        self._words[:], self._half[:] = words, half
        return offset + RNG_BYTES

    def read(self) -> bytes:
        """Return the 40 bytes of the generator that was bound last."""
        return self._words.tobytes() + self._half.tobytes()

    def write(self, data: bytes) -> None:
        """Set the generator that was bound last to 40 bytes that one was at."""
        self._words[:], self._half[:] = data[:32], data[32:]

    def check(self, generator: Any, data: bytes, where: str) -> None:
        """Refuse 40 bytes that no PCG64 can hold.

        Args:
            generator: into which they are to be restored.
            data: as `capture` wrote them.
            where: begins the message.

        Raises:
            DamagedState: the increment is even or the flag is neither 0 nor 1.
        """
        if generator is not self._generator:
            self._bind(generator)
        lowest, has_half = data[self._increment_at], int.from_bytes(data[32:36], "little")
        if not lowest & 1 or has_half > 1:
            raise DamagedState(
                f"{where}: the random state must have an odd increment and a flag of 0 or 1; "
                f"got a lowest byte of {lowest} and {has_half}. Pass a row from get_state."
            )
