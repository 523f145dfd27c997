"""Adapter of `PlanVectorEnv` to Tianshou's `BaseVectorEnv`."""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import iterate
from tianshou.env import BaseVectorEnv
from tianshou.env.venvs import GYM_RESERVED_KEYS
from tianshou.env.worker import DummyEnvWorker, EnvWorker

from plangym_ext.errors import InvalidOption
from plangym_ext.vector.adapters.in_workers import (
    base_attribute,
    given,
    own_attribute,
    seed_as_tianshou,
)
from plangym_ext.vector.arguments import UNWRAPPED
from plangym_ext.vector.sub_envs.plain_attributes import Missing
from plangym_ext.vector.vector_env import PlanVectorEnv
from plangym_ext.workers.channel import wait_readable


class _NoEnv(gym.Env[Any, Any]):
    """Placeholder env for Tianshou's base class, which reads only its spaces."""

    def __init__(self, venv: PlanVectorEnv) -> None:
        # A copy of its own: Tianshou seeds it.
        self.action_space = copy.deepcopy(venv.single_action_space)
        self.observation_space = venv.single_observation_space


class TianshouVectorEnv(BaseVectorEnv):
    """The envs of a `PlanVectorEnv`, stepped and reset in any subset, as collectors want it.

    Args:
        venv: with `autoreset_mode="disabled"`. It belongs to the adapter from here on.
        wait_num: as for Tianshou's own: `step` may return before all envs are done. As those
            of `DummyVectorEnv`, these envs are always ready: it returns what all of them gave.
            Envs that do not wait for each other has `TianshouAsyncVectorEnv`.
        timeout: likewise.

    Attributes:
        venv: the same.

    Raises:
        ValueError: another autoreset mode.
    """

    def __init__(
        self, venv: PlanVectorEnv, wait_num: int | None = None, timeout: float | None = None
    ) -> None:
        if venv.autoreset_mode != AutoresetMode.DISABLED:
            raise InvalidOption(
                "TianshouVectorEnv: Tianshou resets envs itself; got autoreset_mode "
                f"{venv.autoreset_mode.value}. Use make_vec(..., autoreset_mode='disabled')."
            )
        venv.list_infos = True
        makes = [functools.partial(_NoEnv, venv)] * venv.num_envs
        super().__init__(makes, DummyEnvWorker, wait_num, timeout)
        self.venv = venv
        if venv.backend == "serial":
            for worker, env in zip(self.workers, venv.envs, strict=True):
                worker.env = env

    def reset(
        self, env_id: int | list[int] | np.ndarray | None = None, **kwargs: Any
    ) -> tuple[Any, Any]:
        """Reset envs; obs and infos, arrays `[k]`."""
        numbers = self._numbers(env_id)
        # Tianshou hands one seed to all.
        seeds = [kwargs.get("seed")] * len(numbers)
        obs, infos = self.venv.reset_some(numbers, seed=seeds, options=kwargs.get("options"))
        listed: Any = infos
        return self._batch(obs), _objects(listed)

    def step(
        self,
        action: Any,
        id: int | list[int] | np.ndarray | None = None,  # noqa: A002 - Tianshou's name
    ) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, Any]:
        """Step envs; obs, rewards, terminated, truncated and infos, `[k]` of each."""
        numbers = self._numbers(id)
        if action is None:
            raise InvalidOption(
                "TianshouVectorEnv: step: action must be one for each env; got None. Each step "
                "waits for all of its envs, so there is none to wait for."
            )
        obs, rewards, terminations, truncations, infos = self.venv.step(action, numbers)
        listed: Any = infos
        told = [{**info, "env_id": k} for k, info in zip(numbers, listed, strict=True)]
        return self._batch(obs), rewards, terminations, truncations, _objects(told)

    def _batch(self, obs: Any) -> Any:
        """Return observations as Tianshou wants them: nested ones as an array of objects."""
        if isinstance(obs, np.ndarray):
            return obs
        return _objects(list(iterate(self.venv.observation_space, obs)))

    def seed(self, seed: Any = None) -> list[Any]:
        """Seed action spaces and reset envs with seeds `seed + i`, or one for each.

        An env that has a method `seed` is given the seed by that, and not reset.
        """
        self._assert_is_not_closed()
        if seed is None or isinstance(seed, int):
            seed = [None if seed is None else seed + i for i in range(len(self))]
        seeds = list(seed)
        # A call for each env, as their seeds differ.
        own = [self.venv.call_some([k], seed_as_tianshou, one)[0] for k, one in enumerate(seeds)]
        others = [k for k, found in enumerate(own) if found is None]
        if others:
            self.venv.reset_some(others, seed=[seeds[k] for k in others])
        for worker, one in zip(self.workers, seeds, strict=True):
            worker.action_space.seed(one)
        return [[one] if found is None else found[0] for one, found in zip(seeds, own, strict=True)]

    def get_env_attr(self, key: str, id: Any = None) -> list[Any]:  # noqa: A002 - Tianshou's
        """Return an attribute of some envs, those under all wrappers.

        Attributes that every env should have, such as `action_space`, are None if an env lacks
        them.
        """
        found = self.venv.call_some(self._numbers(id), base_attribute, key)
        if key in GYM_RESERVED_KEYS:
            found = tuple(None if one is Missing else one for one in found)
        return given(found, key)

    def set_env_attr(self, key: str, value: Any, id: Any = None) -> None:  # noqa: A002
        """Set an attribute of some envs, those under all wrappers, to one value."""
        numbers = self._numbers(id)
        self.venv.set_attr(UNWRAPPED + key, [value] * len(numbers), numbers)

    def render(self, **kwargs: Any) -> list[Any]:
        """Return the picture `[h, w, 3]` uint8 of every env, or None."""
        self._assert_is_not_closed()
        return list(self.venv.call("render", **kwargs))

    def close(self) -> None:
        """Close the envs."""
        self._assert_is_not_closed()
        self.is_closed = True
        self.venv.close()

    def _numbers(self, env_id: Any) -> list[int]:
        self._assert_is_not_closed()
        if env_id is None:
            return list(range(len(self)))
        found: list[int] = np.atleast_1d(env_id).tolist()
        return found


