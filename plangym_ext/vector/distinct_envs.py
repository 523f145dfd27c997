"""Rows of a vector env must not share an env: each would move what the other shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym

from plangym_ext.errors import InvalidOption
from plangym_ext.states.codec import layers


def check_distinct(envs: Sequence[gym.Env[Any, Any]], first: int) -> None:
    """Refuse rows whose envs are, or wrap, one and the same instance.

    Args:
        envs: of the rows.
        first: number of the first row, for messages.

    Raises:
        InvalidOption: two rows share an instance.
    """
    owners: dict[int, int] = {}
    for row, env in enumerate(envs, first):
        for layer in layers(env):
            owner = owners.setdefault(id(layer), row)
            if owner != row:
                raise InvalidOption(
                    f"make_vec: the constructors of sub-envs {owner} and {row} return the same "
                    f"{type(layer).__qualname__} instance, so that each would step the other's "
                    "env. Let each constructor make an env of its own: `lambda: MyEnv()`."
                )
