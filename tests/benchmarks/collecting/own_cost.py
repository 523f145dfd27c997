"""What a sampler costs beside env and network: its own share of the time of a step."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

OWN_COST = "own cost"


def own_cost(rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    """Return microseconds a step of all, the agent and the env: medians over the rounds.

    Agent and env are measured by clocks around their calls, all of a step without clocks, in turn;
    what is left is the sampler.
    """
    from table.tasks import task_named

    from collecting.ours import agent_for, made
    from collecting.policies import NUM_STEPS
    from plangym_ext.learn import SerialSampler

    venv = made(task_named("CartPole-v1"), 64)
    agent = agent_for(venv)
    with SerialSampler(venv, agent, NUM_STEPS) as sampler:
        clock = {"agent": 0.0, "env": 0.0}
        plain = agent.step, venv.step
        clocked = _clocked(agent.step, clock, "agent"), _clocked(venv.step, clock, "env")
        found: dict[str, list[float]] = {"all": [], "agent": [], "env": []}
        sampler.collect()
        for _ in range(rounds):
            agent.step, venv.step = plain  # type: ignore[method-assign]
            spent, steps = _collected(sampler, seconds / 2)
            found["all"].append(spent / steps * 1e6)
            agent.step, venv.step = clocked  # type: ignore[method-assign]
            clock.update(agent=0.0, env=0.0)
            _, steps = _collected(sampler, seconds / 2)
            for name, spent in clock.items():
                found[name].append(spent / steps * 1e6)
    return {"serial": {name: statistics.median(values) for name, values in found.items()}}


def _collected(sampler: Any, seconds: float) -> tuple[float, int]:
    """Collect for some seconds; return how long it took, and how many steps there were."""
    steps, began = 0, time.perf_counter()
    while time.perf_counter() < began + seconds:
        sampler.collect()
        steps += sampler.num_steps
    return time.perf_counter() - began, steps


def _clocked(call: Callable[..., Any], clock: dict[str, float], name: str) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            return call(*args, **kwargs)
        finally:
            clock[name] += time.perf_counter() - began

    return timed
