"""Super Mario Bros. (gym-super-mario-bros 9 on nes-py 9): env ids.

nes-py's own snapshots are objects of one process, so states are replays: the emulator is
decided by the buttons alone, although the specs of its games say otherwise.
"""

from __future__ import annotations

from gymnasium.envs.registration import EnvSpec

from plangym_ext.errors import MissingExtra
from plangym_ext.states.families import registered_spec


def resolve(name: str) -> EnvSpec:
    """Return the spec of one of gym-super-mario-bros' ids.

    Raises:
        MissingExtra: the package is not installed.
        UnknownName: it has no such game.
    """
    try:
        import gym_super_mario_bros  # noqa: F401 - registers its ids
    except ImportError as error:
        raise MissingExtra(
            f"{name}: needs gym-super-mario-bros 9.1 and nes-py 9, which are not installed here "
            f"({error}). Install them: pip install 'gym-super-mario-bros>=9.1'. With a cartridge "
            "of your own, 'retro/SuperMarioBros-Nes-v0' plays the game through stable-retro."
        ) from error
    return registered_spec(name)
