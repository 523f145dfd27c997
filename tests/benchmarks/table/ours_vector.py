"""Our vector env: as gymnasium's, and through the adapter for Stable-Baselines3."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import plangym_ext
from table.contest import NotHere, Runner
from table.tasks import Task


def build(
    task: Task, rows: int, *, kind: str, from_states: bool = False, adapted: bool = False
) -> Runner:
    """A vector env of `kind` "process" (two workers, the envs that others get) or "best"."""
    del from_states
    settings: dict[str, Any] = {"autoreset_mode": "same_step"} if adapted else {}
    if kind == "process":
        envs = plangym_ext.make_vec(task.make, rows, n_workers=2, **settings)
    elif task.native or task.ours:
        name = task.ours.get("name", task.env_id)
        options = {key: value for key, value in task.ours.items() if key != "name"}
        envs = plangym_ext.make_vec(name, rows, **settings, **options)
    else:
        raise NotHere("there is none")
    actions = itertools.cycle(task.actions(envs.single_action_space, rows))
    if adapted:
        from plangym_ext.vector.adapters.stable_baselines3 import StableBaselines3VecEnv

        adapter = StableBaselines3VecEnv(envs)
        adapter.seed(0)
        adapter.reset()
        return Runner(lambda: adapter.step(next(actions)), rows, adapter.close)
    envs.reset(seed=0)
    return Runner(lambda: envs.step(next(actions)), rows, envs.close)


def step_batch(task: Task, rows: int, *, from_states: bool) -> Runner:
    """`step_batch` of the env on the same backend, without states: beside `best`."""
    del from_states
    if not task.native:
        raise NotHere("a vector env on workers alone")
    env = plangym_ext.make(task.ours.get("name", task.env_id), backend=task.native)
    env.reset(seed=0)
    actions = itertools.cycle(task.actions(env.action_space, rows))
    return Runner(lambda: env.step_batch(next(actions)), rows, env.close)


process = functools.partial(build, kind="process")
best = functools.partial(build, kind="best")
process_for_sb3 = functools.partial(build, kind="process", adapted=True)
best_for_sb3 = functools.partial(build, kind="best", adapted=True)
