"""What no state holds by itself, and steps may depend on all the same."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.states import plain
from plangym_ext.states.codec import layers
from plangym_ext.states.layer_attributes import named_as_drawing


def left_out(env: gym.Env[Any, Any]) -> dict[str, bytes]:
    """Return what would have to come back with a state where steps change it, by what it is.

    A way of capturing states may bring it back nevertheless: an env's own `get_state`, or
    playing the episode again.
    """
    found = dict(_generators())
    for layer in layers(env):
        name = type(layer).__qualname__
        actions = vars(layer).get("action_space")
        if isinstance(actions, gym.spaces.Discrete):
            found[f"{name}.action_space, which no state holds,"] = repr(actions).encode()
        for attribute, shown in named_as_drawing(layer).items():
            # Plain data only: what a picture is drawn with has none that counts.
            with contextlib.suppress(plain.NotPlain):
                key = f"what {name}.{attribute} holds, which by its name is no part of a state,"
                found[key] = plain.encode(_plain_fields(shown))
    return found


def _generators() -> Iterator[tuple[str, bytes]]:
    tail = "which no state holds (draw from self.np_random),"
    yield f"the generator of `random`, {tail}", repr(random.getstate()).encode()
    numbers: Any = np.random.get_state()  # noqa: NPY002 - of the process, on purpose
    yield (
        f"the generator of `numpy.random`, {tail}",
        numbers[1].tobytes() + repr(numbers[2:]).encode(),
    )


def _plain_fields(shown: Any) -> dict[str, bytes]:
    fields = {}
    for name, value in vars(shown).items():
        with contextlib.suppress(plain.NotPlain):
            fields[name] = plain.encode(value)
    return fields
