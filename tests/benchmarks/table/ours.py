"""Ours, on each backend."""

from __future__ import annotations

import functools
import itertools

import numpy as np

import plangym_ext
from table.contest import NotHere, Runner
from table.tasks import Task, random_actions, states_in_motion


def states_of(task: Task, rows: int) -> np.ndarray:
    """States in motion `[B, S]`."""
    with plangym_ext.make(task.env_id, backend="serial") as env:
        env.reset(seed=0)
        return np.stack(states_in_motion(env.gym_env, env.get_state, task, rows))


def build(task: Task, rows: int, *, backend: str, from_states: bool) -> Runner:
    """`step_batch`, with states or without."""
    if backend in ("kernel", "mujoco") and backend != task.native:
        raise NotHere("another kind of env")
    settings = {"n_workers": 2} if backend == "process" else {}
    env = plangym_ext.make(task.env_id, backend=backend, **settings)
    env.reset(seed=0)
    actions = itertools.cycle(random_actions(env.action_space, rows))
    if from_states:
        states = states_of(task, rows)
        return Runner(lambda: env.step_batch(next(actions), states), rows, env.close)
    return Runner(lambda: env.step_batch(next(actions)), rows, env.close)


serial = functools.partial(build, backend="serial")
process = functools.partial(build, backend="process")
kernel = functools.partial(build, backend="kernel")
mujoco = functools.partial(build, backend="mujoco")
