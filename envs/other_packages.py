"""Env ids of MiniGrid, BabyAI, Super Mario Bros. and highway-env, from the packages themselves.

States are snapshots of the grid's objects, or of roads, lanes and cars. nes-py's own snapshots
(9.0.1) are objects of one process: pickle, copies and the buffer protocol refuse them, no header
tells their layout, and they lack the env's counters, so that 298 of 300 steps differ after
`load_state`. So states of Mario are replays: the emulator is decided by the buttons alone, although
the specs of its games say otherwise. Missions of MiniGrid are text: in batches they are unicode
arrays, see `SpaceLayout`.
"""

from __future__ import annotations

from typing import Any

from gymnasium.envs.registration import EnvSpec

from plangym_ext.errors import MissingExtra
from plangym_ext.states.families import registered_spec, simulator
from plangym_ext.states.snapshot import SnapshotPart


def minigrid_spec(name: str) -> Any:
    """Return the spec of a MiniGrid or BabyAI id, which importing the package registers."""
    simulator("minigrid", "minigrid", name=name)
    return registered_spec(name)


def mario_spec(name: str) -> EnvSpec:
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


#: What rendering sets, and no step reads but to draw.
_DRAWING = ("enable_auto_render", "_record_video_wrapper")


def highway_part(env: Any) -> SnapshotPart:
    """Return the codec of highway-env's envs."""
    return SnapshotPart([env], [env], ignored=_DRAWING)


def highway_spec(name: str) -> Any:
    """Return the spec of a highway-env id, which importing the package registers."""
    simulator("highway_env", "highway", name=name)
    return registered_spec(name)
