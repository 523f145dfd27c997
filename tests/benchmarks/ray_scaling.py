"""What the ray backend costs its driver, by actors, rows and bytes, and what follows for more.

    python tests/benchmarks/ray_scaling.py --out runs/ray_scaling.json

Clusters of this machine, with actors of one worker each. Envs sleep instead of stepping, so that
two processors are enough for eight actors:

- "asleep": rows of 1 ms each, shared by 1, 2, 4 and 8 actors; the part of 1, 2, 4 and 8 times the
  rate of one actor that is reached.
- "messages": one row for each actor that takes no time: seconds of a batch and of the driver's
  processor, by actors. A straight line through the latter is the cost of a batch and of an actor.
- "bytes": rows of several sizes in one actor, on the driver's node and on another one: what a
  megabyte of states and observations costs, there and back.

The model adds these up for machines of 64 processors with an actor each. Tables are those of
`docs/scaling.md`.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

sys.path.insert(0, str(Path(__file__).parents[1]))

import cloudpickle
import ray_cluster

from plangym_ext.run.files import write_json
from plangym_ext.workers.ray import ray_rows
from plangym_ext.workers.ray.ray_env import RayEnv

ACTORS = (1, 2, 4, 8)
ROW_SECONDS = 1e-3
#: Rows of an actor in a batch of such rows.
ROWS_EACH = (64, 256)
#: Processors of each machine that the model is extended to.
NODE = 64
CORES = (16, 256, 4096)


class Sleeper(gym.Env):
    """Takes a given time for a step, and shows and stores a given number of bytes."""

    def __init__(self, seconds: float, obs_bytes: int, state_bytes: int) -> None:
        self.observation_space = spaces.Box(0, 255, (obs_bytes,), np.uint8)
        self.action_space = spaces.Discrete(2)
        self._seconds, self._state = seconds, np.zeros(state_bytes, np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin."""
        super().reset(seed=seed)
        return np.zeros(self.observation_space.shape, np.uint8), {}

    def step(self, action: Any) -> Any:
        """Sleep."""
        if self._seconds:
            time.sleep(self._seconds)
        return np.zeros(self.observation_space.shape, np.uint8), 0.0, False, False, {}

    def get_state(self) -> np.ndarray:
        """Return the bytes."""
        return self._state.copy()

    def set_state(self, state: np.ndarray) -> None:
        """Take them."""
        self._state[:] = state


def timed(env: RayEnv, rows: int, rounds: int) -> tuple[float, float]:
    """Return the median seconds of a batch, and of the driver's processor for it."""
    state, *_ = env.reset(seed=0)
    states, actions = np.repeat(state[None], rows, axis=0), np.zeros(rows, int)
    walls, cpus = [], []
    for k in range(rounds + 3):
        wall, cpu = time.perf_counter(), time.process_time()
        env.step_batch(actions, states)
        if k >= 3:  # the first ones tell the actors' speeds
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
    return float(np.median(walls)), float(np.median(cpus))


def asleep(rounds: int, most: int) -> list[dict[str, float]]:
    """Measure actors that sleep."""
    found: list[dict[str, float]] = []
    one: dict[int, float] = {}
    make = functools.partial(Sleeper, ROW_SECONDS, 8, 64)
    for count in (n for n in ACTORS if n <= most):
        with RayEnv(make, n_workers=count, workers_per_actor=1) as env:
            ray_cluster.await_actors(env, count)
            for each in ROWS_EACH:
                wall, _ = timed(env, each * count, rounds)
                rate = each * count / wall
                reached = rate / (count * one.setdefault(each, rate))
                row = {"actors": count, "rows_each": each, "rows_per_second": rate}
                found.append({**row, "reached": reached})
    return found


def messages(rounds: int, most: int) -> dict[str, Any]:
    """Measure batches of one row for each actor."""
    found = []
    for count in (n for n in ACTORS if n <= most):
        with RayEnv(
            functools.partial(Sleeper, 0.0, 8, 64), n_workers=count, workers_per_actor=1
        ) as env:
            ray_cluster.await_actors(env, count)
            wall, cpu = timed(env, count, 5 * rounds)
        found.append({"actors": count, "batch_seconds": wall, "driver_seconds": cpu})
    each, batch = np.polyfit([n["actors"] for n in found], [n["driver_seconds"] for n in found], 1)
    return {"rows": found, "driver_per_batch": float(batch), "driver_per_actor": float(each)}


