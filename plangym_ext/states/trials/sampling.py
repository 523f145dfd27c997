"""Random test actions for trials, and the infos of steps and resets."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from plangym_ext.arrays.nested import reward_of
from plangym_ext.errors import WrongKind
from plangym_ext.states.trials.sandbox import OutsideReached

#: Field of infos that says which actions may be played, in any form.
_MASK = "action_mask"


def sampled(space: spaces.Space[Any], info: Any) -> Any:
    """Return a random action, among the legal ones if the info has a mask.

    Args:
        space: of the actions; its generator is advanced.
        info: of the last step or reset; with "action_mask" it says what may be played, of a
            MultiDiscrete space part by part: as a tuple, or one after the other.
    """
    mask: Any = info.get("action_mask") if isinstance(info, dict) else None
    if mask is not None and isinstance(space, spaces.Discrete):
        found = _allowed(mask, int(space.n))
        return space.sample() if found is None else space.sample(mask=found)
    if mask is not None and isinstance(space, spaces.MultiDiscrete) and len(space.shape) == 1:
        bounds = np.cumsum(space.nvec).tolist()
        one = hasattr(mask, "shape") or not any(np.ndim(part) for part in mask)
        parts = np.split(np.asarray(mask), bounds[:-1]) if one else mask
        pairs = zip(parts, space.nvec.tolist(), strict=True)
        if len(parts) == len(space.nvec):
            found_parts = [_allowed(part, count) for part, count in pairs]
            known = [part for part in found_parts if part is not None]
            if len(known) == len(found_parts):
                return space.sample(mask=tuple(known))
    return space.sample()


def _allowed(mask: Any, count: int) -> npt.NDArray[np.int8] | None:
    """Return a mask as gymnasium takes it; None: it is none, or allows nothing."""
    try:
        found = np.asarray(mask)  # a list, or a tensor of torch
    except (TypeError, ValueError):
        return None
    # Where nothing is allowed, as after an ending, gymnasium's draw would be the first action.
    if found.shape != (count,) or found.dtype.kind not in "biuf" or not found.any():
        return None
    return found.astype(bool).astype(np.int8)


def checked_reset(env: gym.Env[Any, Any], result: Any) -> tuple[Any, Any]:
    """Return the observation and the info of what a reset has returned.

    Raises:
        WrongKind: it is no such pair. An array of two numbers would unpack like one.
    """
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping | None):
        return result
    got = f"{len(result)} values" if isinstance(result, tuple) else type(result).__qualname__
    if isinstance(result, tuple) and len(result) == 2:
        got = f"a {type(result[1]).__qualname__} as info"
    raise WrongKind(
        f"{type(env.unwrapped).__qualname__}: reset must return (observation, info); got {got}. "
        f"Return `observation, {{}}` if there is nothing to tell."
    )


def step_info(env: gym.Env[Any, Any]) -> dict[str, Any]:
    """Return the info of a step, with None for values that are not numbers."""
    shown = checked_reset(env, env.reset(seed=0))[1]
    probe = copy.deepcopy(env.action_space)
    probe.seed(0)
    try:
        _, reward, *_, info = env.step(sampled(probe, shown))
    except OutsideReached:
        raise
    except Exception:
        return {}  # it refuses that action; fields of infos are then kept row by row
    reward_of(reward)  # refused now, whether or not anything is proved
    info = info or {}
    if isinstance(shown, dict) and _MASK in shown and _MASK not in info:
        # Told by the reset alone: there has to be a column by which others know of it.
        info = {**info, _MASK: shown[_MASK]}
    numbers = (bool, int, float, np.ndarray, np.generic)
    return {
        key: value
        if key == _MASK or (isinstance(value, numbers) and not np.asarray(value).dtype.hasobject)
        else None
        for key, value in info.items()
    }


class Actions:
    """Chooses actions: redrawn, held for some steps, or for an episode."""

    def __init__(self, space: gym.Space[Any], seed: int) -> None:
        # A copy, as seeding the env's own space would change what its user samples.
        self._space = copy.deepcopy(space)
        self._space.seed(seed)
        self._episode, self._held, self._left = 0, None, 0

    def next(self, info: Any, *, begins: bool) -> Any:
        """Return the next action.

        Args:
            info: of the last step or reset; it may say what may be played.
            begins: whether an episode begins.
        """
        if begins:
            self._episode, self._left = self._episode + 1, 0
        drawn = sampled(self._space, info)
        masked = isinstance(info, dict) and "action_mask" in info
        kind = 0 if masked else self._episode % 3
        if kind == 0:
            return drawn
        if not self._left:
            self._held, self._left = drawn, 6 if kind == 1 else 1 << 30
        self._left -= 1
        return self._held
