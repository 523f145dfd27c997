"""Equality of what two vector envs return: every key, type, dtype, shape and byte."""

from __future__ import annotations

import gymnasium as gym
import numpy as np


def assert_same(got, expected, where="", *, types=True):
    """Fail at the first difference, named by its place.

    Args:
        types: whether numbers must be of the same type too, or only equal.
    """
    if types or isinstance(expected, dict | tuple | list | np.ndarray):
        assert type(got) is type(expected), f"{where}: {type(got)}, expected {type(expected)}"
    if isinstance(expected, dict):
        assert list(got) == list(expected), f"{where}: keys {list(got)}, expected {list(expected)}"
        for key in expected:
            assert_same(got[key], expected[key], f"{where}[{key!r}]", types=types)
    elif isinstance(expected, tuple | list):
        assert len(got) == len(expected), where
        for k, (mine, theirs) in enumerate(zip(got, expected, strict=True)):
            assert_same(mine, theirs, f"{where}[{k}]", types=types)
    elif isinstance(expected, np.ndarray):
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape), where
        if expected.dtype == object:
            assert_same(got.tolist(), expected.tolist(), where, types=types)
        else:
            assert got.tobytes() == expected.tobytes(), f"{where}: {got}, expected {expected}"
    else:
        assert got == expected, f"{where}: {got!r}, expected {expected!r}"


class FloatProb(gym.Wrapper):
    """FrozenLake whose `prob` is a float in resets too.

    It says 1 there and 0.33 in steps. gymnasium's vector env gives an array the type of the first
    value, so that 0.33 beside a 1 becomes 0; ours keeps it.
    """

    def reset(self, **kwargs):
        obs, info = super().reset(**kwargs)
        return obs, floats(info)


def floats(info):
    """Return an info, and those within it, with `prob` as floats."""
    found = dict(info)
    for key, value in info.items():
        if key == "prob":
            found[key] = np.float64(value) if np.ndim(value) else float(value)
        elif isinstance(value, dict):
            found[key] = floats(value)
    return found
