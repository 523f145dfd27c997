"""Atari games of the Arcade Learning Environment.

State: the emulator's own serialised state with its random generator (without it
sticky actions are drawn anew after a restore), and the Python generator that a
stochastic frameskip draws from. Mode, difficulty and frame counters are inside the
emulator's state. The emulator writes its generator as decimal text, so states of
one game differ in length by up to some hundred bytes.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import ale_py

from plangym_ext.core.part import StatePart, get_block, put_block
from plangym_ext.core.rng import RNG_BYTES, GeneratorBytes

# The text of 624 generator words is at most 11 characters a word, 6,864 in all; a
# fresh one averages 10.7. A tenth on top covers both that and the emulator's part.
_SLACK = 1.1


class AtariPart(StatePart):
    """Codec of `ale_py.AtariEnv`."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._rng = GeneratorBytes()
        self.width = RNG_BYTES + 4 + int(len(self._serialise()) * _SLACK)

    def _serialise(self) -> bytes:
        return self._env.ale.cloneState(include_rng=True).serialize()

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        """Write both generators and the emulator's state."""
        offset = self._rng.capture(self._env.np_random, buffer, offset)
        return put_block(buffer, offset, end, self._serialise())

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Restore the emulator. Its screen is that of the last frame it emulated."""
        offset = self._rng.restore(self._env.np_random, buffer, offset)
        data, offset = get_block(buffer, offset)
        self._env.ale.restoreState(ale_py.ALEState(data))
        return offset

    def identity(self) -> dict[str, Any]:
        """Emulator version and the cartridge's bytes."""
        rom = Path(str(ale_py.roms.get_rom_path(self._env._game))).read_bytes()
        return {"ale_py": ale_py.__version__, "rom": hashlib.md5(rom).hexdigest()}