def by_bytes(rounds: int) -> dict[str, Any]:
    """Measure one actor near the driver and one on another node, with rows of several sizes."""
    found = []
    for near in (True, False):
        with ray_cluster.running((int(near), int(not near))):
            for obs, state in ((8, 64), (100_000, 64), (64, 6_000), (100_000, 6_000)):
                with RayEnv(functools.partial(Sleeper, 0.0, obs, state), n_workers=1) as env:
                    ray_cluster.await_actors(env, 1)
                    assert env.pool.actors[0].shares_memory == near
                    wall, cpu = timed(env, 128, rounds)
                row = {"near": near, "obs_bytes": obs, "state_bytes": state}
                found.append({**row, "batch_seconds": wall, "driver_seconds": cpu})
    far = [row for row in found if not row["near"]]
    megabytes = [128e-6 * (row["obs_bytes"] + 2 * row["state_bytes"]) for row in far]
    per_megabyte, _ = np.polyfit(megabytes, [row["driver_seconds"] for row in far], 1)
    return {"rows": found, "driver_per_megabyte": float(per_megabyte)}


def model(costs: dict[str, Any], *, row_seconds: float, row_bytes: int) -> list[dict[str, float]]:
    """Return what the driver costs with more processors, for batches of 50 ms.

    Args:
        costs: what was measured.
        row_seconds: of a step on one processor.
        row_bytes: that travel for it.
    """
    found = []
    for cores in CORES:
        nodes = -(-cores // NODE)
        rows = cores * 0.05 / row_seconds
        driver = costs["messages"]["driver_per_batch"]
        driver += nodes * costs["messages"]["driver_per_actor"]
        # Of one machine nothing travels: its actor is the driver's neighbour.
        megabytes = 1e-6 * rows * row_bytes * (nodes - 1) / nodes
        driver += megabytes * costs["bytes"]["driver_per_megabyte"]
        found.append(
            {
                "cores": cores,
                "rows": rows,
                "driver_seconds": driver,
                "part": min(1.0, 0.05 / (0.05 + driver)),
                "gigabits_per_second": 8e-3 * megabytes / (0.05 + driver),
            }
        )
    return found


def print_tables(found: dict[str, Any]) -> None:
    """All that was measured, and the model."""
    print("actors  rows of each  rows/s  part of so many times one")
    for row in found["asleep"]:
        size = f"{row['actors']:6} {row['rows_each']:13}"
        print(f"{size} {row['rows_per_second']:7.0f}  {row['reached']:.2f}")
    print("\nactors  batch ms  driver ms")
    for row in found["messages"]["rows"]:
        wall, cpu = 1e3 * row["batch_seconds"], 1e3 * row["driver_seconds"]
        print(f"{row['actors']:6} {wall:9.2f} {cpu:10.2f}")
    messages_found, bytes_found = found["messages"], found["bytes"]
    print(f"driver: {1e3 * messages_found['driver_per_batch']:.2f} ms a batch, ", end="")
    print(f"{1e3 * messages_found['driver_per_actor']:.2f} ms an actor, ", end="")
    print(f"{1e3 * bytes_found['driver_per_megabyte']:.2f} ms a megabyte from afar")
    print("\nnode  obs bytes  state bytes  128 rows: ms  driver ms")
    for row in bytes_found["rows"]:
        wall, cpu = 1e3 * row["batch_seconds"], 1e3 * row["driver_seconds"]
        where = "near" if row["near"] else "far"
        print(f"{where:4} {row['obs_bytes']:10} {row['state_bytes']:12} {wall:13.2f} {cpu:10.2f}")
    print("\nmodel        cores      rows  driver ms  part  Gbit/s")
    for name, rows in found["model"].items():
        for row in rows:
            driver, rate = 1e3 * row["driver_seconds"], row["gigabits_per_second"]
            size = f"{row['cores']:5} {row['rows']:9.0f}"
            print(f"{name:12} {size} {driver:10.1f} {row['part']:5.2f} {rate:7.1f}")


def main(argv: list[str] | None = None) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--actors", type=int, default=8, help="at most so many")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    options = parser.parse_args(argv)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    ray_rows._LEAST_SECONDS = 1e-9  # a row for each actor is to be worth it
    found: dict[str, Any] = {}
    with ray_cluster.running((options.actors,)):
        found["asleep"] = asleep(options.rounds, options.actors)
        found["messages"] = messages(options.rounds, options.actors)
    found["bytes"] = by_bytes(options.rounds)
    found["model"] = {
        # What a step takes, and the states there and back with the observation.
        "MsPacman RGB": model(found, row_seconds=4e-4, row_bytes=100_800 + 2 * 5_792),
        "HalfCheetah": model(found, row_seconds=4e-5, row_bytes=136 + 2 * 700),
    }
    if options.out is not None:
        write_json(options.out, found)
    print_tables(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
