"""What a batch costs beside its rows: two rows of an env whose steps cost nothing."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from stepping import spin_env
from stepping.cases import CHEETAH, states_in_motion
from stepping.rounds import finding, interleaved, parent_microseconds, usual_microseconds
from stepping.sketch import Sketch
from stepping.wake import Sleepers


def measure(n_workers: int, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Overhead of a batch in microseconds, and the parent's processor time per row."""
    return [_empty_batch(n_workers, rounds, seconds), _parent(n_workers, rounds, seconds)]


def _empty_batch(n_workers: int, rounds: int, seconds: float) -> dict[str, Any]:
    env, serial, sleepers = spin_env.parallel(n_workers), spin_env.serial(), Sleepers(n_workers)
    try:
        state, *_ = env.reset(seed=0)
        states = np.repeat(state[None], n_workers, axis=0)
        actions = np.zeros(n_workers, np.int64)
        obs = serial.step_batch(actions, states).obs
        sketch = Sketch(spin_env.serial, states, actions, obs, n_workers)
        found = interleaved(
            {
                "batch us": usual_microseconds(lambda: env.step_batch(actions, states)),
                "wake us": usual_microseconds(sleepers.wake),
                "sketch us": usual_microseconds(lambda: sketch.step_batch(actions, states)),
                "serial us": usual_microseconds(lambda: serial.step_batch(actions, states)),
            },
            rounds,
            seconds,
        )
        sketch.close()
    finally:
        env.close()
        serial.close()
        sleepers.close()
    over = [a - b for a, b in zip(found["batch us"], found["wake us"], strict=True)]
    name = f"empty batch, B={n_workers}, over a bare wake-up"
    return finding(name, over, "us", at_most=30.0, **found)


def _parent(n_workers: int, rounds: int, seconds: float) -> dict[str, Any]:
    rows = 1024
    env = CHEETAH.make(backend="process", n_workers=n_workers)
    try:
        states, actions = states_in_motion(env, CHEETAH, rows)
        build = functools.partial(CHEETAH.make, backend="serial")
        sketch = Sketch(build, states, actions, env.step_batch(actions, states).obs, n_workers)
        found = interleaved(
            {
                "us per batch": parent_microseconds(lambda: env.step_batch(actions, states)),
                "sketch's us": parent_microseconds(lambda: sketch.step_batch(actions, states)),
            },
            rounds,
            seconds,
        )
        sketch.close()
    finally:
        env.close()
    return finding(
        f"parent's CPU per row, HalfCheetah B={rows}",
        [cpu / rows for cpu in found["us per batch"]],
        "us",
        at_most=0.3,
        **found,
    )
