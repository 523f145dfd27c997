"""Lists of env ids by family, as they are installed here."""

from __future__ import annotations

import contextlib
import functools
import importlib
from typing import Any

import gymnasium as gym

from plangym_ext.states.families import family_of_entry_point, register_all_ids

#: List -> its family and what its ids begin or end with.
_LISTS: dict[str, tuple[str, str, str | tuple[str, ...]]] = {
    "CLASSIC_CONTROL": ("classic_control", "", ""),
    "BOX_2D": ("box2d", "", ""),
    "MUJOCO": ("mujoco", "", ("-v4", "-v5")),
    "ATARI": ("atari", "ALE/", ""),
}


@functools.cache
def _list(name: str) -> list[Any]:
    # The package's own errors: its renderer fails on some machines.
    with contextlib.suppress(ImportError, AttributeError, OSError):
        if name == "DM_CONTROL":
            return list(importlib.import_module("dm_control.suite").ALL_TASKS)
        if name == "RETRO":
            games = importlib.import_module("stable_retro.data").list_games()
            return [game.removesuffix("-v0") for game in games]
    if name not in _LISTS:
        return []
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
