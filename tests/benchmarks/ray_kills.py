"""Batches on a Ray cluster while actors, their workers and whole nodes are killed.

    python tests/benchmarks/ray_kills.py --kills 200 --out runs/ray_kills.json

A cluster of three nodes on this machine, one of them the driver's. A thread kills at random
moments: a worker of an actor, an actor, or a node that is not the driver's, which is added again
later. Every batch is compared bit for bit with the serial backend's. A batch that was given up
(`WorkerDied`, a row that was killed twice among them) is run again and counted.

What was done is in the output file after every batch: a run that is stopped goes on from there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import leaks
import ray_cluster

import plangym_ext
from plangym_ext.errors import WorkerDied
from plangym_ext.run.files import write_json
from plangym_ext.workers.ray import ray_rows

NAME, ROWS, BATCHES, HORIZON = "MiniGrid-DoorKey-5x5-v0", 128, 12, 5
#: How often each is killed: to have a node back takes seconds.
KINDS = {"worker": 5, "actor": 4, "node": 1}


class Killer(threading.Thread):
    """Kills what an env runs on at random moments, until told to stop.

    Args:
        cluster: whose nodes are killed.
        env: whose actors and workers are.
        left: kills to go.
        gap: mean seconds between two.
        rng: draws moments and victims.

    Attributes:
        done: kills by kind.
    """

    def __init__(self, cluster: Any, env: Any, left: int, gap: float, rng: random.Random) -> None:
        super().__init__(daemon=True)
        self._cluster, self._env, self._left, self._gap, self._rng = cluster, env, left, gap, rng
        self.done = dict.fromkeys(KINDS, 0)
        self._missing = 0
        self.over = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Kill."""
        try:
            while sum(self.done.values()) < self._left:
                if self.over.wait(self._rng.expovariate(1 / self._gap)):
                    return
                (kind,) = self._rng.choices(list(KINDS), list(KINDS.values()))
                self.done[kind] += getattr(self, f"_kill_{kind}")()
        except BaseException as error:
            self.error = error
        finally:
            self.over.set()

    def _kill_actor(self) -> int:
        pids = self._pids()
        return kill(self._rng.choice(pids)) if pids else 0

    def _kill_worker(self) -> int:
        pids = [child for pid in self._pids() for child, *_ in leaks.children(pid)]
        return kill(self._rng.choice(pids)) if pids else 0

    def _kill_node(self) -> int:
        nodes = [node for node in self._cluster.list_all_nodes() if not node.head]
        if not nodes:
            return 0
        self._cluster.remove_node(self._rng.choice(nodes), allow_graceful=False)
        self._missing += 1
        return 1

    def bring_back(self) -> None:
        """Add nodes for those that were killed; Ray wants to do so in the main thread."""
        while self._missing:
            self._missing -= 1
            self._cluster.add_node(num_cpus=1, object_store_memory=ray_cluster.STORE)

    def _pids(self) -> list[int]:
        known = [actor.description for actor in self._env.pool.actors]
        return [one["pid"] for one in known if one is not None]


def kill(pid: int) -> int:
    """Kill a process; whether there was one."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return 1
    return 0


def batches() -> list[tuple[Any, np.ndarray, Any]]:
    """Return actions, states and what the serial backend makes of them."""
    rng, found = np.random.default_rng(0), []
    with plangym_ext.make(NAME, backend="serial") as env:
        state, *_ = env.reset(seed=0)
        env.action_space.seed(0)
        pool = [state]
        for _ in range(60):
            pool.append(env.step(env.sample_action(), return_state=True).state)
        for _ in range(BATCHES):
            states = np.stack(pool)[rng.integers(len(pool), size=ROWS)]
            actions = rng.integers(env.action_space.n, size=(ROWS, HORIZON))
            found.append((actions, states, env.rollout_batch(actions, states)))
    return found


def wrong_rows(found: Any, wanted: Any) -> int:
    """Return how many rows differ in a byte."""
    fields = ("states", "rewards", "terminateds", "truncateds", "steps")
    same = np.ones(ROWS, bool)
    pairs = [(getattr(found, name), getattr(wanted, name)) for name in fields]
    pairs += [(found.obs[key], wanted.obs[key]) for key in ("image", "direction")]
    for mine, theirs in pairs:
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        same &= (mine.reshape(ROWS, -1) == theirs.reshape(ROWS, -1)).all(axis=1)
    return int((~same).sum())


def play(env: Any, killer: Killer, tally: dict[str, Any], out: Path | None) -> None:
    """Run batches, two at a time, while there is killing."""
    prepared, before = batches(), dict(tally["kills"])
    number = 0
    while not killer.over.is_set():
        killer.bring_back()
        chosen = [prepared[(number + k) % BATCHES] for k in range(2)]
        number += 1
        began = time.perf_counter()
        for actions, states, wanted in chosen:
            # The second one finds queues that the first has filled.
            other = env.step_batch_async(actions[:, 0], states)
            while True:
                try:
                    found = env.rollout_batch(actions, states)
                    break
                except WorkerDied:
                    tally["given_up"] += 1
            with contextlib.suppress(WorkerDied):
                tally["steps"] += len(other.wait().rewards)
            tally["wrong"] += wrong_rows(found, wanted)
            tally["batches"] += 1
            tally["rows"] += len(found.rewards)
            tally["steps"] += int(found.steps.sum())
            tally["lost_steps"] += int(wanted.steps.sum() - found.steps.sum())
        tally["slowest"] = max(tally["slowest"], time.perf_counter() - began)
        tally["kills"] = {kind: before[kind] + killer.done[kind] for kind in KINDS}
        if out is not None:
            write_json(out, tally)


def main(argv: list[str] | None = None) -> int:
    """Run the program; 1 if a row was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--gap", type=float, default=0.5, help="mean seconds between two kills")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    options = parser.parse_args(argv)
    tally: dict[str, Any] = {"kills": dict.fromkeys(KINDS, 0), "slowest": 0.0}
    tally |= dict.fromkeys(("batches", "rows", "steps", "given_up", "wrong", "lost_steps"), 0)
    if options.out is not None and options.out.exists():
        tally |= json.loads(options.out.read_text())
    left = options.kills - sum(tally["kills"].values())
    ray_rows._LEAST_SECONDS = 1e-9  # few rows are worth sharing
    if left > 0:
        with (
            ray_cluster.running((1, 1, 1)) as cluster,
            plangym_ext.make(NAME, backend="ray") as env,
        ):
            ray_cluster.await_actors(env, 3)
            seed = options.seed + sum(tally["kills"].values())
            killer = Killer(cluster, env, left, options.gap, random.Random(seed))
            killer.start()
            try:
                play(env, killer, tally, options.out)
            finally:
                killer.over.set()
                killer.join()
            if killer.error is not None:
                raise killer.error
    kinds = ", ".join(f"{count} of {kind}s" for kind, count in tally["kills"].items())
    print(
        f"{sum(tally['kills'].values())} kills ({kinds}); {tally['batches']} batches, "
        f"{tally['rows']} rows, {tally['steps']} steps; {tally['wrong']} rows wrong, "
        f"{tally['lost_steps']} steps lost, {tally['given_up']} batches given up; "
        f"slowest pair of batches {tally['slowest']:.1f} s"
    )
    return 1 if tally["wrong"] or tally["lost_steps"] else 0


if __name__ == "__main__":
    sys.exit(main())
