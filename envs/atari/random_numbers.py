"""The Atari emulator's two MT19937 random generators: parsing, seeding, capture.

As text, a generator is its 624 words and its position, in decimal: the way in which
C++ writes an `std::mt19937`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from plangym_ext.errors import DamagedState, IncompleteState

_WORDS = 624
#: Bytes of a captured `Twister`: 624 words and the position.
TWISTER_BYTES = 4 * _WORDS + 4
# A reset draws one number for each byte of memory.
_MOST_BLOCKS = 256
# A million resets of a console: some seconds, as a generator cannot leap.
_MOST_DRAWS, _PIECE = 1 << 31, 1 << 24


def parsed(text: bytes) -> tuple[np.ndarray, int]:
    """Return the words `[624]` uint32 and the position of a generator's text."""
    numbers = np.array(text.split(), np.uint64)
    return numbers[:_WORDS].astype(np.uint32), int(numbers[_WORDS])


def twister_of(text: bytes) -> np.random.MT19937:
    """Return a generator in the state that the text says."""
    key, position = parsed(text)
    generator = np.random.MT19937(0)
    generator.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": position}}
    return generator


def check_twister(saved: bytes | memoryview) -> None:
    """Refuse what no generator can be in: at another position it reads memory of others.

    Raises:
        DamagedState: it is none.
    """
    position = int.from_bytes(saved[-4:], "little")
    if len(saved) != TWISTER_BYTES or position > _WORDS:
        raise DamagedState(
            f"Atari: a generator must have {TWISTER_BYTES} bytes and a position of at most "
            f"{_WORDS}; got {len(saved)} and {position}. Pass a row from get_state."
        )


def seeded_text(seed: int) -> bytes:
    """Return the state of a generator that was just given a seed."""
    # RandomState spreads a seed over the words as C++ does, which numpy's MT19937 does not.
    _, key, position, *_ = np.random.RandomState(seed % 2**32).get_state()
    return " ".join(map(str, [*np.asarray(key).tolist(), position])).encode()


class Twister:
    """The environment's generator, which decides what frames repeat the action before.

    Attributes:
        draw: callable that gives the next number, in [0, 2**32).
    """

    def __init__(self, text: bytes) -> None:
        self._generator = twister_of(text)
        self.draw: Callable[[], int] = self._generator.random_raw
        # struct { uint32 key[624]; int position; }, compared with the documented state.
        address = self._generator.ctypes.state_address
        memory = (ctypes.c_ubyte * TWISTER_BYTES).from_address(address)
        self._memory = memoryview(memory).cast("B")
        if self.saved() != _packed(text):
            raise IncompleteState(
                f"random state: numpy {np.__version__} lays MT19937 out in an unknown way; "
                "please report it, with this version."
            )

    def load(self, text: bytes) -> None:
        """Take over a state."""
        self._memory[:] = _packed(text)

    def saved(self) -> bytes:
        """Return the state as `TWISTER_BYTES` bytes."""
        return self._memory.tobytes()

    @staticmethod
    def text(saved: bytes) -> bytes:
        """Return a saved state as text."""
        check_twister(saved)
        return " ".join(map(str, np.frombuffer(saved, np.uint32).tolist())).encode()

    def capture(self, buffer: memoryview, offset: int) -> int:
        """Copy the state to `buffer[offset:]`; return the offset after it."""
        buffer[offset : offset + TWISTER_BYTES] = self._memory
        return offset + TWISTER_BYTES

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Restore what `capture` wrote; return the offset after it."""
        check_twister(buffer[offset : offset + TWISTER_BYTES])
        self._memory[:] = buffer[offset : offset + TWISTER_BYTES]
        return offset + TWISTER_BYTES


def _packed(text: bytes) -> bytes:
    return np.array(text.split(), np.uint64).astype(np.uint32).tobytes()


class ConsoleRandom:
    """The generator that fills the console's memory, named by how often it was drawn from."""

    def __init__(self, text: bytes) -> None:
        self._texts = {0: text}

    @property
    def first_text(self) -> bytes:
        """State before the first draw."""
        return self._texts[0]

    def text(self, draws: int) -> bytes:
        """Return the state after `draws` draws."""
        if draws not in self._texts:
            start = max(known for known in self._texts if known <= draws)
            generator = twister_of(self._texts[start])
            if draws - start > _MOST_DRAWS:
                raise DamagedState(
                    f"Atari: the console's generator was drawn from at most {_MOST_DRAWS:,} times; "
                    f"got {draws:,}. Pass a row from get_state."
                )
            for at in range(start, draws, _PIECE):  # so that Ctrl-C comes through
                generator.random_raw(min(_PIECE, draws - at), output=False)
            self._keep(draws, _text(generator))
        return self._texts[draws]

    def draws(self, text: bytes, since: int) -> int:
        """Return how often it was drawn from, at least `since` times, to come to `text`.

        Raises:
            IncompleteState: not within the next draws.
        """
        wanted, position = parsed(text)
        generator = twister_of(self.text(since))
        count = since
        for _ in range(_MOST_BLOCKS):
            state = generator.state["state"]
            # The words change a block at a time: within one, the position counts the draws.
            if np.array_equal(state["key"], wanted) and position >= state["pos"]:
                count += position - int(state["pos"])
                self._keep(count, text)
                return count
            # One more than is left makes the next block of words.
            step = _WORDS + 1 - int(state["pos"])
            generator.random_raw(step, output=False)
            count += step
        raise IncompleteState(
            "Atari: the console's random generator changed in an unknown way. Please report it."
        )

    def _keep(self, draws: int, text: bytes) -> None:
        if len(self._texts) > 64:
            # All but the first can be made again from it; a text is some 6 kB.
            self._texts = {0: self._texts[0]}
        self._texts[draws] = text


def _text(generator: np.random.MT19937) -> bytes:
    state = generator.state["state"]
    return " ".join(map(str, [*state["key"].tolist(), int(state["pos"])])).encode()
