"""Batches while workers are killed: is every row what it is without, and how fast is that?

    python tests/benchmarks/kills.py --kills 1000 --page docs/benchmarks_exactness.md

A thread kills random workers at random moments, those that are starting among them,
while batches, rollouts and steps in slots run on two workers. Every result is compared
bit for bit with the serial backend's. A row that differs is a wrong one; it counts as
stale if it is that of another batch, as misplaced if it is that of another row. All have
to be 0. Two kills of one row are held against the row (`PoisonState`); such a batch is
counted as given up, and run again. `--envs` takes ids of any envs too, such as
`package:Name-v0`.

"seen" is the time from the signal to when the parent knows; "recovered" from the signal
to the return of the batch that was running, which ends with all its rows done. An env
that is in the output file already is not run again; --again does.
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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from table.sections import measured, write_section

import plangym_ext
from plangym_ext.arrays.nested import content
from plangym_ext.core.plan_env import PlanEnv
from plangym_ext.errors import WorkerDied
from plangym_ext.run.files import write_json
from plangym_ext.run.progress import ProgressLine
from plangym_ext.states.envelope import stacked
from plangym_ext.workers.batch_env import ExternalProcess
from plangym_ext.workers.parallel_env import ParallelEnv

#: Envs by name: id, arguments, rows of a batch. Others are named by their ids.
CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "cartpole": ("CartPole-v1", {}, 512),
    "minigrid": ("MiniGrid-DoorKey-5x5-v0", {}, 64),
    "mspacman": ("ALE/MsPacman-v5", {"obs_type": "ram"}, 32),
}
_ROWS = 16  # of a batch of any other env
_BATCHES = 30  # different ones, which are run in turn
_HORIZON = 3
_STARTING = 0.2  # most of the kills that workers get while they start


@dataclass
class Tally:
    """What was found for one env; times in seconds."""

    env: str = ""
    package: str = ""
    size: int = 0
    batches: int = 0
    rows: int = 0
    given_up: int = 0
    wrong: int = 0
    stale: int = 0
    misplaced: int = 0
    kills: int = 0
    kills_of_starting: int = 0
    seen: list[float] = field(default_factory=list)
    recovered: list[float] = field(default_factory=list)
    undisturbed: list[float] = field(default_factory=list)


@dataclass
class Kill:
    """One signal, and when."""

    at: float
    process: Any


class Killer(threading.Thread):
    """Kills random workers at random moments until it has killed enough.

    Args:
        workers: which.
        count: how many kills.
        gap: seconds between two, on average.
        seed: of its choices.

    Attributes:
        kills: what it has killed, and when.
        starting: how many of these were starting.
        seen: seconds until each was seen to be gone.
    """

    def __init__(
        self, workers: Sequence[ExternalProcess], count: int, gap: float, seed: int
    ) -> None:
        super().__init__(daemon=True)
        self._workers, self._count, self._gap = workers, count, gap
        self._random = random.Random(seed)
        self._over = threading.Event()
        self.kills: list[Kill] = []
        self.starting = 0
        self.seen: list[float] = []

    def run(self) -> None:
        """Kill, and wait until that was seen."""
        while len(self.kills) < self._count and not self._over.is_set():
            self._over.wait(self._random.expovariate(1 / self._gap))
            worker = self._random.choice(self._workers)
            process = worker.process
            if process.fallen is not None or not process.alive or not self.wants(worker):
                continue
            self.starting += not worker.ready
            self.note(worker)
            self.kills.append(Kill(time.perf_counter(), process))
            os.kill(process.pid, signal.SIGKILL)
            while process.fallen is None and not self._over.wait(0.0005):
                pass
            self.seen.append(time.perf_counter() - self.kills[-1].at)

    def wants(self, worker: ExternalProcess) -> bool:
        """Whether to kill a worker that was chosen."""
        # Where a start takes seconds, hardly any other worker would be killed.
        return worker.ready or self.starting <= len(self.kills) * _STARTING

    def note(self, worker: ExternalProcess) -> None:
        """Called before a worker is killed."""

    def stop(self) -> None:
        """End the thread."""
        self._over.set()
        self.join()


def rows_of(result: Any, reference: PlanEnv) -> list[bytes]:
    """Everything that came back of each row, as bytes; states by `future` if need be."""
    leaves: list[np.ndarray] = []
    by_future = bool(reference.incomparable)

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            for key in sorted(part, key=repr):
                walk(part[key])
        elif isinstance(part, tuple):
            for item in part:
                walk(item)
        elif by_future and part.dtype == np.uint8 and part.shape[1:] == (reference.state_width,):
            leaves.append(np.array([future(reference, state) for state in part], object))
        else:
            leaves.append(np.asarray(part))

    walk(tuple(result[:-1]))
    infos = list(result.infos)
    return [
        b"".join(_bytes(leaf[i]) for leaf in leaves) + repr(infos[i]).encode()
        for i in range(len(infos))
    ]


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else np.asarray(value).tobytes()


def future(reference: PlanEnv, state: np.ndarray) -> bytes:
    """What a state's next step shows: equal states of some envs are different bytes."""
    reference.action_space.seed(0)
    try:
        found = reference.step(reference.action_space.sample(), state, return_state=False)
    except Exception as error:  # what envs raise after an ending
        return repr(error).encode()
    return content(tuple(found[:-1])) + repr(found.info).encode()


