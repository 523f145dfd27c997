"""Byte layout of serialised Atari emulator states: splitting and joining their parts.

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

import re
import struct

from plangym_ext.errors import DamagedState

_INNER_LENGTH = slice(24, 28)
_SYSTEM = slice(64, 74)
_SYSTEM_TAG = b"\x06\0\0\0System"
_CYCLES_AT = 74
_TEXT_LENGTH = slice(78, 82)
_TEXT_AT = 82
_TIA_TAG, _SOUND_TAG = b"\x03\0\0\0TIA", b"\x08\0\0\0TIASound"
_NAMES = re.compile(rb"[\x03-\x20]\0\0\0(System|M6502(Low|High)|M6532|TIA(Sound)?|Cartridge\w+)")
# True and False, as the emulator writes them; the bits in which they differ, and the others.
_TRUE, _FALSE = (0xFAB1FAB2).to_bytes(4, "little"), (0xBAD1BAD2).to_bytes(4, "little")
_OTHER, _SAME = 0x40604060, 0xFFFFFFFF ^ 0x40604060
_LOWEST = 5  # bit of _OTHER
# Of the video chip, in clocks: when the frame began, where drawing starts and stops, how far it is,
# and what is left of the line. And in which columns its five objects are, by which it looks into
# tables and at its screen without asking.
_CLOCKS, _PLACES = struct.Struct("<5i"), struct.Struct("<164x5i")
_CLOCKS_OF_A_LINE, _MOST_CLOCKS, _COLUMNS = 228, 228 * 80, 160
# Before a list comes its size, by which the emulator fills its memory unasked. The memory chip
# begins with one. A cartridge begins with the number of its bank of 4 KB; CartridgeE0 with a list
# of slices of 1 KB. The third list of CartridgeDPC are places in its pictures.
_MEMORY_TAG = b"\x05\0\0\0M6532"
_CARTRIDGE = re.compile(rb"Cartridge(F[468](?:SC)?|E0|DPC)")
_BANKS = {b"F8": 2, b"F6": 4, b"F4": 8, b"DPC": 2}
_SLICES, _PICTURE_BYTES = 8, 2048
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

    Raises:
        ValueError: it is not laid out as described above.
    """

    def __init__(self, data: bytes) -> None:
        if data[_SYSTEM] != _SYSTEM_TAG:
            raise ValueError("no 'System' where it is expected")
        core = self.split(data)[0]
        self._video_at = core.index(_TIA_TAG) + len(_TIA_TAG)
        self._size = len(core)
        # What is the same in all states of a game, as one number: a restore asks for no byte alone.
        kept, flags = bytearray(len(core)), bytearray(len(core))
        # How long it is, and that it has no text of the console's generator, which would be lost.
        for place in (_INNER_LENGTH, _TEXT_LENGTH):
            kept[place] = b"\xff" * 4
        for found in _NAMES.finditer(core):
            kept[found.start() : found.end()] = b"\xff" * len(found[0])
        for at in range(self._video_at, core.index(_SOUND_TAG), 4):
            if core[at : at + 4] in (_TRUE, _FALSE):
                kept[at : at + 4] = _SAME.to_bytes(4, "little")
                flags[at : at + 4] = _OTHER.to_bytes(4, "little")
        self._bounds: list[tuple[int, int]] = []
        counts = [core.index(_MEMORY_TAG) + len(_MEMORY_TAG)]
        for found in _CARTRIDGE.finditer(core, self._video_at):
            counts += self._cartridge_counts(core, found.end(), found[1])
        for at in counts:
            kept[at : at + 4] = b"\xff" * 4
        self._kept, self._flags = (int.from_bytes(mask, "little") for mask in (kept, flags))
        self._lowest = self._flags // _OTHER << _LOWEST
        self._first = int.from_bytes(core, "little")
        _, start, stop, *_ = _CLOCKS.unpack_from(core, self._video_at)
        self._drawn = stop - start

    def _cartridge_counts(self, core: bytes, at: int, kind: bytes) -> list[int]:
        """Return where the sizes of a cartridge's lists are; keep the bounds of its places."""
        if kind == b"E0":
            self._bounds = [(at + 4 * k, _SLICES) for k in range(1, 5)]
            return [at]
        self._bounds = [(at, _BANKS[kind.removesuffix(b"SC")])]
        counts = []
        at += 4
        for number in range(5 if kind == b"DPC" else int(kind.endswith(b"SC"))):
            counts.append(at)
            size = _U32.unpack_from(core, at)[0]
            if number == 2:
                self._bounds += [(at + 4 * k, _PICTURE_BYTES) for k in range(1, size + 1)]
            at += 4 + 4 * size
        return counts

    def check(self, core: bytes) -> None:
        """Refuse a core by which the emulator would read or write past its memory.

        Raises:
            DamagedState: it is one.
        """
        changed = int.from_bytes(core, "little") ^ self._first
        # Of a flag all bits in which True and False differ, or none of them.
        flags = changed & self._flags
        whole = (
            len(core) == self._size
            and not changed & self._kept
            and flags == ((flags & self._lowest) >> _LOWEST) * _OTHER
        )
        if whole:
            began, start, stop, last, left = _CLOCKS.unpack_from(core, self._video_at)
            whole = (
                0 <= start - began <= _MOST_CLOCKS
                and 0 <= stop - start <= self._drawn
                and start <= last <= stop
                and 0 <= left <= _CLOCKS_OF_A_LINE
                and all(0 <= at < _COLUMNS for at in _PLACES.unpack_from(core, self._video_at))
                and all(_U32.unpack_from(core, at)[0] < most for at, most in self._bounds)
            )
        if not whole:
            raise DamagedState(
                "Atari: a state must have the chips of this game, and draw within its screen. Pass "
                "a row from get_state."
            )

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

    def check(self, core: bytes) -> None:
        """Refuse nothing: nothing is known of it."""

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
