"""Gymnasium's MuJoCo tasks (v5) as functions over rows, for the MuJoCo backend."""

from __future__ import annotations

import importlib
from typing import Any

from plangym_ext.native.mujoco_task import MujocoTask

_HERE = "plangym_ext.envs.mujoco_tasks"
#: Class of gymnasium's, by module, and the task that describes it.
_TASKS = {
    "ant_v5.AntEnv": "ant:Ant",
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
    """The task that an env's step is equal to, or None if none is known.

    Args:
        env: the unwrapped env. One of a class derived from gymnasium's has none: it may
            do anything in its step.
    """
    cls = type(env)
    prefix = "gymnasium.envs.mujoco."
    name = f"{cls.__module__}.{cls.__qualname__}".removeprefix(prefix)
    if not cls.__module__.startswith(prefix) or name not in _TASKS:
        return None
    module, _, task = _TASKS[name].partition(":")
    found: MujocoTask = getattr(importlib.import_module(f"{_HERE}.{module}"), task)(env)
    return found