def plan(env: PlanEnv, size: int, seed: int) -> list[Callable[[PlanEnv], Any]]:
    """The batches: functions that run one of them on any backend."""
    state, *_ = env.reset(seed=seed)
    env.action_space.seed(seed)
    rng = np.random.default_rng(seed)
    found = [state]
    for _ in range(200):
        step = env.step(env.sample_action(), return_state=True)
        if step.terminated or step.truncated:  # many envs of other packages step no further
            found.append(env.reset()[0])
        else:
            found.append(step.state)
    pool = stacked(found, "kills")  # as wide as the widest

    def actions(*shape: int) -> np.ndarray:
        drawn = [env.sample_action() for _ in range(int(np.prod(shape)))]
        return np.stack(drawn).reshape(*shape, *np.shape(drawn[0]))

    calls: list[Callable[[PlanEnv], Any]] = []
    for k in range(_BATCHES):
        states = pool[rng.integers(len(pool), size=size)]
        if k % 3 == 0:
            acts = actions(size)
            calls.append(lambda e, a=acts, s=states: e.step_batch(a, s))  # type: ignore[misc]
        elif k % 3 == 1:
            acts = actions(size, _HORIZON)
            calls.append(lambda e, a=acts, s=states: e.rollout_batch(a, s))  # type: ignore[misc]
        else:
            acts = actions(size)
            calls.append(lambda e, a=acts, s=states: in_slots(e, a, s))  # type: ignore[misc]
    return calls