def _objects(values: Sequence[Any]) -> np.ndarray:
    """Return an object array of the values, whatever they are."""
    # Not `np.array`, which would stack values of equal shapes.
    found = np.empty(len(values), object)
    for k, value in enumerate(values):
        found[k] = value
    return found


# Adapter for Tianshou's asynchronous mode: one worker process per env ---------


class TianshouAsyncVectorEnv(BaseVectorEnv):
    """Tianshou's `SubprocVectorEnv` with workers that are replaced if they die.

    A step returns when `wait_num` envs are done, or after `timeout` seconds those that are; one
    whose worker has died is waited for until a new one has done its step. Without either it waits
    for all; then `TianshouVectorEnv` is faster, whose envs share workers.

    Args:
        venvs: each of one env in a worker of its own, with `autoreset_mode="disabled"`. They
            belong to the adapter from here on.
        wait_num: as for Tianshou's own.
        timeout: likewise.

    Raises:
        ValueError: a vector env of another kind.
    """

    def __init__(
        self,
        venvs: Sequence[PlanVectorEnv],
        wait_num: int | None = None,
        timeout: float | None = None,
    ) -> None:
        for venv in venvs:
            given = venv.num_envs, len(venv.worker_pids), venv.autoreset_mode
            if given != (1, 1, AutoresetMode.DISABLED):
                raise InvalidOption(
                    "TianshouAsyncVectorEnv: expected vector envs of one env in one worker, with "
                    f"autoreset_mode disabled; got {given[0]} in {given[1]}, {given[2].value}. Use "
                    "make_vec(..., 1, n_workers=1, autoreset_mode='disabled') for each."
                )
        super().__init__(list(venvs), TianshouWorker, wait_num, timeout)


class TianshouWorker(EnvWorker):
    """One env in a process of its own, as Tianshou steps it.

    Attributes:
        venv: the same.
    """

    def __init__(self, venv: PlanVectorEnv) -> None:
        self.venv, self._is_reset = venv, False
        venv.list_infos = True
        super().__init__(lambda: venv)

    def send(self, action: Any, **kwargs: Any) -> None:
        """Begin a step, or with None for an action a reset."""
        self._is_reset = action is None
        if action is not None:
            self.venv.step_async([action])
            return
        if "seed" in kwargs:
            super().seed(kwargs["seed"])
        self.venv.reset_async(seed=[kwargs.get("seed")], options=kwargs.get("options"))

    def recv(self) -> tuple[Any, ...]:
        """Wait for it; return obs and info, or those of a step."""
        if self._is_reset:
            obs, infos = self.venv.reset_wait()
            listed: Any = infos
            return self._one(obs), dict(listed[0])
        obs, rewards, terminations, truncations, listed = self.venv.step_wait()
        ends = bool(terminations[0]), bool(truncations[0])
        return self._one(obs), float(rewards[0]), *ends, dict(listed[0])

    def _one(self, obs: Any) -> Any:
        return next(iter(iterate(self.venv.observation_space, obs)))

    def reset(self, **kwargs: Any) -> tuple[Any, ...]:
        """Reset the env."""
        self.send(None, **kwargs)
        return self.recv()

    @staticmethod
    def wait(
        workers: list[TianshouWorker], wait_num: int, timeout: float | None = None
    ) -> list[TianshouWorker]:
        """Return the finished workers in order: `wait_num` of them, fewer after the timeout."""
        deadline = None if timeout is None else time.monotonic() + timeout
        ready: list[TianshouWorker] = []
        while len(ready) < min(wait_num, len(workers)):
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            others = [one for one in workers if one not in ready]
            owners = {fd: one for one in others for fd in one.venv.signs}
            # A worker that is known to have died says nothing: it is replaced in `recv`.
            found = [one for one in others if not one.venv.signs]
            found = found or [owners[fd] for fd in wait_readable(owners, left)]
            if not found:
                break
            # A worker may have several descriptors that are readable.
            ready += list(dict.fromkeys(found))
        return ready

    def get_env_attr(self, key: str) -> Any:
        """Return an attribute of the env, outermost wrapper first; None if it has none."""
        return self.venv.call_some([0], own_attribute, key)[0]

    def set_env_attr(self, key: str, value: Any) -> None:
        """Set an attribute of the env under all wrappers."""
        self.venv.set_attr(UNWRAPPED + key, [value], [0])

    def seed(self, seed: int | None = None) -> Any:
        """Seed the action space, and the env by its own `seed`, or else by a reset."""
        super().seed(seed)
        own = self.venv.call_some([0], seed_as_tianshou, seed)[0]
        if own is None:
            self.venv.reset(seed=[seed])
            return None
        return own[0]

    def render(self, **kwargs: Any) -> Any:
        """Return a picture of the env."""
        return self.venv.call("render", **kwargs)[0]

    def close_env(self) -> None:
        """Close the env and end its process."""
        self.venv.close()
