"""Helpers of the adapters: attributes of envs in workers; LegacyInfo for old gymnasium infos.

A function travels to a worker by the name of its module, which is imported there. It returns
`Missing` where it could raise: an error in a worker would be an error of the call, which then is
rolled back, and envs without states would lose their episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from plangym_ext.errors import InvalidOption
from plangym_ext.states.codec import layers
from plangym_ext.vector.arguments import space_of
from plangym_ext.vector.sub_envs.plain_attributes import Missing


def given(found: Sequence[Any], name: str) -> list[Any]:
    """Return one attribute of some envs.

    Raises:
        AttributeError: one of them is missing.
    """
    if any(one is Missing for one in found):
        raise AttributeError(f"an env has no attribute {name!r}")
    return list(found)


def has_layer(env: gym.Env[Any, Any], kind: type) -> bool:
    """Return whether the env or a wrapper around it is of a class."""
    return any(isinstance(layer, kind) for layer in layers(env))


def own_attribute(env: gym.Env[Any, Any], name: str) -> Any:
    """Attribute of the outermost wrapper, as Python has it; None if there is none."""
    return getattr(env, name, None)


def base_attribute(env: gym.Env[Any, Any], name: str) -> Any:
    """Return an attribute of the env under all wrappers; call no method."""
    return getattr(env.unwrapped, name, Missing)


def seed_as_tianshou(env: gym.Env[Any, Any], seed: int | None) -> tuple[Any] | None:
    """Seed the action space, and the env by its own `seed`; what that returned, None without."""
    space_of(env, "action_space").seed(seed)
    own = getattr(env, "seed", None)
    return None if own is None else (own(seed),)


# Without type arguments: of gymnasium 1.2 the class takes none.
class LegacyInfo(gym.vector.VectorWrapper):
    """Converts infos to the layout of gymnasium 0.29.

    An ended sub-env's last observation and info are in `final_observation` and `final_info`:
    object arrays `[n]` of observations and dicts, None where no episode ended, with the masks
    `_final_observation` and `_final_info`. Everything else stays as it is.

    Args:
        env: a vector env with `autoreset_mode="same_step"`, as 0.29 had it.

    Raises:
        ValueError: another autoreset mode.
    """

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, np.ndarray]) -> None:
        super().__init__(env)
        mode = env.metadata.get("autoreset_mode")
        if mode != AutoresetMode.SAME_STEP:
            raise InvalidOption(
                "LegacyInfo: gymnasium 0.29 reset an env in the step that ended it; got "
                f"autoreset_mode {mode}. Use make_vec(..., autoreset_mode='same_step')."
            )

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step; see `VectorEnv.step`."""
        obs, rewards, terminations, truncations, infos = self.env.step(actions)
        if "final_info" in infos or "final_obs" in infos:
            infos = self._renamed(infos)
        return obs, rewards, terminations, truncations, infos

    def _renamed(self, infos: dict[str, Any]) -> dict[str, Any]:
        found = {
            key: value
            for key, value in infos.items()
            if key not in ("final_obs", "_final_obs", "final_info", "_final_info")
        }
        mask = infos["_final_obs"]
        found["final_observation"], found["_final_observation"] = infos["final_obs"], mask
        listed = np.full(self.num_envs, None, object)
        for env in np.flatnonzero(mask):
            listed[env] = one_info(infos.get("final_info", {}), int(env))
        # A mask of its own: a caller may write to one of the two alone.
        found["final_info"], found["_final_info"] = listed, mask.copy()
        return found


def one_info(infos: dict[str, Any], env: int) -> dict[str, Any]:
    """Return the info of one sub-env out of those of all."""
    found: dict[str, Any] = {}
    for key, value in infos.items():
        mask = infos.get(f"_{key}")
        if mask is None or not mask[env]:
            continue
        found[key] = one_info(value, env) if isinstance(value, dict) else value[env]
    return found
