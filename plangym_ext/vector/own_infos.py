"""Copies of an env's infos that later steps of the env do not change."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.errors import InvalidObservation


def own_info(info: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of an info that later writes of any env do not change.

    Envs give away a dict or an array that they fill anew in each step, and sub-envs may share it.
    Values that cannot be written to cost nothing; objects of other classes are the same ones.

    Raises:
        InvalidObservation: it is no dict.
    """
    if not isinstance(info, dict):
        raise InvalidObservation(f"info: expected a dict; got {info!r}. Correct the env.")
    return {key: _own(value) for key, value in info.items()}


def _own(value: Any) -> Any:
    # By exact type: a class of the env's own may mean something else by its copy.
    kind = type(value)
    if kind is np.ndarray:
        return value.copy()
    if kind is dict:
        return own_info(value)
    if kind is list or kind is tuple:
        return kind(map(_own, value))
    return value
