"""Trials: several episodes of one task as one episode, for agents that adapt to tasks."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

from plangym_ext.core.numbers import check_kind
from plangym_ext.core.options import Count, Whole
from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import DamagedState, InvalidOption, WrongKind
from plangym_ext.states.families import family_of_name, registered_spec
from plangym_ext.states.part import StatePart


class HasTasks(Protocol):
    """Protocol of envs with tasks: rewards or dynamics that an episode is not told of.

    A task is part of the env's state. Resets leave it as it is.
    """

    def sample_tasks(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n tasks, `[n, d]` float64, drawn from `rng` alone.

        The first k of them are those of `sample_tasks(k, rng)`.
        """

    def set_task(self, task: Any) -> None:
        """Set the task, `[d]`, of this episode and all later ones."""

    def get_task(self) -> np.ndarray:
        """Return the task, `[d]` float64, fresh."""


class Trials(gym.Wrapper[Any, Any, Any, Any]):
    """Plays trials as episodes: a reset draws a task, of which several episodes are then played.

    Where an episode of the env ends, the observation is that of the next one's reset. The last
    one's end truncates the trial, even where the env terminates. Observations have one more number:
    1 where an episode of the env begins, else 0.

    Infos have "task", the number of the task; "episode", that of the episode in its trial, from 0
    on; "first_return" and "last_return", the returns so far of the first and the last episode; and
    "over", whether the env's episode terminated with this step.

    Args:
        env: with the methods of `HasTasks`; or its id, or a callable that makes it. Its
            observations are vectors.
        episodes: of a trial.
        tasks: how many there are; each reset draws one of them.
        first_task: number of the first one, in the order in which they are drawn from `task_seed`:
            those of an evaluation so are others than those of the training.
        task_seed: of the tasks.
        kwargs: for the constructor of the env; only with an id or a callable.

    Raises:
        WrongKind: the env has no tasks, or other observations.
    """

    @checking_arguments
    def __init__(
        self,
        env: gym.Env[Any, Any] | str | Callable[..., gym.Env[Any, Any]],
        *,
        episodes: Count = 2,
        tasks: Count = 100,
        first_task: Whole = 0,
        task_seed: Whole = 0,
        **kwargs: Any,
    ) -> None:
        self.episodes = int(episodes)
        super().__init__(_made(env, kwargs))
        base: Any = self.env.unwrapped
        if not all(callable(getattr(base, name, None)) for name in _METHODS):
            raise WrongKind(
                f"Trials: the env must have the methods {', '.join(_METHODS)}; "
                f"{type(base).__name__} lacks some. Add them; see plangym_ext.envs.HasTasks."
            )
        seen = self.env.observation_space
        if not isinstance(seen, gym.spaces.Box) or len(seen.shape) != 1:
            raise WrongKind(f"Trials: observations must be vectors; got {seen}. Flatten them.")
        rng = np.random.default_rng(task_seed)
        drawn = base.sample_tasks(first_task + tasks, rng)[first_task:]
        self.tasks: np.ndarray = np.array(drawn, np.float64)
        self.first_task = first_task
        self.observation_space = gym.spaces.Box(
            np.append(seen.low, 0).astype(seen.dtype),
            np.append(seen.high, 1).astype(seen.dtype),
            dtype=seen.dtype.type,
        )
        self._task = self._episode = 0
        self._first = self._last = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Draw a task, and begin the first of its episodes."""
        obs, info = self.env.reset(seed=seed, options=options)
        base: Any = self.env.unwrapped
        self._task = int(base.np_random.integers(len(self.tasks)))
        base.set_task(self.tasks[self._task])
        self._episode, self._first, self._last = 0, 0.0, 0.0
        return self._shown(obs, 1), {**info, **self._infos()}

    def step(self, action: Any) -> tuple[np.ndarray, Any, bool, bool, dict[str, Any]]:
        """Take a step; where that ends an episode but the last one, begin the next."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        if self._episode == 0:
            self._first += float(reward)
        if self._episode == self.episodes - 1:
            self._last += float(reward)
        infos = {**info, **self._infos(), "over": bool(terminated)}
        if not (terminated or truncated):
            return self._shown(obs, 0), reward, False, False, infos
        self._episode = min(self._episode + 1, self.episodes)
        if self._episode == self.episodes:
            return self._shown(obs, 0), reward, False, True, infos
        obs, _ = self.env.reset()
        return self._shown(obs, 1), reward, False, False, infos

    def _infos(self) -> dict[str, Any]:
        return {
            "task": self.first_task + self._task,
            "episode": self._episode,
            "first_return": self._first,
            "last_return": self._last,
            "over": False,
        }

    def _shown(self, obs: np.ndarray, begins: int) -> np.ndarray:
        return np.append(obs, begins).astype(self.observation_space.dtype)

    def state_part(self) -> StatePart:
        """Return the codec of its own counters."""
        return _TrialsPart(self)


class _TrialsPart(StatePart):
    """Numbers of task and episode, and the returns; the task itself is the env's own."""

    _layout = struct.Struct("<qqdd")
    width = _layout.size

    def __init__(self, layer: Trials) -> None:
        self._layer = layer

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        layer = self._layer
        self._layout.pack_into(
            buffer, offset, layer._task, layer._episode, layer._first, layer._last
        )
        return offset + self.width

    def restore(self, buffer: memoryview, offset: int) -> int:
        layer = self._layer
        task, episode, first, last = self._layout.unpack_from(buffer, offset)
        if not (0 <= task < len(layer.tasks) and 0 <= episode <= layer.episodes):
            raise DamagedState(
                f"state: a trial is of tasks 0 to {len(layer.tasks) - 1} and at most "
                f"{layer.episodes} episodes; got task {task}, episode {episode}."
            )
        layer._task, layer._episode, layer._first, layer._last = task, episode, first, last
        return offset + self.width

    def identity(self) -> dict[str, Any]:
        """Return what decides on the tasks and the length of a trial."""
        return {"episodes": self._layer.episodes, "tasks": self._layer.tasks.tolist()}


_METHODS = ("sample_tasks", "set_task", "get_task")


def _made(env: Any, kwargs: dict[str, Any]) -> gym.Env[Any, Any]:
    if isinstance(env, gym.Env):
        if kwargs:
            raise InvalidOption(f"Trials: {', '.join(kwargs)} needs the id of an env; got {env}.")
        return env
    if isinstance(env, str):
        family = family_of_name(env)
        spec = registered_spec(env) if family is None else family.spec(env)
        return gym.make(spec, disable_env_checker=True, **kwargs)
    made: gym.Env[Any, Any] = env(**kwargs)
    check_kind("Trials: env", made, gym.Env, "a callable that makes a gymnasium.Env")
    return made


def checked_task(env: Any, task: Any, size: int) -> np.ndarray:
    """Return a task `[size]` float64.

    Raises:
        InvalidOption: it has another shape, or no finite numbers.
    """
    try:
        found = np.asarray(task, np.float64)
    except (TypeError, ValueError):
        found = np.zeros(())
    if found.shape != (size,) or not np.isfinite(found).all():
        raise InvalidOption(
            f"{type(env).__name__}.set_task: a task must be {size} finite numbers; got {task!r}. "
            f"Take one of sample_tasks."
        )
    return found
