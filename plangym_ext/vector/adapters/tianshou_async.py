"""Tianshou's asynchronous mode: each env in a process of its own, which none other waits for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
from gymnasium.vector.utils import iterate
from tianshou.env import BaseVectorEnv
from tianshou.env.worker import EnvWorker

from plangym_ext.registry import make_vec
from plangym_ext.vector.adapters.in_workers import own_attribute, seed_as_tianshou
from plangym_ext.vector.env_rows import UNWRAPPED
from plangym_ext.workers.channel import wait_readable


class TianshouAsyncVectorEnv(BaseVectorEnv):
    """What Tianshou's `SubprocVectorEnv` does, with workers that are replaced if they die.

    A step returns when `wait_num` envs are done, or after `timeout` seconds those that are; one
    whose worker has died is waited for until a new one has done its step. Without either it waits
    for all; then `TianshouVectorEnv` is faster, whose envs share workers.

    Args:
        env_fns: constructor of each env.
        wait_num: as for Tianshou's own.
        timeout: likewise.
        options: for `plangym_ext.make_vec`, such as `state` and `invalid`.
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gym.Env[Any, Any]]],
        wait_num: int | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> None:
        made: list[TianshouWorker] = []

        def worker(env_fn: Callable[[], gym.Env[Any, Any]]) -> TianshouWorker:
            made.append(TianshouWorker(env_fn, **options))
            return made[-1]

        try:
            super().__init__(env_fns, worker, wait_num, timeout)
        except BaseException:
            for one in made:
                one.close()
            raise


class TianshouWorker(EnvWorker):
    """One env in a process of its own, as Tianshou steps it.

    Args:
        env_fn: its constructor.
        options: as for `TianshouAsyncVectorEnv`.

    Attributes:
        venv: the vector env that holds it.
    """

    def __init__(self, env_fn: Callable[[], gym.Env[Any, Any]], **options: Any) -> None:
        self.venv = make_vec([env_fn], n_workers=1, autoreset_mode="disabled", **options)
        self.venv.list_infos = True
        self._is_reset = False
        try:
            super().__init__(env_fn)
        except BaseException:
            self.venv.close()
            raise

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
        """What came of that: obs and info, or those of a step."""
        if self._is_reset:
            obs, infos = self.venv.reset_wait()
            return self._one(obs), dict(infos[0])
        obs, rewards, terminations, truncations, infos = self.venv.step_wait()
        ends = bool(terminations[0]), bool(truncations[0])
        return self._one(obs), float(rewards[0]), *ends, dict(infos[0])

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
        """Those that are done, in the order in which they were: `wait_num`, or fewer in time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        ready: list[TianshouWorker] = []
        while len(ready) < min(wait_num, len(workers)):
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            owners = {fd: one for one in workers if one not in ready for fd in one.venv.signs}
            found = [owners[fd] for fd in wait_readable(owners, left)]
            if not found:
                break
            ready += list(dict.fromkeys(found))
        return ready

    def get_env_attr(self, key: str) -> Any:
        """Attribute of the env, outermost wrapper first; None if it has none."""
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
        """Picture of the env."""
        return self.venv.call("render", **kwargs)[0]

    def close_env(self) -> None:
        """Close the env and end its process."""
        self.venv.close()
