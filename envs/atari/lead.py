"""Lead: short frame history in an Atari state, from which hidden emulator state is rebuilt.

A lead starts anew every 32 frames or so, from a state that is by then some frames old.
When that happens depends on the frames alone, not on when states are captured: the same
frames give the same bytes.

An *anchored* lead holds one state more, from some frames after its start. A game may
leave moving objects where they are from one frame to the next; the emulator does not
save these places but those of the registers after them. In the first frames from the
start objects settle, touching what they should not; the anchor makes good for that.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from plangym_ext.errors import DamagedState

#: Stands for a reset among the actions of a lead.
RESET = 255
# 18 of each of two players, as the emulator numbers them.
_CODES = frozenset((*range(36), RESET))
# Draws of the console's generator at the start; lengths of base, middle, anchor and
# generator; actions before the middle and the anchor, and all.
_HEAD = struct.Struct("<QHHHHHHH")
# Two frames to draw both buffers, and one for objects that the game does not set again.
_WINDOW, _SETTLED = 32, 3
# Anchored leads are emulated with every restore, so they are short.
_ANCHORED_WINDOW = 4
# Frames after which a lead starts anew even if they all ended early (Journey Escape).
_PATIENCE = 64
# Actions that there is room for: unfinished frames put off the new start.
_ROOM = 128


class Lead:
    """The lead of an emulator's present state.

    Args:
        continuous: whether actions have a strength.
        anchored: whether to keep an anchor.

    Attributes:
        base: core of the state that it starts from.
        draws: how often the console's generator had been drawn from there.
        generator: state of the environment's generator before the last reset among the
            actions, if that reset draws from it; else empty.
        anchor: core of the state after the first `anchor_at` actions, or empty.
        due: length of `codes` at which to ask for a renewal.
        codes: the actions, as the emulator numbers them, or `RESET`.
    """

    def __init__(self, *, continuous: bool, anchored: bool = False) -> None:
        self._anchored = anchored
        self._window = _ANCHORED_WINDOW if anchored else _WINDOW
        self.codes = bytearray()
        self._strengths: list[float] | None = [] if continuous else None
        self.begin(b"", 0)

    def begin(self, core: bytes, draws: int) -> None:
        """Start from this state."""
        self.base, self.draws, self.generator = core, draws, b""
        self.anchor, self.anchor_at = b"", 0
        self.codes.clear()
        if self._strengths is not None:
            self._strengths.clear()
        self.forget_middle()

    def forget_middle(self) -> None:
        """Drop the state from which the lead was to start again."""
        self._middle, self._middle_at = b"", 0
        self._schedule()

    def add(self, code: int, strength: float) -> None:
        """Append the next emulated frame."""
        self.codes.append(code)
        if self._strengths is not None:
            self._strengths.append(strength)

    def renew(self, core: bytes, draws: int, *, full: bool) -> None:
        """Start a new lead, or remember the present state for a later start."""
        if not self._middle:
            self._middle, self._middle_at = core, len(self.codes)
        elif full or len(self.codes) >= _PATIENCE:
            self.base, self.draws = self._middle, draws
            del self.codes[: self._middle_at]
            if self._strengths is not None:
                del self._strengths[: self._middle_at]
            self.generator = b""  # a reset forgets the middle, so none came after it
            if self._anchored:
                self.anchor, self.anchor_at = core, len(self.codes)
            self.forget_middle()
            return
        self._schedule()

    def _schedule(self) -> None:
        self.due = self._middle_at + _SETTLED if self._middle else self._window

    def frames(self) -> Iterator[tuple[int, float]]:
        """Yield actions and strengths, oldest first."""
        for k, code in enumerate(self.codes):
            yield code, 1.0 if self._strengths is None else self._strengths[k]

    @property
    def last(self) -> tuple[int, float]:
        """The last action, which a sticky frame repeats; the no-op after a reset."""
        if not self.codes or self.codes[-1] == RESET:
            return 0, 1.0
        return self.codes[-1], self._strengths[-1] if self._strengths else 1.0

    def width(self, generator_bytes: int) -> int:
        """Return bytes that `packed` takes, but for unusually long leads.

        Args:
            generator_bytes: of `generator`, or 0 if resets do not draw.
        """
        action = 1 if self._strengths is None else 5
        cores = 3 if self._anchored else 2
        return _HEAD.size + cores * len(self.base) + generator_bytes + _ROOM * action

    def packed(self) -> bytes:
        """Return the lead as bytes."""
        parts = (self.base, self._middle, self.anchor, self.generator)
        at = (self._middle_at, self.anchor_at, len(self.codes))
        data = _HEAD.pack(self.draws, *map(len, parts), *at) + b"".join(parts) + self.codes
        if self._strengths is not None:
            data += struct.pack(f"<{len(self.codes)}f", *self._strengths)
        return data

    def unpack(self, buffer: memoryview, offset: int) -> int:
        """Become the lead at `offset`; return the offset after it."""
        draws, *sizes, middle_at, anchor_at, count = _HEAD.unpack_from(buffer, offset)
        offset += _HEAD.size
        parts = []
        for size in (*sizes, count):
            parts.append(bytes(buffer[offset : offset + size]))
            offset += size
        codes = parts[-1]
        # Before anything is set. The emulator asks no action whether there is one.
        known = all(code in _CODES for code in codes)
        if offset > len(buffer) or not known or max(middle_at, anchor_at) > count:
            raise DamagedState(
                f"Atari: a state has {count} actions since an earlier state; some are unknown to "
                "the emulator, or lie beyond the row's end. Pass a row from get_state."
            )
        self.draws, self._middle_at, self.anchor_at = draws, middle_at, anchor_at
        self.base, self._middle, self.anchor, self.generator, _ = parts
        self.codes[:] = codes
        if self._strengths is not None:
            self._strengths[:] = struct.unpack_from(f"<{count}f", buffer, offset)
            offset += 4 * count
        self._schedule()
        return offset
