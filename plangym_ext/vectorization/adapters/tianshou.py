"""A `PlanVectorEnv` as a Tianshou `BaseVectorEnv`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from tianshou.env import BaseVectorEnv
from tianshou.env.worker import DummyEnvWorker

from plangym_ext.arrays.nested import rows_of
from plangym_ext.vectorization.vector_env import PlanVectorEnv


class _NoEnv(gym.Env[Any, Any]):
    """Stands where Tianshou's base class wants envs of its own; only its spaces are looked at."""

    def __init__(self, venv: PlanVectorEnv) -> None:
        self.action_space = venv.single_action_space
        self.observation_space = venv.single_observation_space


class TianshouVectorEnv(BaseVectorEnv):
    """The envs of a `PlanVectorEnv`, stepped and reset in any subset, as collectors want it.

    Args:
        venv: with `autoreset_mode="disabled"`. It belongs to the adapter from here on.

    Attributes:
        venv: the same.

    Raises:
        ValueError: another autoreset mode.
    """

    def __init__(self, venv: PlanVectorEnv) -> None:
        if venv.autoreset_mode != AutoresetMode.DISABLED:
            raise ValueError(
                "TianshouVectorEnv: Tianshou resets envs itself; got autoreset_mode "
                f"{venv.autoreset_mode.value}. Use make_vec(..., autoreset_mode='disabled')."
            )
        venv.list_infos = True
        super().__init__([functools.partial(_NoEnv, venv)] * venv.num_envs, DummyEnvWorker)
        self.venv = venv

    def reset(
        self, env_id: int | list[int] | np.ndarray | None = None, **kwargs: Any
    ) -> tuple[Any, Any]:
        """Reset envs; obs and infos, arrays `[k]`."""
        numbers = self._numbers(env_id)
        mask = np.isin(np.arange(len(self)), numbers)
        # Tianshou hands one seed to all.
        seed = [kwargs.get("seed")] * len(self)
        options = {**(kwargs.get("options") or {}), "reset_mask": mask}
        obs, listed = self.venv.reset(seed=seed, options=options)
        # The infos of those reset, in the order of the mask; observations of all.
        infos: Any = dict(zip(np.flatnonzero(mask).tolist(), listed, strict=True))
        return self._batch(obs, numbers), _objects([infos[k] for k in numbers])

    def step(
        self,
        action: Any,
        id: int | list[int] | np.ndarray | None = None,  # noqa: A002 - Tianshou's name
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, Any]:
        """Step envs; obs, rewards, terminated, truncated and infos, `[k]` of each."""
        numbers = self._numbers(id)
        obs, rewards, terminations, truncations, infos = self.venv.step(action, numbers)
        listed: Any = infos
        shown = self._batch(obs, range(len(numbers)))
        told = [{**info, "env_id": k} for k, info in zip(numbers, listed, strict=True)]
        return shown, rewards, terminations, truncations, _objects(told)

    def _batch(self, obs: Any, numbers: Sequence[int]) -> Any:
        """Observations of some envs; nested ones as an object array, one for each."""
        if isinstance(obs, np.ndarray):
            return obs[list(numbers)]
        return _objects([rows_of(obs, number) for number in numbers])

    def seed(self, seed: Any = None) -> list[Any]:
        """Reset envs now with seeds `seed + i`, or one for each; as Tianshou's own do."""
        if seed is None or isinstance(seed, int):
            seed = [None if seed is None else seed + i for i in range(len(self))]
        self.venv.reset(seed=seed)
        return [[one] for one in seed]

    def get_env_attr(self, key: str, id: Any = None) -> list[Any]:  # noqa: A002 - Tianshou's
        """Attribute of some envs."""
        return list(self.venv.call_some(self._numbers(id), key))

    def set_env_attr(self, key: str, value: Any, id: Any = None) -> None:  # noqa: A002
        """Set an attribute of some envs to one value."""
        numbers = self._numbers(id)
        self.venv.set_attr(key, [value] * len(numbers), numbers)

    def render(self, **kwargs: Any) -> list[Any]:
        """Picture of every env."""
        return list(self.venv.call("render", **kwargs))

    def close(self) -> None:
        """Close the envs."""
        self.is_closed = True
        self.venv.close()

    def _numbers(self, env_id: Any) -> list[int]:
        if env_id is None:
            return list(range(len(self)))
        found: list[int] = np.atleast_1d(env_id).tolist()
        return found


def _objects(values: Sequence[Any]) -> np.ndarray:
    """Object array of the values, whatever they are."""
    found = np.empty(len(values), object)
    for k, value in enumerate(values):
        found[k] = value
    return found
