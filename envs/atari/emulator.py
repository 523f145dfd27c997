"""Emulator: replaces ale-py's `ALEInterface`; states are complete, small, fast to restore.

What `cloneState` of `ale_py.ALEInterface` leaves out, and what is done about it:

* The action that a sticky frame repeats. Frames are made sticky here, by the same
  generator with the same numbers, so the held action is known. The emulator's own
  generator matters only to the few games whose reset draws from it.
* The screen, and of each of the two frame buffers what the next frame does not draw.
  A state carries its *lead*: an earlier state and the actions since. When the caller
  looks at the screen before it is sure to be drawn anew, the lead is emulated again.
* That a frame is not finished. After restoring such a state, or another one over it,
  the game goes on otherwise, and the emulator may draw outside of its frame buffer
  (ALE's pull requests 732 and 739). Such states are restored by their lead alone, and
  an unfinished frame is finished before anything is restored over it.

Named exceptions: Double Dunk's reset works through a menu, which here is done without
sticky frames, so its games begin otherwise than gymnasium's; Miniature Golf is captured
by replay, since the emulator misreads its score; so is `sound_obs`.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import Any

import ale_py
import numpy as np

from plangym_ext.envs.atari.lead import RESET, Lead
from plangym_ext.envs.atari.random_numbers import TWISTER_BYTES, ConsoleRandom, Twister, seeded_text
from plangym_ext.envs.atari.state import StateLayout, UnknownLayout, generator_text, with_generator
from plangym_ext.errors import IncompleteState
from plangym_ext.states.part import StateTooWide

_HEAD = struct.Struct("<QH")  # draws of the console's generator, length of the core
_NOOP = (0, 1.0)
_SEED_OF_TIME = -1
# Most frames that an unfinished one may take; Tic-Tac-Toe's opponent thinks for 40.
_MOST_UNFINISHED = 2000
# Games that leave moving objects where they are from one frame to the next, so that their
# leads are anchored. Found by comparing some hundred restored states of each game.
_KEEPS_OBJECTS = {"yars_revenge"}
# Pitfall II's cartridge has a clock whose fraction is rounded when it is saved. Here it
# is rounded after every frame, so that it makes no difference whether it was.
_ROUNDS = {"pitfall2"}

# Ways to alter the state that are no frames; an env takes the first two when it loads.
_WRITES = ("setMode", "setDifficulty", "setRAM", "restoreState", "restoreSystemState")
_READS = (
    "lives",
    "game_over",
    "game_truncated",
    "getRAM",
    "getRAMSize",
    "getFrameNumber",
    "getEpisodeFrameNumber",
)


#: Frames a second of the console; what gymnasium's metadata say is for a frameskip of 2.
CONSOLE_FPS = 60.0


class Emulator:
    """Takes the place of an env's `ALEInterface`.

    Args:
        ale: of the env, with its settings; a game has to be loaded anew.
        game: name of the cartridge.
        continuous: whether actions have a strength.
    """

    #: Called after every frame that `act` emulates.
    on_frame: Callable[[], None] | None = None

    def __init__(self, ale: Any, game: str, *, continuous: bool) -> None:
        self._ale = ale
        for name in _READS:
            setattr(self, name, getattr(ale, name))
        for name in _WRITES:
            setattr(self, name, functools.partial(self._alter, getattr(ale, name)))
        # A float inside the emulator, compared with a draw divided by 2**32.
        self._stickiness = ale.getFloat("repeat_action_probability")
        self._threshold = float(np.float32(self._stickiness)) * 2.0**32
        ale.setFloat("repeat_action_probability", 0.0)
        self._game = game
        self._keeps_objects, self._rounds = game in _KEEPS_OBJECTS, game in _ROUNDS
        self._lead = Lead(continuous=continuous, anchored=self._keeps_objects)
        self._path: Any = None  # of the game that need not be loaded again
        self._inserted = b""  # core of the state in which it begins
        self._layout: StateLayout | UnknownLayout = UnknownLayout()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)  # a copy that is not built yet has no emulator
        return getattr(self._ale, name)

    # What an env calls --------------------------------------------------------------

    def loadROM(self, path: Any) -> None:  # noqa: N802 - the emulator's name
        """Load a game, which seeds both generators.

        Raises:
            IncompleteState: the emulator does not restore what it saves of this game.
        """
        seed = self._ale.getInt("random_seed")
        if path != self._path or seed == _SEED_OF_TIME:
            self._insert(path)
        else:
            # Takes a hundredth of the time, which every reset with a seed would cost.
            self._finish_frame(self._inserted)
            self._load(self._inserted, 0)
            self._twister.load(seeded_text(seed))
        self._held = _NOOP
        self._stale = False
        self._lead.begin(self._look(), 0)

    def reseed(self, seed: int) -> None:
        """Reseed the generator of sticky actions."""
        self._twister.load(seeded_text(seed))

    def _insert(self, path: Any) -> None:
        """Load a game that was not loaded before."""
        self._ale.loadROM(path)
        text = self._generator_text()
        self._twister = Twister(text)
        self._layout, self._text = self._found_layout()
        self._console = ConsoleRandom(self._text)
        self._draws = 0
        # Not known before the first reset.
        self._draws_at_reset: bool | None = None
        self._core: bytes | None = None
        self._partial = self._stale = False
        self._restored_frame, self._sure = 0, [False, False]
        self._inserted = self._look()
        alike = self._text and seeded_text(self._ale.getInt("random_seed")) == text
        self._path = path if alike else None

    def reset_game(self) -> None:
        """Start a game; the emulator lets go of the held action.

        Raises:
            IncompleteState: this reset draws random numbers, and an earlier one did not.
        """
        core = self._look()
        if not self._partial:
            self._lead.begin(core, self._draws)
        self._lead.add(RESET, 1.0)
        self._lead.forget_middle()
        # Before the first reset both are as the seed made them.
        generator, before = self._twister.saved(), self._generator_text()
        self._restart(generator if self._draws_at_reset else b"")
        after = self._generator_text()
        if self._draws_at_reset is None:
            self._draws_at_reset = after != before
        if self._draws_at_reset:
            self._lead.generator = generator
            self._twister.load(after)
        elif after != before:
            raise IncompleteState(f"Atari: only some resets of {self._game} draw random numbers")
        self._held = _NOOP
        self._stale = False

    def act(self, action: Any, strength: float = 1.0) -> int:
        """Emulate one frame with an `ale_py.Action`."""
        if self._threshold:
            draw = self._twister.draw
            if draw() >= self._threshold:
                self._held = (action, strength)
            draw()  # for a second player
            action, strength = self._held
        lead = self._lead
        if len(lead.codes) >= lead.due:
            core = self._look()
            if not self._partial:  # or else the next frame asks again
                lead.renew(core, self._draws, full=self._layout.is_full(core))
        lead.add(getattr(action, "value", action), strength)
        reward = self._frame(action, strength)
        if self.on_frame is not None:
            self.on_frame()
        return reward

    def _alter(self, write: Callable[..., Any], *values: Any) -> Any:
        result = write(*values)
        # No frames lead here any more.
        self._core = None
        self._lead.begin(self._look(), self._draws)
        return result

    def getFloat(self, key: str) -> float:  # noqa: N802 - the emulator's name
        """Return a setting, as the env made it."""
        if key == "repeat_action_probability":
            return self._stickiness
        return self._ale.getFloat(key)

    def getScreen(self, *out: Any) -> Any:  # noqa: N802 - the emulator's name
        """Return the screen as indices into the palette."""
        self._freshen()
        return self._ale.getScreen(*out)

    def getScreenRGB(self, *out: Any) -> Any:  # noqa: N802 - the emulator's name
        """Return the screen in colours."""
        self._freshen()
        return self._ale.getScreenRGB(*out)

    def getScreenGrayscale(self, *out: Any) -> Any:  # noqa: N802 - the emulator's name
        """Return the screen in grey."""
        self._freshen()
        return self._ale.getScreenGrayscale(*out)

    def saveScreenPNG(self, path: Any) -> Any:  # noqa: N802 - the emulator's name
        """Write the screen to a file."""
        self._freshen()
        return self._ale.saveScreenPNG(path)

    def getAudio(self, *out: Any) -> Any:  # noqa: N802 - the emulator's name
        """Return the sound of the last frame."""
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
        generator = TWISTER_BYTES if self._draws_at_reset else 0
        own = TWISTER_BYTES if self._has_generator else 0
        return own + _HEAD.size + len(self._look()) + self._lead.width(generator)

    @property
    def _has_generator(self) -> bool:
        """Whether the environment's generator decides about anything."""
        return bool(self._threshold or self._draws_at_reset)

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        """Write the state to `buffer[offset:end]`; return the offset after it."""
        core = self._look()
        data = _HEAD.pack(self._draws, len(core)) + core + self._lead.packed()
        stop = offset + len(data) + (TWISTER_BYTES if self._has_generator else 0)
        if stop > end:
            raise StateTooWide(stop - end)
        if self._has_generator:
            offset = self._twister.capture(buffer, offset)
        buffer[offset:stop] = data
        return stop

    def restore(self, buffer: memoryview, offset: int) -> int:
        """Set the emulator to the state at `offset`; return the offset after it."""
        if self._has_generator:
            offset = self._twister.restore(buffer, offset)
        draws, size = _HEAD.unpack_from(buffer, offset)
        offset += _HEAD.size + size
        core = bytes(buffer[offset - size : offset])
        self._layout.check(core)
        offset = self._lead.unpack(buffer, offset)
        for other in (self._lead.base, self._lead.anchor):
            if other:
                self._layout.check(other)
        self._held = self._lead.last
        if self._keeps_objects or self._layout.is_partial(core):
            self._emulate_lead(core)
        else:
            if self._partial or self._core is None:
                self._finish_frame(core)
            self._load(core, draws)
            self._stale, self._sure = True, [False, False]
            self._restored_frame = self._ale.getFrameNumber()
        return offset

    def _found_layout(self) -> tuple[StateLayout | UnknownLayout, bytes]:
        """Return the layout of this emulator's states and its console's generator."""
        data = self._ale.cloneState().serialize()
        self._ale.restoreState(ale_py.ALEState(data))
        if self._ale.cloneState().serialize() != data:
            raise IncompleteState(
                f"Atari: ale-py {ale_py.__version__} restores another state of {self._game} than "
                "it saved, so its states cannot be used. A replay from the reset is exact."
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
        """Return the core of the present state."""
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
        """Complete the frame of an emulator that stopped within one."""
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

    def _generator_text(self) -> bytes:
        """Return the state of the emulator's own generator."""
        data = self._ale.cloneState(include_rng=True).serialize()
        return generator_text(data)

    def _restart(self, generator: bytes = b"") -> None:
        """Reset the game, drawing from the given generator."""
        if generator:
            data = self._ale.cloneState(include_rng=True).serialize()
            data = with_generator(data, Twister.text(generator))
            self._ale.restoreState(ale_py.ALEState(data))
        self._ale.reset_game()
        self._core = None
        if self._rounds:
            self._load(self._look(), self._draws)

    def _frame(self, action: Any, strength: float) -> int:
        """Emulate one frame; return the reward."""
        reward = self._ale.act(action, strength)
        self._core = None
        if self._rounds:
            self._load(self._look(), self._draws)
        return reward

    def _emulate_lead(self, core: bytes) -> None:
        """Come to the state `core` by emulating its lead."""
        lead = self._lead
        self._finish_frame(lead.base)
        self._load(lead.base, lead.draws)
        for k, (code, strength) in enumerate(lead.frames()):
            if lead.anchor and k == lead.anchor_at:
                self._load(lead.anchor, lead.draws)
            if code == RESET:
                self._restart(lead.generator)
            else:
                self._frame(code, strength)
        if lead.anchor and lead.anchor_at == len(lead.codes):
            self._load(lead.anchor, lead.draws)
        if self._look() != core:
            raise IncompleteState(
                f"Atari: emulating the last {len(lead.codes)} frames again gave another state "
                "than the first time. Please report the game."
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
        if not drawn:
            self._emulate_lead(core)
            return
        # Frames are drawn into two buffers in turn.
        self._sure[frames & 1] = True
        self._stale = not all(self._sure)
