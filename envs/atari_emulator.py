"""An Atari emulator whose states are complete, small and quick to restore.

What `cloneState` of `ale_py.ALEInterface` leaves out, and what is done about it:

* The action that a sticky frame repeats. Frames are made sticky here, by the same
  generator with the same numbers, so the held action is known and the emulator's own
  generator does not matter any more.
* The screen, and of each of the two frame buffers what the next frame does not draw.
  A state carries its *lead*: an earlier state and the actions since. When somebody
  looks at the screen before it is sure to be drawn anew, the lead is emulated again.
* That a frame is not finished. Restoring such a state (or another one over it) draws
  outside of the frame buffer. Such states are restored by their lead alone, and an
  unfinished frame is finished before anything is restored over it.
"""

from __future__ import annotations

import struct
from typing import Any

import ale_py
import numpy as np

from plangym_ext.core.part import StateTooWide
from plangym_ext.envs.atari_random import TWISTER_BYTES, ConsoleRandom, Twister
from plangym_ext.envs.atari_state import StateLayout, UnknownLayout
from plangym_ext.errors import IncompleteState

# Draws of the console's generator now and at the start of the lead; lengths of core,
# base, middle; actions before the middle, and all.
_HEAD = struct.Struct("<QQHHHHH")
_NOOP = (0, 1.0)
_RESET = 255
# A lead starts anew after so many frames, from a state that is by then so old: two
# frames to draw both buffers, and one for objects that the game does not set again.
_WINDOW, _SETTLED = 32, 3
# Frames after which it does so even if they all ended early (Journey Escape).
_PATIENCE = 64
# Room for the actions of a lead whose renewal is put off by unfinished frames.
_LEAD_ROOM = 128
# Most frames that an unfinished one may take; Tic-Tac-Toe's opponent thinks for 40.
_MOST_UNFINISHED = 2000
# Games that leave moving objects where they are from one frame to the next: the first
# frame after a restore shows those of the frame emulated before it. Found by comparing
# 120 restored states of each game.
_KEEPS_OBJECTS = {"yars_revenge"}
# Pitfall II's cartridge has a clock whose fraction is rounded when it is saved. Here it
# is rounded after every frame, so that it makes no difference whether it was.
_ROUNDS = {"pitfall2"}

_READS = (
    "lives",
    "game_over",
    "game_truncated",
    "getRAM",
    "getRAMSize",
    "getFrameNumber",
    "getEpisodeFrameNumber",
)


