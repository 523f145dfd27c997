"""`plangym-ext doctor ENV_ID`: how an env's state is captured, and proof that it is exact."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

_REPEATS = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("env", metavar="ENV_ID", help="a gymnasium id, such as CartPole-v1")
    parser.add_argument(
        "--steps", type=int, default=100, help="steps compared behind each saved state"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the reset and the actions")


def run(options: argparse.Namespace) -> int:
    """Print the report; exit status 1 if the round trip is not exact."""
    import plangym_ext
    from plangym_ext.core.check_env import check_env
    from plangym_ext.core.gym_env import GymEnv

    with plangym_ext.make(options.env, backend="serial") as env:
        assert isinstance(env, GymEnv)
        print(f"{env.name}: {type(env.gym_env.unwrapped).__qualname__}")
        print(f"  observation  {env.observation_space}")
        print(f"  action       {env.action_space}")
        print(f"  backend      {env.backend}; with n_workers: process")
        report = check_env(env, seed=options.seed, num_steps=options.steps)
        print(report)
        for name, micros in _costs(env, options.seed).items():
            print(f"  {name:12} {micros:.1f} us")
    return 0 if report.exact else 1


def _costs(env: Any, seed: int) -> dict[str, float]:
    """Microseconds of each operation, the median of many calls."""
    state, *_ = env.reset(seed=seed)
    action = env.sample_action()

    def step() -> None:
        *_, terminated, truncated, _ = env.gym_env.step(action)
        if terminated or truncated:
            env.gym_env.reset()

    return {
        "get state": _median(env.get_state),
        "set state": _median(lambda: env.set_state(state)),
        "step": _median(step),
    }


def _median(function: Callable[[], Any]) -> float:
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e6
