"""MuJoCo tasks as functions over rows: lookup of gymnasium's v5 tasks, registration of own ones."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from plangym_ext.envs.mujoco_tasks.model_task import ModelTask
from plangym_ext.native.mujoco.task import MujocoTask
from plangym_ext.states.families import load_named

__all__ = ["ModelTask", "MujocoTask", "register_task", "task_of"]

_HERE = "plangym_ext.envs.mujoco_tasks"
_TASK_ENV = f"{_HERE}.task_env:TaskEnv"
#: Class of gymnasium's, by module, and the task that describes it.
_TASKS = {
    "ant_v5.AntEnv": "walkers:Ant",
    "half_cheetah_v5.HalfCheetahEnv": "walkers:HalfCheetah",
    "hopper_v5.HopperEnv": "walkers:Hopper",
    "humanoid_v5.HumanoidEnv": "humanoids:Humanoid",
    "humanoidstandup_v5.HumanoidStandupEnv": "humanoids:HumanoidStandup",
    "inverted_double_pendulum_v5.InvertedDoublePendulumEnv": "pendulums:InvertedDoublePendulum",
    "inverted_pendulum_v5.InvertedPendulumEnv": "pendulums:InvertedPendulum",
    "pusher_v5.PusherEnv": "arms:Pusher",
    "reacher_v5.ReacherEnv": "arms:Reacher",
    "swimmer_v5.SwimmerEnv": "walkers:Swimmer",
    "walker2d_v5.Walker2dEnv": "walkers:Walker2d",
}


def task_of(env: Any) -> MujocoTask | None:
    """Return the task that an env's step is equal to, or None if none is known.

    Args:
        env: the unwrapped env. One of a class derived from gymnasium's has none: it may
            do anything in its step.
    """
    cls = type(env)
    if f"{cls.__module__}:{cls.__qualname__}" == _TASK_ENV:
        own: MujocoTask = env.task
        return own
    prefix = "gymnasium.envs.mujoco."
    name = f"{cls.__module__}.{cls.__qualname__}".removeprefix(prefix)
    if not cls.__module__.startswith(prefix) or name not in _TASKS:
        return None
    found: MujocoTask = load_named(f"{_HERE}.{_TASKS[name]}")(env)
    return found


def register_task(
    name: str, task: type[ModelTask], *, max_episode_steps: int | None = None
) -> None:
    """Register a task as a gymnasium id, for `plangym_ext.make` and `gymnasium.make`.

    Args:
        name: the id, such as "Balance-v0".
        task: class of the task.
        max_episode_steps: steps after which an episode is cut, by `TimeLimit`.
    """
    gym.register(name, _TASK_ENV, max_episode_steps=max_episode_steps, kwargs={"task": task})
