"""Lists of env ids by family, as they are installed here."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium as gym

from plangym_ext.states.families import family_of_entry_point, register_all_ids

#: List -> its family and what its ids begin or end with.
_LISTS = {
    "CLASSIC_CONTROL": ("classic_control", "", ""),
    "BOX_2D": ("box2d", "", ""),
    "MUJOCO": ("mujoco", "", ("-v4", "-v5")),
    "ATARI": ("atari", "ALE/", ""),
}


@functools.cache
def _list(name: str) -> list[Any]:
    if name == "DM_CONTROL":
        try:
            from dm_control import suite
        except (ImportError, AttributeError, OSError):  # as its rendering fails
            return []
        return list(suite.ALL_TASKS)
    if name == "RETRO":
        try:
            from stable_retro.data import list_games
        except ImportError:
            return []
        return [game.removesuffix("-v0") for game in list_games()]
    family, begin, end = _LISTS[name]
    register_all_ids()
    found = [
        spec.id
        for spec in gym.registry.values()
        if (known := family_of_entry_point(spec.entry_point)) is not None
        and known.name == family
        and spec.id.startswith(begin)
        and spec.id.endswith(end)
    ]
    return [*found, "FastLunarLander-v0"] if name == "BOX_2D" else found


def __getattr__(name: str) -> list[Any]:
    if name not in (*_LISTS, "DM_CONTROL", "RETRO"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _list(name)
