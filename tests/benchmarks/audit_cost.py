"""What do audits of states cost? The processor time of play with them and without.

    python tests/benchmarks/audit_cost.py --page docs/benchmarks_exactness.md

Two equal envs are played in turns, one of them audited; its clocks stand still while the other is
played. Processor time is that of this process and of its forks. "Audits" is the time within the
forks and within the calls that start and collect them; the difference of the turns has what they
slow down besides, such as memory that is copied after a fork.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
from table.sections import write_section

import plangym_ext
from plangym_ext.states.trials import audit as audits

_OURS = ("is_due", "open", "note", "start")


class Cart(gym.Env[Any, Any]):
    """A quick env, of which a step takes some microseconds."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.x, self.t = float(self.np_random.random()), 0
        return np.array([self.x, self.t]), {}

    def step(self, action: Any) -> Any:
        self.x, self.t = self.x * 0.99 + float(action), self.t + 1
        return np.array([self.x, self.t]), self.x, self.t >= 200, False, {}


ENVS: dict[str, Any] = {
    "a Python env of 10 us a step": Cart,
    "MiniGrid-DoorKey-5x5-v0": "MiniGrid-DoorKey-5x5-v0",
    "LunarLander-v3": "LunarLander-v3",
    "parking-v0": "parking-v0",
}


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="envs by name")
    parser.add_argument("--seconds", type=float, default=60.0, help="of play with audits, per env")
    parser.add_argument("--page", type=Path, help="docs/benchmarks_exactness.md, to write its part")
    return parser.parse_args()


def processor_seconds() -> float:
    """Return the time of this process and of the forks that have ended."""
    return sum(os.times()[:4])


class Clock:
    """A clock that stands still at times.

    Args:
        real: the clock that it follows.
    """

    def __init__(self, real: Callable[[], float]) -> None:
        self._real, self._passed, self._since = real, 0.0, real()
        self.runs = False

    def __call__(self) -> float:
        now = self._real()
        self._passed += (now - self._since) * self.runs
        self._since = now
        return self._passed


class Cost:
    """Measures the audits of one env.

    Attributes:
        within: processor seconds in calls of audits.
    """

    def __init__(self, name: Any) -> None:
        self.within = 0.0
        self._real = audits.time
        self._clocks = {name: Clock(getattr(time, name)) for name in ("monotonic", "process_time")}
        audits.time = SimpleNamespace(**self._clocks)  # type: ignore[assignment]
        self.envs = {
            policy: plangym_ext.make(name, backend="serial", audit=policy)
            for policy in ("raise", "off")
        }
        self._count(self.envs["raise"].audit)

    def _run(self, *, runs: bool) -> None:
        for clock in self._clocks.values():
            clock()
            clock.runs = runs

    def _count(self, audit: Any) -> None:
        for name in _OURS:
            setattr(audit, name, functools.partial(self._timed, getattr(audit, name)))

    def _timed(self, call: Any, *args: Any) -> Any:
        began = time.process_time()
        try:
            return call(*args)
        finally:
            self.within += time.process_time() - began

    def turn(self, policy: str, seconds: float) -> float:
        """Play an env for some seconds; return the processor seconds of a step."""
        env = self.envs[policy]
        self._run(runs=policy == "raise")
        steps, spent = 0, processor_seconds()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            state = env.get_state()
            for _ in range(20):
                played = env.step(env.sample_action())
                if played.terminated or played.truncated:
                    env.reset()
            env.set_state(state)
            steps += 20
        spent = processor_seconds() - spent
        self._run(runs=False)
        return spent / steps

    def close(self) -> None:
        """End what runs."""
        audits.time = self._real
        for env in self.envs.values():
            env.close()


def measured(name: Any, seconds: float) -> tuple[float, float, int, float]:
    """Return the share of audits, the difference of the turns, audits, and us of a step."""
    cost = Cost(name)
    try:
        for env in cost.envs.values():
            env.reset(seed=0)
        turns: dict[str, list[float]] = {"raise": [], "off": []}
        played, forked = 0.0, sum(os.times()[2:4])
        # An audit shows in few of the turns, and counts in the sums.
        for _ in range(max(1, int(seconds / 2))):
            for policy, found in turns.items():
                began = processor_seconds()
                found.append(cost.turn(policy, 2.0))
                played += (processor_seconds() - began) * (policy == "raise")
        share = (cost.within + sum(os.times()[2:4]) - forked) / played
        sums = {policy: statistics.fmean(found) for policy, found in turns.items()}
        audited: Any = cost.envs["raise"]
        return share, sums["raise"] / sums["off"] - 1, audited.exactness.audits, sums["off"] * 1e6
    finally:
        cost.close()


def page(found: dict[str, tuple[float, float, int, float]], seconds: float) -> str:
    """Return the table."""
    lines = [
        "## What audits cost",
        "",
        f"`tests/benchmarks/audit_cost.py`: {seconds:g} s of play with audits and as long without,",
        'in turns of 2 s. "Audits" is the share of the processor time that audits take, their',
        'forks included; it is bounded by 1 % of the time that has passed. "Turns" is how much',
        "more processor time a step takes in turns with audits, which other programs on the",
        "machine change by some percent.",
        "",
        "| env | us of a step | audits | share of audits | turns |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, (share, turns, count, step) in found.items():
        lines.append(
            f"| {name} | {step:,.0f} | {count} | {100 * share:.2f} % | {100 * turns:+.1f} % |"
        )
    return "\n".join(lines)


def main() -> int:
    options = parsed()
    found = {
        name: measured(env, options.seconds)
        for name, env in ENVS.items()
        if any(text in name for text in options.only)
    }
    text = page(found, options.seconds)
    print(text)
    if options.page:
        write_section(options.page, "audit cost", text)
    return int(not found)


if __name__ == "__main__":
    raise SystemExit(main())
