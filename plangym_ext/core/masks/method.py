"""Wrapper that puts the mask of an env's `action_masks()` method into its infos."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym

from plangym_ext.core.masks import MASK, flat_mask

#: As envs for sb3-contrib's MaskablePPO have it.
_METHOD = "action_masks"


class MaskInInfo(gym.Wrapper[Any, Any, Any, Any]):
    """Adds the mask of the method `action_masks()` to infos without one."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; see `gymnasium.Env.reset`."""
        obs, info = self.env.reset(seed=seed, options=options)
        return obs, self._told(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step; see `gymnasium.Env.step`."""
        *found, info = self.env.step(action)
        return *found, self._told(info)

    def _told(self, info: dict[str, Any]) -> dict[str, Any]:
        if MASK in info:
            return info
        # Copied: an env may go on writing into its masks.
        mask = copy.deepcopy(self.env.get_wrapper_attr(_METHOD)())
        return {**info, MASK: flat_mask(mask)}


def with_told_masks(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Return an env with masks in its infos, if it has a method for them."""
    return MaskInInfo(env) if env.has_wrapper_attr(_METHOD) else env
