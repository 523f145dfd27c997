"""The raw simulator: what is left when everything is taken away that a backend adds."""

from __future__ import annotations

import itertools
import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import plangym_ext
from plangym_ext.native.compiled import build as compile_loop
from table.contest import Runner
from table.ours import states_of
from table.tasks import NUM_BATCHES, WARM_UP, Task, random_actions, states_in_motion


def build(task: Task, rows: int, *, from_states: bool) -> Runner:
    """The limit of an env's kind; it is the same for both ways of stepping."""
    del from_states
    return {"kernel": _kernel, "mujoco": _mujoco, None: _processes}[task.native](task, rows)


def _bare(step: Any, reset: Any, observe: Any) -> Any:
    def loop(batch: Any, params: Any, first: int, stop: int) -> int:
        for k in range(batch.actions.shape[1]):
            for row in range(first, stop):
                state = batch.state[row]
                _, terminated, truncated = step(
                    state, params, batch.actions[row, k], batch.info[row]
                )
                if terminated or truncated:
                    reset(state, params)
                observe(state, params, batch.obs[row])
        return 0

    return loop


def _kernel(task: Task, rows: int) -> Runner:
    """A bare compiled loop, half of the rows in each of two threads."""
    env = plangym_ext.make(task.env_id, backend="kernel")
    env.reset(seed=0)
    actions = np.stack(random_actions(env.action_space, rows), axis=1)
    begin = env._memory.rows(rows)
    begin.bytes[...] = states_of(task, rows)
    no_resets = np.zeros(rows, np.bool_)
    batch = env._memory.arrays(actions, begin, np.ones(rows, np.int32), no_resets)
    step, reset, observe, *_ = env.kernel.functions()
    example = (batch, env.kernel.params, 0, 1)
    loop = compile_loop(f"bare {task.env_id}", _bare(step, reset, observe), example)
    threads, half = ThreadPoolExecutor(1), rows // 2

    def run() -> None:
        other = threads.submit(loop, batch, env.kernel.params, half, rows)
        loop(batch, env.kernel.params, 0, half)
        other.result()

    def close() -> None:
        threads.shutdown()
        env.close()

    return Runner(run, rows * NUM_BATCHES, close)


def _mujoco(task: Task, rows: int) -> Runner:
    """A bare `Batch.step` loop on two threads, every step from the same states in motion."""
    from mujoco.batch import Batch

    env = task.make()
    env.reset(seed=0)
    simulator, data = env.unwrapped, env.unwrapped.data
    names = ("qpos", "qvel", "qacc_warmstart")
    found = states_in_motion(
        env, lambda: [getattr(data, name).copy() for name in names], task, rows
    )
    batch = Batch(simulator.model, rows, 2)
    targets = [batch.bind(name) for name in names]
    sources = [np.stack(values) for values in zip(*found, strict=True)]
    control, actions = batch.bind("ctrl"), itertools.cycle(random_actions(env.action_space, rows))

    def run() -> None:
        for target, source in zip(targets, sources, strict=True):
            target[:] = source
        control[:] = next(actions)
        batch.step(nstep=simulator.frame_skip)

    return Runner(run, rows, env.close)


_STEPS = 100


def _play(task: Task, pipe: Any) -> None:
    env = task.make()
    env.reset(seed=0)
    actions = itertools.cycle([batch[0] for batch in random_actions(env.action_space, 1)])
    steps = WARM_UP
    while True:
        for _ in range(steps):
            _, _, terminated, truncated, _ = env.step(next(actions))
            if terminated or truncated:
                env.reset()
        pipe.send(None)
        steps = pipe.recv()
        if steps is None:
            return


def _processes(task: Task, rows: int) -> Runner:
    """A bare `env.step` loop in each of two processes."""
    del rows
    pipes = []
    for _ in range(2):
        here, there = multiprocessing.Pipe()
        multiprocessing.Process(target=_play, args=(task, there), daemon=True).start()
        here.recv()
        pipes.append(here)

    def run() -> None:
        for pipe in pipes:
            pipe.send(_STEPS)
        for pipe in pipes:
            pipe.recv()

    return Runner(run, 2 * _STEPS, lambda: [pipe.send(None) for pipe in pipes])
