"""Adapter for Tianshou's asynchronous mode: one worker process per env."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import iterate
from tianshou.env import BaseVectorEnv
from tianshou.env.worker import EnvWorker

from plangym_ext.errors import InvalidOption
from plangym_ext.vector.adapters.in_workers import own_attribute, seed_as_tianshou
from plangym_ext.vector.arguments import UNWRAPPED
from plangym_ext.vector.vector_env import PlanVectorEnv
from plangym_ext.workers.channel import wait_readable


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

    Args:
        venv: the vector env that holds it.

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
        """Return the workers that are done, first ones first: `wait_num`, or fewer in time."""
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
