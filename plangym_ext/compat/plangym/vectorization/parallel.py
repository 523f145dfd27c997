"""plangym's ParallelEnv: worker processes that each hold a plangym env with all its hooks."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from plangym_ext.arrays.closing import Closing
from plangym_ext.compat.plangym.plan_env import PlanEnv
from plangym_ext.compat.plangym.vectorization.env import VectorizedEnv
from plangym_ext.workers.batch_env import ExternalProcess as Process
from plangym_ext.workers.batch_env import asked
from plangym_ext.workers.protocol import Service

__all__ = ["BatchEnv", "ExternalProcess", "ParallelEnv"]


class Served:
    """A plangym env in a worker; see `Service`."""

    def __init__(self, make: Callable[[], PlanEnv]) -> None:
        self._env = make()

    def description(self) -> dict[str, Any]:
        """Return the spaces, where there are any."""
        names = ("observation_space", "action_space")
        return {name: getattr(self._env, name, None) for name in names}

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of the env."""
        return getattr(self._env, name)(*args, **kwargs)

    def get(self, name: str) -> Any:
        """Return an attribute of the env."""
        return getattr(self._env, name)

    def close(self) -> None:
        """Close the env."""
        self._env.close()


class ExternalProcess(Process):
    """One plangym env in a worker process; methods take `blocking`, as `plangym_ext`'s do.

    Args:
        constructor: returns the face; called in the worker.
        index: number of the worker, for messages.
    """

    def __init__(self, constructor: Callable[[], PlanEnv], *, index: int = 0) -> None:
        super().__init__(Service(functools.partial(Served, constructor)), index=index)


class BatchEnv(Closing):
    """Plangym envs in workers, stepped as one batch.

    Args:
        envs: `ExternalProcess`, or other handles of a `Served`.
        blocking: step in one worker after another.
    """

    def __init__(self, envs: Sequence[Any], blocking: bool = False) -> None:
        self._envs, self._blocking = list(envs), blocking
        for env in self._envs:  # all start before any is waited for
            env.build()

    def __len__(self) -> int:
        return len(self._envs)

    def __getitem__(self, index: int) -> Any:
        return self._envs[index]

    def __getattr__(self, name: str) -> Any:
        """Read an attribute of the first env."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._envs[0], name)

    def make_transitions(
        self, actions: list[Any], states: list[Any], dt: Sequence[int]
    ) -> tuple[list[Any], ...]:
        """Step rows from states, each worker a run of neighbouring ones.

        Returns:
            `(states, observs, rewards, terminals, truncateds, infos)`, lists of B.
        """
        bounds = np.linspace(0, len(actions), len(self._envs) + 1).astype(int)
        parts = [
            ("step_batch", actions[a:b], states[a:b], list(dt[a:b]), True)
            for a, b in itertools.pairwise(bounds)
        ]
        columns = zip(*self._asked(parts), strict=True)
        return tuple(list(itertools.chain.from_iterable(column)) for column in columns)

    def sync_states(self, state: Any) -> None:
        """Bring every env to one state."""
        self._asked([("set_state", state)] * len(self))

    def reset(self, indices: Any = None, return_states: bool = True) -> tuple[Any, ...]:
        """Reset envs; returns `([states,] observs, infos)`, stacked."""
        chosen = range(len(self)) if indices is None else indices
        found = self._asked([("reset", return_states)] * len(chosen), [self[i] for i in chosen])
        *arrays, infos = zip(*found, strict=True)
        return (*map(np.stack, arrays), np.array(infos))

    def _asked(self, calls: Sequence[tuple[Any, ...]], envs: Any = None) -> list[Any]:
        """Return the answers of all or some; a worker that died is replaced, asked once more."""
        envs = self._envs if envs is None else envs
        requests = [
            functools.partial(env.call, *call) for env, call in zip(envs, calls, strict=True)
        ]
        # One after another, or all before any is waited for.
        size = 1 if self._blocking else max(len(envs), 1)
        parts = [slice(i, i + size) for i in range(0, len(envs), size)]
        return [answer for part in parts for answer in asked(envs[part], requests[part])]

    def close(self) -> None:
        for env in self._envs:
            env.begin_close()
        for env in self._envs:
            env.close()


class ParallelEnv(VectorizedEnv):
    """Batches on worker processes; everything else happens in a local env.

    Args:
        env_class: class of the face.
        name: of the env.
        n_workers: processes.
        blocking: step in one process after another.
        kwargs: for `env_class`; see `VectorizedEnv`.
    """

    def __init__(
        self,
        env_class: Callable[..., Any],
        name: str | None = None,
        *args: Any,
        blocking: bool = False,
        **kwargs: Any,
    ) -> None:
        self.blocking = blocking
        super().__init__(env_class, name, *args, **kwargs)

    def _workers(self, make: Callable[[], Any]) -> BatchEnv:
        envs = [ExternalProcess(make, index=index) for index in range(self.n_workers)]
        return BatchEnv(envs, self.blocking)