def in_slots(env: PlanEnv, actions: np.ndarray, states: np.ndarray) -> Any:
    """A batch in slots, of which every other source is a target too."""
    slots = env.states.allocate(2 * len(states))
    try:
        sources, targets = slots[: len(states)], slots[len(states) // 2 :][: len(states)]
        env.states[sources] = states
        result = env.step_slots(actions, sources, targets)
        found = env.states[targets]
    finally:
        env.states.free(slots)
    return Stepped(found, *result)


class Stepped(tuple):  # type: ignore[type-arg]
    """States, and what a step in slots returns."""

    def __new__(cls, *parts: Any) -> Stepped:
        """Of these parts."""
        return super().__new__(cls, parts)

    @property
    def infos(self) -> Any:
        """The last part."""
        return self[-1]


def judge(tally: Tally, got: list[bytes], wanted: list[list[bytes]], k: int) -> None:
    """Compare the rows of batch `k` with those of a run without kills."""
    tally.rows += len(got)
    for i, row in enumerate(got):
        if row == wanted[k][i]:
            continue
        tally.wrong += 1
        tally.misplaced += row in wanted[k]
        tally.stale += any(row in other for other in wanted)


def run_case(name: str, kills: int, gap: float, seed: int, progress: ProgressLine) -> Tally:
    """Run one env until its workers have been killed often enough."""
    env_id, arguments, size = CASES.get(name, (name, {}, _ROWS))
    with contextlib.ExitStack() as stack:
        reference = stack.enter_context(plangym_ext.make(env_id, backend="serial", **arguments))
        package = type(reference.gym_env.unwrapped).__module__.partition(".")[0]
        tally = Tally(reference.name, package, size)
        calls = plan(reference, size, seed)
        wanted = [rows_of(call(reference), reference) for call in calls]
        env = stack.enter_context(
            plangym_ext.make(env_id, n_workers=2, backend="process", **arguments)
        )
        assert isinstance(env, ParallelEnv)
        for k, call in enumerate(calls):
            begun = time.perf_counter()
            judge(tally, rows_of(call(env), reference), wanted, k)
            tally.undisturbed.append(time.perf_counter() - begun)
        killer = Killer(list(env.batch_env), kills, gap, seed)
        killer.start()
        counted = 0
        while killer.is_alive():
            k = tally.batches % len(calls)
            try:
                found = call_until_done(calls[k], env, tally)
            except BaseException:
                killer.stop()
                raise
            now = time.perf_counter()
            tally.batches += 1
            while counted < len(killer.kills) and killer.kills[counted].process.fallen is not None:
                tally.recovered.append(now - killer.kills[counted].at)
                counted += 1
            judge(tally, rows_of(found, reference), wanted, k)
            progress.update(f"{name}: {len(killer.kills)} of {kills} kills, {tally.wrong} wrong")
        killer.stop()
        tally.kills, tally.kills_of_starting = len(killer.kills), killer.starting
        tally.seen = killer.seen
    return tally


def call_until_done(call: Callable[[PlanEnv], Any], env: PlanEnv, tally: Tally) -> Any:
    """Run a batch, again if a row or the workers' starts are killed over and over."""
    while True:
        try:
            return call(env)
        except WorkerDied:
            tally.given_up += 1


def summary(tally: Tally) -> dict[str, Any]:
    """A row of the table; times in milliseconds."""
    row: dict[str, Any] = {
        key: getattr(tally, key)
        for key in (
            *("env", "package", "size", "kills", "kills_of_starting", "batches", "rows"),
            *("given_up", "wrong", "stale", "misplaced"),
        )
    }
    for key in ("seen", "recovered", "undisturbed"):
        row[key] = percentiles(getattr(tally, key))
    row["measured"] = measured()
    return row


def percentiles(seconds: list[float]) -> dict[str, float]:
    """Of some times, in milliseconds."""
    times = np.array(seconds or [0.0]) * 1e3
    return {f"p{q}": round(float(np.percentile(times, q)), 2) for q in (50, 90, 99, 100)}


def page(results: dict[str, Any]) -> str:
    """Return the table of all envs, in Markdown."""
    lines = [
        "| env (package), rows of a batch | kills (of starting workers) | batches | rows | "
        "wrong rows | given up | seen, p50 / p99 / most | measured |",
        "|---|---:|---:|---:|---:|---:|---|---|",
    ]
    for row in results.values():
        seen = " / ".join(f"{row['seen'][q]:.0f}" for q in ("p50", "p99", "p100"))
        cells = [
            f"`{row['env']}` ({row['package']}), {row['size']}",
            f"{row['kills']} ({row['kills_of_starting']})",
            *(f"{row[key]:,}" for key in ("batches", "rows", "wrong", "given_up")),
            f"{seen} ms",
            row["measured"],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def run_program(
    argv: list[str] | None,
    doc: str | None,
    gap: float,
    cases: Sequence[str],
    run: Callable[[str, int, float, int, ProgressLine], dict[str, Any]],
    *,
    others: bool = False,
    section: str = "",
) -> dict[str, Any]:
    """Run the envs of a program that kills workers; what its file has is not run again.

    Args:
        argv: the command line.
        doc: of the program.
        gap: default of the mean seconds between two kills.
        cases: names of the envs, which share the kills evenly.
        run: plays an env, given its name, kills, gap and seed; returns its row.
        others: whether ids of other envs may be named too.
        section: the part of a page that `--page` writes; "" if there is none.

    Returns:
        The row of every env, by name.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=1000, help="over all envs that are run")
    parser.add_argument("--gap", type=float, default=gap, help="mean seconds between two kills")
    choices = None if others else list(cases)
    parser.add_argument("--envs", nargs="+", choices=choices, default=list(cases))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    parser.add_argument("--again", action="store_true", help="run envs that are in it already")
    if section:
        parser.add_argument("--page", type=Path, help="to write its part")
    options = parser.parse_args(argv)
    results: dict[str, Any] = {}
    if options.out and options.out.exists() and not options.again:
        results = json.loads(options.out.read_text())["results"]
    progress = ProgressLine()
    for name in options.envs:
        if name in results:
            continue
        share = -(-options.kills // len(options.envs))
        results[name] = run(name, share, options.gap, options.seed, progress)
        if options.out:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            write_json(options.out, {"gap": options.gap, "results": results})
    progress.end("done")
    if section and options.page:
        write_section(options.page, section, page(results))
    return results


def main(argv: list[str] | None = None) -> int:
    """Run the program; returns how many envs had a wrong row."""
    results = run_program(
        *(argv, __doc__, 0.25, list(CASES), lambda *to: summary(run_case(*to))),
        others=True,
        section="kills",
    )
    print(page(results))
    return sum(row["wrong"] > 0 for row in results.values())


if __name__ == "__main__":
    raise SystemExit(main())