class Emulator:
    """Takes the place of an env's `ALEInterface`.

    Args:
        ale: of the env, with its settings; a game has to be loaded anew.
        game: name of the cartridge.
        continuous: whether actions have a strength.
    """

    def __init__(self, ale: Any, game: str, *, continuous: bool) -> None:
        self._ale = ale
        for name in _READS:
            setattr(self, name, getattr(ale, name))
        # A float inside the emulator, compared with a draw divided by 2**32.
        self._stickiness = ale.getFloat("repeat_action_probability")
        self._threshold = float(np.float32(self._stickiness)) * 2.0**32
        ale.setFloat("repeat_action_probability", 0.0)
        self._game = game
        self._keeps_objects, self._rounds = game in _KEEPS_OBJECTS, game in _ROUNDS
        self._codes = bytearray()
        self._strengths: list[float] | None = [] if continuous else None
        self._layout: StateLayout | UnknownLayout = UnknownLayout()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ale, name)

    # What an env calls --------------------------------------------------------------

    def loadROM(self, path: Any) -> None:  # noqa: N802 - the emulator's name
        """Load a game, which seeds both generators.

        Raises:
            IncompleteState: the emulator does not restore what it saves of this game.
        """
        self._ale.loadROM(path)
        data = self._ale.cloneState(include_rng=True).serialize()
        end = len(data) - 8
        # In front of the text is its length, a 4-byte number whose upper bytes are zero.
        text = data[data.rfind(b"\0", 0, end) + 1 : end]
        self._twister = Twister(text) if self._threshold else None
        self._held: tuple[Any, float] = _NOOP
        self._layout, self._text = self._found_layout()
        self._console = ConsoleRandom(self._text)
        self._draws = 0
        self._core: bytes | None = None
        self._partial = self._stale = False
        self._restored_frame, self._sure = 0, [False, False]
        self._begin_lead(self._look(), 0)

    def reset_game(self) -> None:
        """Start a game; the emulator lets go of the held action."""
        core = self._look()
        if not self._partial:
            self._begin_lead(core, self._draws)
        self._note(_RESET, 1.0)
        self._middle, self._middle_at = b"", 0
        self._schedule()
        self._restart()
        self._held = _NOOP
        self._stale = False

    def act(self, action: Any, strength: float = 1.0) -> int:
        """Emulate one frame with an `ale_py.Action`."""
        if self._twister is not None:
            draw = self._twister.draw
            if draw() >= self._threshold:
                self._held = (action, strength)
            draw()  # for a second player
            action, strength = self._held
        if len(self._codes) >= self._due:
            self._renew_lead()
        self._note(getattr(action, "value", action), strength)
        return self._frame(action, strength)

    def getFloat(self, key: str) -> float:  # noqa: N802 - the emulator's name
        """A setting, as the env made it."""
        if key == "repeat_action_probability":
            return self._stickiness
        return self._ale.getFloat(key)

    def getScreen(self, *out: Any) -> Any:  # noqa: N802 - the emulator's name
        """The screen as indices into the palette."""
        self._freshen()
        return self._ale.getScreen(*out)

    def getScreenRGB(self, *out: Any) -> Any:  # noqa: N802 - the emulator's name
        """The screen in colours."""
        self._freshen()
        return self._ale.getScreenRGB(*out)

    def getScreenGrayscale(self, *out: Any) -> Any:  # noqa: N802 - the emulator's name
        """The screen in grey."""
        self._freshen()
        return self._ale.getScreenGrayscale(*out)

    def saveScreenPNG(self, path: Any) -> Any:  # noqa: N802 - the emulator's name
        """Write the screen to a file."""
        self._freshen()
        return self._ale.saveScreenPNG(path)

    def getAudio(self, *out: Any) -> Any:  # noqa: N802 - the emulator's name
        """The sound of the last frame."""
        self._freshen()
        return self._ale.getAudio(*out)

    # States -------------------------------------------------------------------------

    @property
    def first_console_text(self) -> bytes:
        """State of the console's generator when the game is loaded."""
        return self._console.first_text

    @property
    def width(self) -> int:
        """Bytes that a state takes, but for unusually long leads."""
        room = 3 * len(self._look()) + _LEAD_ROOM * (1 if self._strengths is None else 5)
        return (TWISTER_BYTES if self._twister else 0) + _HEAD.size + room

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        """Write the state to `buffer[offset:end]`; returns the offset behind it."""
        core = self._look()
        base, middle, codes = self._base, self._middle, self._codes
        sizes = (len(core), len(base), len(middle), self._middle_at, len(codes))
        data = _HEAD.pack(self._draws, self._base_draws, *sizes) + core + base + middle + codes
        if self._strengths is not None:
            data += struct.pack(f"<{len(codes)}f", *self._strengths)
        stop = offset + len(data) + (TWISTER_BYTES if self._twister else 0)
        if stop > end:
            raise StateTooWide(stop - end)
        if self._twister is not None:
            offset = self._twister.capture(buffer, offset)
        buffer[offset:stop] = data
        return stop

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Bring the emulator to the state at `offset`; returns the offset behind it."""
        if self._twister is not None:
            offset = self._twister.restore(buffer, offset)
        draws, base_draws, *sizes, middle_at, count = _HEAD.unpack_from(buffer, offset)
        offset += _HEAD.size
        parts = []
        for size in (*sizes, count):
            parts.append(bytes(buffer[offset : offset + size]))
            offset += size
        core, self._base, self._middle, codes = parts
        self._codes[:] = codes
        if self._strengths is not None:
            self._strengths[:] = struct.unpack_from(f"<{count}f", buffer, offset)
            offset += 4 * count
        self._base_draws, self._middle_at = base_draws, middle_at
        self._schedule()
        if self._layout.is_partial(core):
            self._emulate_lead(core)
        else:
            self._finish_frame(core)
            self._load(core, draws)
            self._stale, self._sure = True, [False, False]
            self._restored_frame = self._ale.getFrameNumber()
        last = codes[-1] if codes else _RESET
        strength = self._strengths[-1] if self._strengths else 1.0
        self._held = _NOOP if last == _RESET else (last, strength)
        return offset

    def _found_layout(self) -> tuple[StateLayout | UnknownLayout, bytes]:
        """Layout of this emulator's states and its console's generator."""
        data = self._ale.cloneState().serialize()
        self._ale.restoreState(ale_py.ALEState(data))
        if self._ale.cloneState().serialize() != data:
            raise IncompleteState(
                f"Atari: ale-py {ale_py.__version__} restores {self._game} otherwise than it "
                "saved it, so its states are of no use. A replay from the reset is exact."
            )
        try:
            layout = StateLayout(data)
            core, text = layout.split(data)
            # Restoring a core must leave the console's generator as it is.
            self._ale.restoreState(ale_py.ALEState(core))
            if layout.split(self._ale.cloneState().serialize()) == (core, text):
                return layout, text
        except ValueError:
            pass
        self._ale.restoreState(ale_py.ALEState(data))
        return UnknownLayout(), b""

    def _look(self) -> bytes:
        """Core of the present state."""
        if self._core is None:
            self._core, text = self._layout.split(self._ale.cloneState().serialize())
            self._partial = self._layout.is_partial(self._core)
            if text != self._text:
                self._draws = self._console.draws(text, since=self._draws)
                self._text = text
        return self._core

    def _load(self, core: bytes, draws: int) -> None:
        """Restore all that the emulator itself restores."""
        self._look()  # for the console's generator as it is
        data = core
        if draws != self._draws:
            self._draws, self._text = draws, self._console.text(draws)
            data = self._layout.join(core, self._text)
        self._ale.restoreState(ale_py.ALEState(data))
        self._core = core

    def _finish_frame(self, core: bytes) -> None:
        """Bring an emulator that is within a frame to its end.

        Args:
            core: of the state that is to be restored next.
        """
        self._look()
        if self._partial and self._layout.is_full(core):
            # A frame that was drawn to its end: the emulator notices that it is late
            # to finish, and draws nothing any more.
            self._load(core, self._draws)
            self._frame(*_NOOP)
            self._look()
        for k in range(_MOST_UNFINISHED):
            if not self._partial:
                return
            if k % 100 == 0:
                self._restart()  # a game that is over does not go on otherwise
            self._frame(*_NOOP)
            self._look()
        raise IncompleteState(f"Atari: a frame took more than {_MOST_UNFINISHED} times its time")

    def _restart(self) -> None:
        self._ale.reset_game()
        self._core = None
        if self._rounds:
            self._load(self._look(), self._draws)

    def _frame(self, action: Any, strength: float) -> int:
        """Emulate one frame; returns the reward."""
        reward = self._ale.act(action, strength)
        self._core = None
        if self._rounds:
            self._load(self._look(), self._draws)
        return reward

    # The lead -----------------------------------------------------------------------

    def _begin_lead(self, core: bytes, draws: int) -> None:
        self._base, self._base_draws = core, draws
        self._codes.clear()
        if self._strengths is not None:
            self._strengths.clear()
        self._middle, self._middle_at = b"", 0
        self._schedule()

    def _schedule(self) -> None:
        """Say at which length the lead is to be renewed."""
        self._due = self._middle_at + _SETTLED if self._middle else _WINDOW

    def _note(self, code: int, strength: float) -> None:
        """Remember what is emulated next."""
        self._codes.append(code)
        if self._strengths is not None:
            self._strengths.append(strength)

    def _renew_lead(self) -> None:
        """Let the lead start at a later state, once that one is old enough.

        When this happens depends on the frames alone, not on when states are captured:
        the same frames give the same bytes.
        """
        core = self._look()
        if self._partial:
            return  # the next frame asks again
        if not self._middle:
            self._middle, self._middle_at = core, len(self._codes)
        elif self._layout.is_full(core) or len(self._codes) >= _PATIENCE:
            self._base, self._base_draws = self._middle, self._draws
            del self._codes[: self._middle_at]
            if self._strengths is not None:
                del self._strengths[: self._middle_at]
            self._middle, self._middle_at = b"", 0
        self._schedule()

    def _emulate_lead(self, core: bytes) -> None:
        """Come to the state `core` by emulating its lead."""
        self._finish_frame(self._base)
        self._load(self._base, self._base_draws)
        for k, code in enumerate(self._codes):
            if code == _RESET:
                self._restart()
            else:
                self._frame(code, 1.0 if self._strengths is None else self._strengths[k])
        if self._look() != core:
            raise IncompleteState(
                f"Atari: the last {len(self._codes)} frames, emulated again, did not lead to the "
                "state that they led to at first. Please report the game."
            )
        self._stale = False

    def _freshen(self) -> None:
        """Make sure that the screen is that of the present state."""
        if not self._stale:
            return
        frames = self._ale.getFrameNumber() - self._restored_frame
        if frames and self._sure[frames & 1]:
            return
        core = self._look()
        drawn = frames > 0 and not self._partial and self._layout.is_full(core)
        if not drawn or (frames == 1 and self._keeps_objects):
            self._emulate_lead(core)
            return
        # Frames are drawn into two buffers in turn.
        self._sure[frames & 1] = True
        self._stale = not all(self._sure)
