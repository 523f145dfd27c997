"""Adapter of `PlanVectorEnv` to Stable-Baselines3's `VecEnv`."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import concatenate, create_empty_array
from stable_baselines3.common.vec_env import VecEnv

from plangym_ext.errors import InvalidOption
from plangym_ext.vector.adapters.in_workers import given, has_layer
from plangym_ext.vector.sub_envs.plain_attributes import attribute_or_missing
from plangym_ext.vector.vector_env import PlanVectorEnv


class StableBaselines3VecEnv(VecEnv):
    """A `PlanVectorEnv` with the results of SB3's `DummyVecEnv`, bit for bit.

    Its episodes are `venv`'s: states may be saved, restored and forked there in between.

    Args:
        venv: with `autoreset_mode="same_step"`. It belongs to the adapter from here on.

    Attributes:
        venv: the same.

    Raises:
        ValueError: another autoreset mode.
    """

    def __init__(self, venv: PlanVectorEnv) -> None:
        if venv.autoreset_mode != AutoresetMode.SAME_STEP:
            raise InvalidOption(
                "StableBaselines3VecEnv: SB3 resets an env in the step that ends it; got "
                f"autoreset_mode {venv.autoreset_mode.value}. Use "
                "make_vec(..., autoreset_mode='same_step')."
            )
        self.venv = venv
        venv.list_infos = True
        super().__init__(venv.num_envs, venv.single_observation_space, venv.single_action_space)
        self.metadata = venv.metadata

    def reset(self) -> Any:
        """Reset all envs with the seeds and options that were set before; return `[n, *obs]`."""
        # As SB3's own: an env without options is not handed any.
        options = [one or None for one in self._options]
        if all(one == options[0] for one in options):
            obs, listed = self.venv.reset(seed=self._seeds, options=options[0])
            infos: Any = listed
        else:
            infos = []
            for env, given in enumerate(options):
                # Each by itself: a call takes the same options for all of its envs.
                _, found = self.venv.reset_some([env], seed=[self._seeds[env]], options=given)
                infos += list(found)
            obs = self.venv.observations()
        self.reset_infos = infos
        self._reset_seeds()
        self._reset_options()
        return obs

    def step_async(self, actions: Any) -> None:
        """Begin a step; `actions` is an array, or a list with one action of any kind per env."""
        space = self.venv.single_action_space
        if isinstance(actions, list | tuple) and isinstance(space, spaces.Dict | spaces.Tuple):
            batch: Any = create_empty_array(space, len(actions))
            actions = concatenate(space, actions, batch)
        self.venv.step_async(actions)

    def step_wait(self) -> tuple[Any, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        """Return obs, rewards `[n]` float32, dones `[n]` bool, and a list of infos."""
        obs, rewards, terminations, truncations, listed = self.venv.step_wait()
        infos: Any = listed
        for env in range(self.num_envs):
            info = infos[env]
            if terminations[env] or truncations[env]:
                # `info` then has only the fields of the reset.
                ended = info.pop("final_info")
                ended["TimeLimit.truncated"] = bool(truncations[env] and not terminations[env])
                ended["terminal_observation"] = info.pop("final_obs")
                self.reset_infos[env], infos[env] = info, ended
            else:
                info["TimeLimit.truncated"] = False
        dones = terminations | truncations
        # float32, as SB3's own vector envs keep them.
        return obs, rewards.astype(np.float32), dones, infos

    @property
    def envs(self) -> list[gym.Env[Any, Any]]:
        """The envs themselves, as of `DummyVecEnv`, where they live in this process.

        Raises:
            AttributeError: they live in workers, or are rows of states.
        """
        return self.venv.envs

    def close(self) -> None:
        """Close the envs."""
        self.venv.close()

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Return the picture `[h, w, 3]` uint8 of every env, or None."""
        if self.render_mode != "rgb_array":
            warnings.warn(
                f"render_mode is {self.render_mode}; pictures need 'rgb_array'.", stacklevel=2
            )
            return [None] * self.num_envs
        return self.venv.render()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of some envs."""
        numbers = self._numbers(indices)
        return given(self.venv.call_some(numbers, attribute_or_missing, attr_name), attr_name)

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of some envs to one value."""
        # SB3 takes an env twice: it has the value once more then.
        numbers = list(dict.fromkeys(self._numbers(indices)))
        self.venv.set_attr(attr_name, [copy.deepcopy(value) for _ in numbers], numbers)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of some envs."""
        numbers = self._numbers(indices)
        return list(self.venv.call_some(numbers, method_name, *method_args, **method_kwargs))

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        """Return whether some envs have a wrapper of a class."""
        return list(self.venv.call_some(self._numbers(indices), has_layer, wrapper_class))

    def _numbers(self, indices: Any) -> list[int]:
        # Negative ones count from the end, as in SB3's own lists of envs.
        return [range(self.num_envs)[int(env)] for env in self._get_indices(indices)]
