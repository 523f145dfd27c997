"""Atari games (ale-py): state codec, wrappers that `make` adds, and the family's hooks.

State: the emulator's (see `atari_emulator`), sticky actions and screen included, and
the Python generator that a stochastic frameskip draws from. Mode, difficulty and frame
counters are inside the emulator's state; an env made with another mode or difficulty
refuses it all the same, since its next game would be another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import ale_py
import gymnasium as gym
from gymnasium.wrappers import TimeLimit

from plangym_ext.envs.atari.emulator import CONSOLE_FPS, Emulator
from plangym_ext.envs.atari.episodic_life import EpisodicLife, LifePenalty
from plangym_ext.envs.atari.montezuma import MontezumaInfo
from plangym_ext.envs.atari.screens import AtariScreens
from plangym_ext.errors import IncompleteState, InvalidOption
from plangym_ext.states.part import StatePart
from plangym_ext.states.randomness.rng import RNG_BYTES, GeneratorBytes


class AtariPart(StatePart):
    """Codec of `ale_py.AtariEnv`; begins a new game with a completed emulator."""

    def __init__(self, env: Any) -> None:
        self._env = env
        if env.sound_obs:
            raise IncompleteState(
                "Atari: the emulator does not save the phase of its sound waves, so states do not "
                "cover sound_obs=True. A replay from the reset is exact."
            )
        if not isinstance(env.ale, Emulator):
            _complete(env)
        self._emulator: Emulator = env.ale
        self._rng = GeneratorBytes()
        self.width = RNG_BYTES + self._emulator.width

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        offset = self._rng.capture(self._env.np_random, buffer, offset)
        return self._emulator.capture(buffer, offset, end)

    def restore(self, buffer: memoryview, offset: int) -> int:
        offset = self._rng.restore(self._env.np_random, buffer, offset)
        return self._emulator.restore(buffer, offset)

    def reseed(self, seed: int) -> None:
        """Seed the generator that repeats actions."""
        self._emulator.reseed(seed)

    def identity(self) -> dict[str, Any]:
        """Return the emulator's version, the cartridge's bytes and the env's arguments."""
        rom = Path(str(ale_py.roms.get_rom_path(self._env._game))).read_bytes()
        # An env that was built without gymnasium's registry has no spec to tell them from.
        arguments = dict(self._env._ezpickle_kwargs)
        # Pictures change nothing of the game: states fit envs that draw and envs that do not.
        arguments.pop("render_mode", None)
        console = self._emulator.first_console_text
        return {
            "ale_py": ale_py.__version__,
            "rom": hashlib.md5(rom).hexdigest(),
            "console": hashlib.md5(console).hexdigest(),
            "arguments": arguments,
        }


def wrapped(
    env: gym.Env[Any, Any],
    *,
    episodic_life: bool = False,
    life_penalty: float | None = None,
    montezuma: bool | None = None,
    preprocessing: bool = False,
) -> gym.Env[Any, Any]:
    """Return an Atari game with the wrappers that `make` adds.

    Args:
        env: as gymnasium made it.
        episodic_life: whether a lost life ends the episode; see `EpisodicLife`.
        life_penalty: what a lost life costs; see `LifePenalty`.
        montezuma: whether infos say where Montezuma's player is; see `MontezumaInfo`.
            None means that they do if this is the game.
        preprocessing: whether to show small grey screens; see `AtariScreens`. A limit of steps
            then counts those of the agent.

    Raises:
        ValueError: `montezuma` for another game, or `preprocessing` of a game that cannot be.
    """
    game: Any = env.unwrapped
    is_montezuma = getattr(game, "_game", "") == "montezuma_revenge"
    if montezuma and not is_montezuma:
        raise InvalidOption(
            f"make: montezuma=True is for ALE/MontezumaRevenge-v5; got {game._game!r}"
        )
    limit = None
    if preprocessing:
        # Frames go past whatever lies between, so a limit of steps may not.
        if isinstance(env, TimeLimit):
            limit = env._max_episode_steps
            env = env.env
        env = AtariScreens(env)
    if is_montezuma and montezuma is not False:
        env = MontezumaInfo(env)
    if life_penalty is not None:
        env = LifePenalty(env, life_penalty)
    if episodic_life:
        env = EpisodicLife(env)
    return env if limit is None else TimeLimit(env, limit)


class Game(ale_py.AtariEnv):  # type: ignore[misc]
    """An `AtariEnv` whose emulator is completed before its game is loaded.

    To load a game takes 75 ms, most of what building an env takes, and an emulator learns
    when it loads one that its frames are not to be sticky. Once built it is an `AtariEnv`.
    """

    def load_game(self) -> None:
        """Prepare the emulator, then load; the constructor calls this after its settings."""
        self.__class__ = ale_py.AtariEnv
        prepare(self)
        if not isinstance(self.ale, Emulator):
            self.load_game()


def prepare(env: Any) -> None:
    """Complete the emulator of a new env: its first reset need not load the game again."""
    if not (env.sound_obs or isinstance(env.ale, Emulator)):
        # The codec sets it again, where the emulator accepts it.
        with suppress(IncompleteState):
            _complete(env)


def frames(env: Any, seen: Callable[[], None] | None) -> tuple[float, bool]:
    """Register a function that is called after every frame; see `Family.frames`."""
    if isinstance(env.ale, Emulator):
        env.ale.on_frame = seen
        return CONSOLE_FPS, True
    skip = env._frameskip if isinstance(env._frameskip, int) else sum(env._frameskip) / 2
    return CONSOLE_FPS / skip, False


@contextmanager
def quiet_emulator() -> Iterator[None]:
    """Keep the emulator from printing its banner in every process."""
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    yield


def _complete(env: Any) -> None:
    """Put an `Emulator` in the place of the env's own, and begin a game."""
    ale = env.ale
    stickiness = ale.getFloat("repeat_action_probability")
    # The env may still be on its way to the attribute of that name.
    env.ale = Emulator(ale, env._game, continuous=env._ezpickle_kwargs["continuous"])
    try:
        env.load_game()
        env.ale.reset_game()
    except Exception:
        # The env goes on without, captured in some other way.
        env.ale = ale
        ale.setFloat("repeat_action_probability", stickiness)
        env.load_game()
        ale.reset_game()
        raise
