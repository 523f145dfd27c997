"""Gymnasium's vector envs."""

from __future__ import annotations

import functools
import itertools

import gymnasium
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from table.contest import NotHere, Runner
from table.tasks import Task


def build(task: Task, rows: int, *, kind: str, from_states: bool) -> Runner:
    """A vector env of `kind` "sync", "async" or "own"."""
    del from_states
    if kind == "own":
        if not task.make().spec.vector_entry_point:
            raise NotHere("there is none")
        name, settings = task.own or (task.env_id, {})
        envs = gymnasium.make_vec(name, rows, vectorization_mode="vector_entry_point", **settings)
    else:
        envs = {"sync": SyncVectorEnv, "async": AsyncVectorEnv}[kind]([task.make] * rows)
    envs.reset(seed=0)
    actions = itertools.cycle(task.actions(envs.single_action_space, rows))
    return Runner(lambda: envs.step(next(actions)), rows, envs.close)


sync = functools.partial(build, kind="sync")
in_processes = functools.partial(build, kind="async")
own = functools.partial(build, kind="own")
