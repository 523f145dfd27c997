"""EnvPool, Stable-Baselines3, SuperSuit, TorchRL and plangym: run by the Pythons that have them."""

from __future__ import annotations

import functools
import importlib
import itertools
from typing import Any

import numpy as np

from table.contest import NotHere, Runner
from table.tasks import Task, random_actions, states_in_motion


def envpool(task: Task, rows: int, *, from_states: bool) -> Runner:
    """EnvPool with two threads."""
    del from_states
    if task.envpool is None:
        raise NotHere("its own is another game")
    name, settings = task.envpool
    make = importlib.import_module("envpool").make
    envs = make(name, env_type="gymnasium", num_envs=rows, num_threads=2, seed=0, **settings)
    envs.reset()
    batches = task.actions(envs.action_space, rows)
    if batches[0].dtype == np.int64:
        batches = [batch.astype(np.int32) for batch in batches]
    actions = itertools.cycle(batches)
    return Runner(lambda: envs.step(next(actions)), rows, envs.close)


def _stable_baselines(
    task: Task, rows: int, *, name: str, from_states: bool, **settings: Any
) -> Runner:
    del from_states
    module = importlib.import_module("stable_baselines3.common.vec_env")
    envs = getattr(module, name)([task.make] * rows, **settings)
    envs.reset()
    actions = itertools.cycle(random_actions(envs.action_space, rows))
    return Runner(lambda: envs.step(next(actions)), rows, envs.close)


dummy = functools.partial(_stable_baselines, name="DummyVecEnv")
subproc = functools.partial(_stable_baselines, name="SubprocVecEnv", start_method="fork")


def supersuit(task: Task, rows: int, *, from_states: bool) -> Runner:
    """SuperSuit's vector env of PettingZoo's `simple_spread_v3`, with two processes."""
    del task, from_states
    library = importlib.import_module("supersuit")
    env = importlib.import_module("mpe2.simple_spread_v3").parallel_env()
    # One row for each agent.
    whole = library.pettingzoo_env_to_vec_env_v1(env)
    envs = library.concat_vec_envs_v1(whole, rows, num_cpus=2, base_class="gymnasium")
    envs.reset(seed=0)
    actions = itertools.cycle(random_actions(envs.action_space, envs.num_envs))
    return Runner(lambda: envs.step(next(actions)), rows, envs.close)


def torchrl(task: Task, rows: int, *, from_states: bool) -> Runner:
    """TorchRL's `ParallelEnv`, one process per row."""
    del from_states
    torch = importlib.import_module("torch")
    library = importlib.import_module("torchrl.envs")
    torch.set_num_threads(1)

    def make() -> Any:
        return library.GymWrapper(task.make(), categorical_action_encoding=True)

    space = task.make().action_space
    envs = library.ParallelEnv(rows, make, mp_start_method="fork")
    actions = itertools.cycle([torch.from_numpy(batch) for batch in random_actions(space, rows)])
    held = envs.reset()

    def step() -> None:
        nonlocal held
        held["action"] = next(actions)
        _, held = envs.step_and_maybe_reset(held)

    return Runner(step, rows, envs.close)


def plangym(task: Task, rows: int, *, from_states: bool) -> Runner:
    """plangym's `ParallelEnv` with two workers, from states."""
    if not from_states:
        raise NotHere("it has no rows of its own, only states")
    if not task.plangym:
        raise NotHere("it has no such env")
    module, _, name = task.plangym.partition(":")
    kind = getattr(importlib.import_module(module), name)
    parallel = importlib.import_module("plangym.vectorization.parallel").ParallelEnv
    settings = {"name": task.env_id, "frameskip": 1, **task.plangym_kwargs}
    envs = parallel(env_class=kind, n_workers=2, **settings)
    envs.reset()
    alone = kind(**settings)
    alone.reset()
    states = states_in_motion(alone.gym_env, lambda: np.copy(alone.get_state()), task, rows)
    space = alone.gym_env.action_space
    actions = itertools.cycle([list(batch) for batch in random_actions(space, rows)])
    return Runner(
        lambda: envs.step_batch(next(actions), states, dt=task.plangym_dt), rows, envs.close
    )
