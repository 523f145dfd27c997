"""Atari games of the Arcade Learning Environment.

State: the emulator's own serialised state with its random generator (without it
sticky actions are drawn anew after a restore), the action that a sticky frame would
repeat, and the Python generator that a stochastic frameskip draws from. Mode,
difficulty and frame counters are inside the emulator's state. The emulator writes
its generator as decimal text, so states of one game differ in length by up to some
hundred bytes.
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path
from typing import Any

import ale_py
import numpy as np

from plangym_ext.core.part import StatePart, get_block, put_block
from plangym_ext.core.rng import RNG_BYTES, GeneratorBytes

_HELD = struct.Struct("<id")  # held action, its paddle strength
# The text of 624 generator words is at most 11 characters a word, 6,864 in all; a
# fresh one averages 10.7. A tenth on top covers both that and the emulator's part.
_SLACK = 1.1

_NUM_WORDS = 624
_TAIL = 8  # bytes of the emulator's state behind the generator's text

#: An action and its paddle strength, as the emulator is given them.
Held = tuple[int, float]


class StickyEmulator:
    """An `ALEInterface` whose held action is known and can be set.

    With sticky actions a frame repeats the action of the frame before with some
    probability. The emulator keeps that action beside its state: neither
    `cloneState` nor `restoreState` covers it, and nothing reads or sets it. So it is
    followed here, by drawing ahead from a copy of the emulator's generator: each
    frame draws two numbers, the first of which decides about player one.
    """

    def __init__(self, ale: Any) -> None:
        self._ale = ale
        # A float inside the emulator, compared with a double.
        self._stickiness = float(np.float32(ale.getFloat("repeat_action_probability")))
        #: What the next sticky frame has to repeat.
        self.held: Held = (0, 1.0)
        # What it would repeat. Differs from `held` only after a restore into a state
        # whose next frame is not sticky, where it makes no difference.
        self._actual: Held = (0, 1.0)
        self._text = b""
        self._position = _NUM_WORDS + 1  # not known

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ale, name)

    def act(self, action: Any, strength: float = 1.0) -> int:
        """Emulate one frame with an `ale_py.Action`."""
        wanted = (action.value, float(strength))
        # A frame that repeats this very action need not be told from one that obeys.
        if not self._stickiness or (
            (wanted != self.held or wanted != self._actual) and not self._sticks()
        ):
            self.held = self._actual = wanted
        self._position += 2
        return self._ale.act(action, strength)

    def reset_game(self) -> None:
        """Start a game; the emulator lets go of the held action."""
        self._ale.reset_game()
        self.held = self._actual = (0, 1.0)

    def loadROM(self, path: Any) -> None:  # noqa: N802 - the emulator's name
        """Load a game, which seeds the generator."""
        self._ale.loadROM(path)
        self.held = self._actual = (0, 1.0)
        self._position = _NUM_WORDS + 1

    def restore(self, data: bytes, held: Held) -> None:
        """Bring the emulator to a serialised state and its held action."""
        text, position = _generator_text(data)
        if self._stickiness and held != self._actual and _draw(text, position) < self._stickiness:
            action = ale_py.Action(held[0])
            while self._actual != held:
                # Some frames of no consequence, until one obeys.
                self.act(action, held[1])
        self._ale.restoreState(ale_py.ALEState(data))
        self.held, self._text, self._position = held, text, position

    def _sticks(self) -> bool:
        if self._position > _NUM_WORDS:
            data = self._ale.cloneState(include_rng=True).serialize()
            self._text, self._position = _generator_text(data)
        return _draw(self._text, self._position) < self._stickiness


def _generator_text(data: bytes) -> tuple[bytes, int]:
    """The generator's 624 words and position, as text, and that position."""
    end = len(data) - _TAIL
    # In front is the text's length, a 4-byte number whose upper bytes are zero.
    text = data[data.rfind(b"\0", 0, end) + 1 : end]
    return text, int(text[text.rfind(b" ") + 1 :])


def _draw(text: bytes, position: int) -> float:
    """The number in [0, 1) that the generator gives at `position`."""
    if position == _NUM_WORDS:
        # All words are used up; the next number comes from 624 new ones.
        key = np.array(text.split()[:_NUM_WORDS], np.uint64).astype(np.uint32)
        twister = np.random.MT19937()
        twister.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": _NUM_WORDS}}
        return int(twister.random_raw()) / 2**32
    if position < _NUM_WORDS // 2:
        word = int(text.split(b" ", position + 1)[position])
    else:
        word = int(text.rsplit(b" ", _NUM_WORDS + 1 - position)[1])
    # Tempering of MT19937 (Matsumoto & Nishimura 1998).
    word ^= word >> 11
    word ^= word << 7 & 0x9D2C5680
    word ^= word << 15 & 0xEFC60000
    word ^= word >> 18
    return word / 2**32


class AtariPart(StatePart):
    """Codec of `ale_py.AtariEnv`."""

    def __init__(self, env: Any) -> None:
        self._env = env
        if not isinstance(env.ale, StickyEmulator):
            env.ale = StickyEmulator(env.ale)
        self._emulator: StickyEmulator = env.ale
        self._rng = GeneratorBytes()
        self.width = RNG_BYTES + _HELD.size + 4 + int(len(self._serialise()) * _SLACK)

    def _serialise(self) -> bytes:
        return self._emulator.cloneState(include_rng=True).serialize()

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        """Write both generators, the held action and the emulator's state."""
        offset = self._rng.capture(self._env.np_random, buffer, offset)
        _HELD.pack_into(buffer, offset, *self._emulator.held)
        return put_block(buffer, offset + _HELD.size, end, self._serialise())

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Restore the emulator. Its screen is that of the last frame it emulated."""
        offset = self._rng.restore(self._env.np_random, buffer, offset)
        held = _HELD.unpack_from(buffer, offset)
        data, offset = get_block(buffer, offset + _HELD.size)
        self._emulator.restore(data, (held[0], held[1]))
        return offset

    def identity(self) -> dict[str, Any]:
        """Emulator version, the cartridge's bytes and the env's arguments."""
        rom = Path(str(ale_py.roms.get_rom_path(self._env._game))).read_bytes()
        # An env that was built without gymnasium's registry has no spec to tell them from.
        arguments = dict(self._env._ezpickle_kwargs)
        arguments.pop("render_mode", None)
        return {
            "ale_py": ale_py.__version__,
            "rom": hashlib.md5(rom).hexdigest(),
            "arguments": arguments,
        }
