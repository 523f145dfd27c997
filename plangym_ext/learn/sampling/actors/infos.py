"""Extraction of one info field from a vector env's batched infos."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.errors import InvalidObservation

#: The info of an env that tells the end of an episode from that of a game.
GAME_OVER = "game_over"


def info_column(infos: Any, name: str) -> tuple[Any, Any]:
    """Return the values `[n]` of an info, and `[n]` bool which are known.

    Args:
        infos: as gymnasium's vector envs give them.
        name: "a.b" is b of the dict a.

    Returns:
        None for both if no env has given it. Numbers that gymnasium keeps as objects, such as
        `np.bool_`, come as numbers.
    """
    *path, key = name.split(".")
    for part in path:
        infos = infos.get(part, {})
    values = infos.get(key)
    if values is None:
        return None, None
    known = infos[f"_{key}"]
    return _numbers(values, known) if values.dtype.hasobject else values, known


def _numbers(values: Any, known: Any) -> Any:
    """Return objects `[n]` as numbers if all that are known are some."""
    told = values[known]
    if not len(told) or not all(isinstance(one, bool | int | float | np.generic) for one in told):
        return values
    listed = np.array(told.tolist())
    if listed.dtype.kind not in "biuf":
        return values
    found = np.zeros(len(values), listed.dtype)
    found[known] = listed
    return found


def missing_info(name: str, infos: Any, where: str) -> InvalidObservation:
    """Return the error for an info that an option names and an env has not given."""
    there = sorted(key for key in infos if not key.startswith("_"))
    return InvalidObservation(
        f"sampler: {where} names the info {name!r}, which the envs did not give; they gave "
        f"{there}. Correct the name, or leave it out."
    )


def check_numbers(name: str, values: Any, where: str) -> None:
    """Refuse values `[n]` of an info for a logged mean if they are not numbers.

    Raises:
        InvalidObservation: they are not.
    """
    if values.dtype.kind not in "biuf":
        raise InvalidObservation(
            f"sampler: {where} names the info {name!r}, which must be a number; got "
            f"{values[0]!r}. Leave it out, or have the env give a number."
        )
