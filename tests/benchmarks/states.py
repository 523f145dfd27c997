"""What capturing and restoring a state costs, family by family.

    python -P tests/benchmarks/states.py --out runs/states.json

Prints for each env how its state is captured, whether that is exact, the width of a
row, and microseconds to get, set and step; beside them the simulator's own copy, where
it has one, and plangym's, where it is installed. An operation is timed many times in
turn with the others, and the fastest time counts: the machine's noise only adds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import plangym_ext
from plangym_ext.core.envelope import HEADER
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import PlangymExtError
from plangym_ext.run.files import write_json
from plangym_ext.run.progress import ProgressLine

ENVS = [
    *("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0"),
    *("FrozenLake-v1", "CliffWalking-v1", "Taxi-v4", "Blackjack-v1"),
    *("Ant-v5", "HalfCheetah-v5", "Hopper-v5", "Humanoid-v5", "Pusher-v5", "Walker2d-v5"),
    *("ALE/MsPacman-v5", "ALE/Breakout-v5", "ALE/Pong-v5"),
    *("LunarLander-v3", "BipedalWalker-v3", "CarRacing-v3"),
    *("MiniGrid-DoorKey-5x5-v0", "highway-v0"),
]
_DEPTH = 30  # steps played before anything is timed


def fastest(functions: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Microseconds of each function, called in turn; the least of `rounds`."""
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, function in functions.items():
            begun = time.perf_counter()
            function()
            best[name] = min(best[name], time.perf_counter() - begun)
    return {name: round(seconds * 1e6, 2) for name, seconds in best.items()}


def own_copy(env: GymEnv) -> dict[str, Callable[[], Any]]:
    """The simulator's own get and set, where it has them."""
    base: Any = env.gym_env.unwrapped
    if hasattr(base, "data") and hasattr(base, "model"):
        import mujoco

        what = mujoco.mjtState.mjSTATE_INTEGRATION
        row = np.zeros(mujoco.mj_stateSize(base.model, what))
        mujoco.mj_getState(base.model, base.data, row, what)
        return {
            "own get": lambda: mujoco.mj_getState(base.model, base.data, row, what),
            "own set": lambda: mujoco.mj_setState(base.model, base.data, row, what),
        }
    if hasattr(base, "ale"):
        ale = getattr(base.ale, "_ale", base.ale)
        kept = ale.cloneState(include_rng=True)
        return {
            "own get": lambda: ale.cloneState(include_rng=True),
            "own set": lambda: ale.restoreState(kept),
        }
    return {}


def plangym_copy(name: str) -> dict[str, Callable[[], Any]]:
    """plangym's get and set of the same env, if it is installed and has it."""
    try:
        import plangym

        peer = plangym.make(name)
        state, *_ = peer.reset()
    except Exception:  # whatever a peer that does not fit raises
        return {}
    return {
        "plangym get": peer.get_state,
        "plangym set": lambda: peer.set_state(state),
    }


def measure(name: str, rounds: int) -> dict[str, Any]:
    """One row of the table."""
    with plangym_ext.make(name, backend="serial") as env:
        assert isinstance(env, GymEnv)
        env.reset(seed=0)
        for _ in range(_DEPTH):
            env.step(env.sample_action())
        codec, row = env.codec, bytearray(env.state_width)
        buffer = memoryview(row)
        codec.capture(buffer, HEADER)
        action = env.sample_action()
        state = env.get_state()
        timed: dict[str, Callable[[], Any]] = {
            "step": lambda: env.gym_env.step(action),
            "set": lambda: codec.restore(buffer, HEADER),
            "get": lambda: codec.capture(buffer, HEADER),
            # With the envelope: what a caller of the public methods pays.
            "get_state": env.get_state,
            "set_state": lambda: env.set_state(state),
        }
        found = fastest(timed | own_copy(env) | plangym_copy(name), rounds)
        return {
            "method": codec.parts[-1].method,
            "exact": codec.exact,
            "width": env.state_width,
            **found,
        }


def print_table(results: dict[str, Any]) -> None:
    """All rows, microseconds."""
    columns = ["get", "set", "own get", "own set", "get_state", "set_state", "step"]
    columns += ["plangym get", "plangym set"]
    heads = "".join(f"{column:>12}" for column in columns)
    print(f"{'env':26} {'way':9} {'exact':5} {'bytes':>7}{heads}")
    for name, row in results.items():
        if "error" in row:
            print(f"{name:26} {row['error']}")
            continue
        cells = "".join(f"{row.get(column, '-'):>12}" for column in columns)
        exact = "yes" if row["exact"] else "NO"
        print(f"{name:26} {row['method']:9} {exact:5} {row['width']:7}{cells}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--envs", nargs="+", default=ENVS)
    parser.add_argument("--rounds", type=int, default=300, help="times each operation is timed")
    parser.add_argument("--out", type=Path, default=Path("runs/states.json"))
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(options.out.read_text()) if options.out.exists() else {}
    results = kept.get("results", {}) if kept.get("version") == plangym_ext.__version__ else {}
    line = ProgressLine()
    for name in options.envs:
        if name in results:
            continue
        line.update(f"measuring {name}", force=True)
        try:
            results[name] = measure(name, options.rounds)
        except (PlangymExtError, ImportError) as error:
            results[name] = {"error": str(error).splitlines()[0]}
        write_json(options.out, {"version": plangym_ext.__version__, "results": results})
    line.end("done")
    print_table({name: results[name] for name in options.envs})


if __name__ == "__main__":
    main()
