"""Program that tests one env's state capture in its own process, with a JSON result.

    python -m plangym_ext.run.certificates.certificate TASK FILE

TASK is JSON: `env`, a gymnasium id or a Python expression that constructs an env; `setup`, code
that is executed before it; `steps` that it plays at most; `plain`, whether the env is
only played, without this library.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plangym_ext.core.files.whole_file import replacing

#: Steps of an env that is played without this library.
_PLAIN_STEPS = 50
#: For the comparison of futures.
_SECONDS = 5.0
_MOST_LETTERS = 800
#: Steps after a reset at which operations are timed; how often, unless that takes too long.
_DEPTH = 20
_REPEATS, _LEAST_REPEATS, _MOST_SECONDS = 200, 5, 2.0


def constructor(task: dict[str, Any]) -> str | Callable[[], Any]:
    """Return the id of an env, or a function that constructs it."""
    names: dict[str, Any] = {}
    exec(task["setup"], names)
    env: str = task["env"]
    # Of the list that comes with the library, or of the caller's.
    return (lambda: eval(env, names)) if "(" in env else env


def certificate(task: dict[str, Any]) -> dict[str, Any]:
    """Return the result for an env: its `outcome`, and figures or the `reason`."""
    import plangym_ext
    from plangym_ext.errors import PlangymExtError

    try:
        build = constructor(task)
        begun = _worked()
        with plangym_ext.make(build, backend="serial") as env:
            made = _worked()
            found = _examined(env, task["steps"])
        again = _worked()
        # With what was proved before: what is left is imports and the constructor.
        plangym_ext.make(build, backend="serial").close()
        return found | {"proof_s": round(made - begun - (_worked() - again), 2)}
    except PlangymExtError as error:
        return {"outcome": "refused", "reason": _short(error)}
    except Exception as error:
        return {"outcome": "error", "reason": f"{type(error).__name__}: {_short(error)}"}


def _worked() -> float:
    """Return the seconds of the processor that this process and its forks took."""
    return sum(os.times()[:4])


def played(task: dict[str, Any]) -> dict[str, Any]:
    """Play an env without states, and return the result."""
    import plangym_ext
    from plangym_ext.registry import constructor_of

    try:
        # Names of families of this library are no names of gymnasium.
        build, *_ = constructor_of(plangym_ext.make, constructor(task), "auto", None, {})
        env = build()
        env.action_space.seed(0)
        env.reset(seed=0)
        for _ in range(_PLAIN_STEPS):
            *_, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()
    except Exception as error:
        return {"outcome": "does not run", "reason": f"{type(error).__name__}: {_short(error)}"}
    return {"outcome": "runs", "reason": ""}


def operation_costs(env: Any, seed: int) -> dict[str, float]:
    """Return the microseconds of a step, and of a state's capture and restore after it.

    They are the least of many calls, in turn: other work on the machine only adds to them.
    """
    state, *_ = env.reset(seed=seed)
    env.action_space.seed(seed)
    for _ in range(_DEPTH):
        # Of gymnasium's env: `env.step` captures the state too, which is measured by itself.
        *_, terminated, truncated, _ = env.gym_env.step(env.sample_action())
        if terminated or truncated:
            break
        state = env.get_state()
    env.set_state(state)
    action = env.sample_action()
    calls: dict[str, Callable[[], Any]] = {
        "step": lambda: env.gym_env.step(action),
        "get state": env.get_state,
        "set state": lambda: env.set_state(state),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    begun = time.perf_counter()
    for count in range(_REPEATS):
        if count >= _LEAST_REPEATS and time.perf_counter() - begun > _MOST_SECONDS:
            break
        for name, call in calls.items():
            before = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - before)
    return {name: min(found) * 1e6 for name, found in times.items()}


def _examined(env: Any, steps: int) -> dict[str, Any]:
    from plangym_ext.core.check_env import check_env

    report = check_env(env, num_steps=steps, seconds=_SECONDS)
    trip = report.round_trip
    if not trip.exact:
        return {"outcome": "refused", "reason": f"found by doctor: {_short(trip.difference)}"}
    proof, costs = env.exactness, operation_costs(env, 0)
    return {
        "outcome": "exact",
        "way": proof.method,
        "proved": proof.proved,
        "steps": proof.steps,
        "episodes": proof.episodes,
        "transitions": proof.transitions,
        "instances": trip.instances,
        "no_second": _short(report.no_second),
        "width": env.state_width,
        "microseconds": {name: round(time, 2) for name, time in costs.items()},
    }


def _short(error: Exception | str) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= _MOST_LETTERS else text[: _MOST_LETTERS - 1] + "…"


def main() -> None:
    """Write the certificate."""
    task = json.loads(sys.argv[1])
    found = played(task) if task["plain"] else certificate(task)
    with replacing(Path(sys.argv[2])) as file:
        json.dump(found, file)
    sys.stdout.flush()
    os._exit(0)  # whatever threads and handles an env has left


if __name__ == "__main__":
    main()
