"""The bytes of an emulator's state: what they hold, and what they leave out.

`ALEState.serialize()` is six numbers, the length of the rest, and the rest:

    offset  content
    0       paddles (2), frame, frame of the episode, mode, difficulty; 4 bytes each
    24      length of what follows up to the last 8 bytes
    28      length and text of the cartridge's MD5, then of the word "System"
    74      CPU cycles since the frame began
    78      length and text of the console's random generator, then CPU, chips, game

The console's generator fills the memory when the console is switched on and is used
nowhere else, but its text is seven eighths of the state and most of the time that
restoring one takes. A *core* is the state with this text left out: the emulator then
keeps the generator that it has.
"""

from __future__ import annotations

import struct

_INNER_LENGTH = slice(24, 28)
_SYSTEM = slice(64, 74)
_SYSTEM_TAG = b"\x06\0\0\0System"
_CYCLES_AT = 74
_TEXT_LENGTH = slice(78, 82)
_TEXT_AT = 82
_TIA_TAG = b"\x03\0\0\0TIA"
# Of the video chip: where drawing stops and how far it is, in clocks; the number of
# lines of the last whole frame and of the present one.
_VIDEO = struct.Struct("<8x2i4x2i")
_PADDLE_LIMITS = 8  # bytes at the very end
_U32 = struct.Struct("<I")
# The emulator gives up on a frame after 25,000 instructions of two cycles or more.
_CYCLES_OF_A_PARTIAL_FRAME = 50_000


def generator_text(data: bytes) -> bytes:
    """Return the text of the environment's generator in a state that includes it: its last text."""
    # In front is the text's length, a 4-byte number whose upper bytes are zero.
    end = len(data) - _PADDLE_LIMITS
    return data[data.rfind(b"\0", 0, end) + 1 : end]


def with_generator(data: bytes, text: bytes) -> bytes:
    """Return the same state with another text of the environment's generator."""
    end = len(data) - _PADDLE_LIMITS
    start = end - len(generator_text(data))
    grown = len(text) - (end - start)
    inner = int.from_bytes(data[_INNER_LENGTH], "little") + grown
    middle = data[28 : start - 4] + _U32.pack(len(text))
    return data[:24] + _U32.pack(inner) + middle + text + data[end:]


class StateLayout:
    """Takes the serialised states of one game apart.

    Args:
        data: one of them.

    Raises:
        ValueError: it is not laid out as described above.
    """

    def __init__(self, data: bytes) -> None:
        if data[_SYSTEM] != _SYSTEM_TAG:
            raise ValueError("no 'System' where it is expected")
        self._video_at = self.split(data)[0].index(_TIA_TAG) + len(_TIA_TAG)

    def split(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the core of a serialised state, and the text of the console's generator."""
        stop = _TEXT_AT + int.from_bytes(data[_TEXT_LENGTH], "little")
        inner = int.from_bytes(data[_INNER_LENGTH], "little") - (stop - _TEXT_AT)
        head = data[:24] + _U32.pack(inner) + data[28:78] + bytes(4)
        return head + data[stop:], data[_TEXT_AT:stop]

    def join(self, core: bytes, text: bytes) -> bytes:
        """Join what `split` returned."""
        inner = int.from_bytes(core[_INNER_LENGTH], "little") + len(text)
        head = core[:24] + _U32.pack(inner) + core[28:78] + _U32.pack(len(text))
        return head + text + core[_TEXT_AT:]

    def is_partial(self, core: bytes) -> bool:
        """Return whether the emulator stopped in the middle of a frame.

        A game that computes for long (Tic-Tac-Toe's opponent, Q*bert when it starts)
        shows nothing meanwhile. That its frame goes on is not part of the state.
        """
        (cycles,) = _U32.unpack_from(core, _CYCLES_AT)
        if cycles < _CYCLES_OF_A_PARTIAL_FRAME:
            return False
        _, _, last_frame, this_frame = _VIDEO.unpack_from(core, self._video_at)
        # A finished frame becomes the last one.
        return bool(last_frame != this_frame)

    def is_full(self, core: bytes) -> bool:
        """Return whether the last frame was drawn to its end.

        Of a frame that ended early the rest of the screen shows what was drawn there
        two frames before, which is not part of the state either.
        """
        stop, drawn, _, _ = _VIDEO.unpack_from(core, self._video_at)
        return bool(drawn >= stop)


class UnknownLayout:
    """Stands in for `StateLayout` where an emulator's version writes something else."""

    def split(self, data: bytes) -> tuple[bytes, bytes]:
        """Return all of it."""
        return data, b""

    def join(self, core: bytes, text: bytes) -> bytes:
        """Return all of it."""
        return core

    def is_partial(self, core: bytes) -> bool:
        """Return False: unknown, and states within a frame are rare."""
        return False

    def is_full(self, core: bytes) -> bool:
        """Return True: unknown, and frames that end early are rare."""
        return True
