"""Console games through stable-retro: env ids such as `retro/Airstriker-Genesis-v0`, state codec.

A process can hold one emulator, so a batch runs on worker processes
(`make(..., n_workers=...)`), each with its own. stable-retro brings one free game;
cartridges of your own are imported with its `python -m stable_retro.import`.

State: the emulator's own, a megabyte for a Genesis; and the picture, if the env has a
render mode, because a restored emulator shows the frame that it drew last. Rewards and
endings compare two frames of memory, so a restore reads the restored one in.
"""

from __future__ import annotations

import gc
import hashlib
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.core.files.whole_file import contents
from plangym_ext.errors import (
    DamagedState,
    IncompleteState,
    OneEnvPerProcess,
    UnknownName,
    suggestion,
)
from plangym_ext.states.families import simulator
from plangym_ext.states.part import StatePart, get_block, put_block
from plangym_ext.states.randomness.rng import RNG_BYTES, GeneratorBytes

_PREFIX = "retro/"
# Arguments of an enumeration's type, which may be given by name.
_CHOICES = {"obs_type": "Observations", "use_restricted_actions": "Actions"}


class RetroPart(StatePart):
    """Codec of `stable_retro.RetroEnv`.

    Raises:
        IncompleteState: a script decides on rewards or endings; its variables are
            out of reach.
    """

    # Emulators leave some bytes of a state unwritten: whatever was in that memory.
    canonical = False

    def __init__(self, env: Any) -> None:
        self._env = env
        self._rng = GeneratorBytes()
        path = _scenario_path(env)
        self._scenario = contents(path)
        if '"script' in self._scenario.decode():
            raise IncompleteState(
                f"retro: {path.name} of {env.gamename} has a script, whose variables cannot be "
                "captured"
            )
        self.width = RNG_BYTES + 8 + len(env.em.get_state()) + len(self._picture())

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        offset = self._rng.capture(self._env.np_random, buffer, offset)
        offset = put_block(buffer, offset, end, self._env.em.get_state())
        return put_block(buffer, offset, end, self._picture())

    def restore(self, buffer: memoryview, offset: int) -> int:
        env = self._env
        offset = self._rng.restore(env.np_random, buffer, offset)
        data, offset = get_block(buffer, offset)
        if not env.em.set_state(data):
            raise DamagedState(f"retro: the emulator of {env.gamename} refuses this state")
        # The next reward is a difference to this frame's memory.
        env.data.update_ram()
        picture, offset = get_block(buffer, offset)
        if picture and env.img is not None:
            # A copy: an array over bytes could not be written to.
            env.img = np.frombuffer(picture, np.uint8).reshape(env.img.shape).copy()
        return offset

    def _picture(self) -> bytes:
        env = self._env
        return b"" if env.render_mode is None or env.img is None else env.img.tobytes()

    def identity(self) -> dict[str, Any]:
        """Return the emulator's version, cartridge and the rules of rewards and endings."""
        retro = simulator("stable_retro", "retro", name=_PREFIX + self._env.gamename)
        rom = Path(retro.data.get_romfile_path(self._env.gamename, _integration(self._env)))
        return {
            "stable_retro": retro.__version__,
            "rom": hashlib.blake2b(rom.read_bytes(), digest_size=16).hexdigest(),
            "scenario": hashlib.blake2b(self._scenario, digest_size=16).hexdigest(),
        }


def _integration(env: Any) -> Any:
    return env._ezpickle_args[7]


def _scenario_path(env: Any) -> Path:
    """Return the file that defines rewards and endings, found as the env's constructor does."""
    retro = simulator("stable_retro", "retro", name=_PREFIX + env.gamename)
    scenario = env._ezpickle_args[2] or "scenario"
    if scenario.endswith(".json"):
        return Path(scenario)
    return Path(retro.data.get_file_path(env.gamename, f"{scenario}.json", _integration(env)))


def retro_env(
    game: str, *, state: str | None = None, render_mode: str | None = None, **kwargs: Any
) -> Any:
    """Return a console game.

    Args:
        game: as of `stable_retro.make`.
        state: that episodes begin with, such as "Level1"; None for the game's default, "none" for
            the console switched on.
        render_mode: "rgb_array", or None for no pictures; "human" opens a window.
        kwargs: for `stable_retro.make`; `obs_type` and `use_restricted_actions` may be
            given by name, such as "ram" and "discrete".

    Raises:
        OneEnvPerProcess: this process holds an emulator already.
        UnknownName: the game has no such start.
    """
    retro = simulator("stable_retro", "retro", name=_PREFIX + game)
    if state is not None:
        kwargs["state"] = _start(retro, game, state, kwargs)
    for key, enumeration in _CHOICES.items():
        if isinstance(kwargs.get(key), str):
            kwargs[key] = getattr(retro, enumeration)[kwargs[key].upper()]
    gc.collect()  # an emulator that is not referenced any more may still be there
    try:
        return retro.make(game, render_mode=render_mode, **kwargs)
    except RuntimeError as error:
        if "multiple emulator" not in str(error):
            raise
        raise OneEnvPerProcess(
            f"{_PREFIX}{game}: this process holds an emulator already, and stable-retro allows "
            "one. Close the other env first, or let workers hold theirs: make(..., n_workers=2)."
        ) from error


def _start(retro: Any, game: str, start: str, kwargs: dict[str, Any]) -> Any:
    known = retro.data.list_states(game, kwargs.get("inttype", retro.data.Integrations.DEFAULT))
    # Of states beside the game's own, a file may be named.
    if start != "none" and start not in known and not Path(start).is_file():
        raise UnknownName(
            f"{_PREFIX}{game}: it has no start {start!r}; it has {', '.join(sorted(known))}, none"
        )
    return retro.State.NONE if start == "none" else start


def resolve(name: str) -> gym.envs.registration.EnvSpec:
    """Return the spec of `retro/GAME`.

    Raises:
        MissingExtra: stable-retro is not installed.
        UnknownName: it does not know the game, or has no cartridge.
    """
    retro = simulator("stable_retro", "retro", name=name)
    game = name.removeprefix(_PREFIX)
    known = retro.data.list_games(retro.data.Integrations.DEFAULT)
    if game not in known:
        close = suggestion(name, [_PREFIX + other for other in known])
        raise UnknownName(f"environment: stable-retro has no game {game!r}{close}")
    try:
        retro.data.get_romfile_path(game)
    except FileNotFoundError as error:
        raise UnknownName(
            f"environment: {game} needs a cartridge of your own. Import it with "
            "`python -m stable_retro.import FOLDER`."
        ) from error
    return gym.envs.registration.EnvSpec(
        id=name, entry_point=f"{__name__}:retro_env", kwargs={"game": game}
    )
