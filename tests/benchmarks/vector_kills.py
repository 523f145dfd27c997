"""Vector envs whose workers are killed: is every step what it is without, and is none lost?

    python tests/benchmarks/vector_kills.py --kills 1000 --out runs/vector_kills.json

A thread kills random workers at random moments (those that start, are brought back, replay or
reset among them) while a vector env on two workers is stepped (into arrays of the caller's, and
with two steps in flight, too), reset in full and in part, and brought to states. Every result is
compared bit for bit with that of an equal vector env in this process. A result that differs is a
wrong one; one that cannot be had because sub-envs have to be reset is a lost one; one that raises
anything is an error, and is asked for again. All have to be 0, but for errors of workers that were
killed in the very same sub-env's step three times in a row.

"seen" is the time from the signal to when the parent knows; "late" what the calls took that saw
a death, "usual" what the others took. An env that is in the output file already is not run
again; --again does.
"""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from kills import Killer, percentiles, run_program  # beside this file

import plangym_ext
from plangym_ext import Array
from plangym_ext.errors import PlangymExtError, ResetNeeded
from plangym_ext.run.progress import ProgressLine
from plangym_ext.vector.sub_envs.env_backend import EnvBackend
from plangym_ext.vector.vector_env import PlanVectorEnv

#: Envs by name: id and arguments.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "cartpole": ("CartPole-v1", {}),
    "mujoco": ("InvertedPendulum-v5", {}),
    "atari": ("ALE/MsPacman-v5", {"obs_type": "ram"}),
    "lunarlander": ("LunarLander-v3", {}),
}
_NUM_ENVS = 4
Call = Callable[[PlanVectorEnv], Any]


@dataclass
class Tally:
    """What was found for one env; times in seconds."""

    calls: int = 0
    wrong: int = 0
    lost: int = 0
    errors: int = 0
    kills: int = 0
    kills_while: dict[str, int] = field(default_factory=dict)
    seen: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    usual: list[float] = field(default_factory=list)


class PhaseKiller(Killer):
    """Notes what each worker was at when it was killed."""

    def __init__(self, backend: EnvBackend, count: int, gap: float, seed: int) -> None:
        self._logs = {log.host.worker: log for log in backend.logs}  # type: ignore[attr-defined]
        super().__init__(list(self._logs), count, gap, seed)
        self.phases: Counter[str] = Counter()
        self._doomed: dict[Any, bool] = {}

    def wants(self, worker: Any) -> bool:
        """Three in ten are killed as they start, the others later: or none would ever come up."""
        if worker.ready:
            return True
        doomed: bool = self._doomed.setdefault(worker.process, self._random.random() < 0.3)
        return doomed

    def note(self, worker: Any) -> None:
        """Count what it was at."""
        self.phases[self._logs[worker].phase.name.lower()] += 1


def calls_of(space: gym.Space[Any], rng: np.random.Generator) -> Call:
    """One random call that can be made of any equal vector env."""
    kind = rng.integers(100)
    if kind < 2:
        seed = int(rng.integers(1000))
        return lambda v: v.reset(seed=seed)
    if kind < 4:
        mask = rng.random(_NUM_ENVS) < 0.5
        mask[rng.integers(_NUM_ENVS)] = True
        return lambda v: v.reset(options={"reset_mask": mask})
    if kind < 6:
        return lambda v: v.get_states()
    if kind < 8:
        return lambda v: v.fork(0, [_NUM_ENVS - 1])
    order = rng.permutation(_NUM_ENVS)
    if kind < 10:
        rows = rng.permutation(_NUM_ENVS)[:2]
        actions = space.sample()[rows]
        return lambda v: v.step(actions, rows)
    actions = space.sample()
    if kind < 20:
        return lambda v: step_halves(v, actions, np.split(order, 2))
    if kind < 30:
        return lambda v: step_into_arrays(v, actions)
    return lambda v: v.step(actions)


def step_halves(venv: PlanVectorEnv, actions: Any, halves: list[np.ndarray]) -> Any:
    """Step two halves in flight, and again alone what has failed."""
    for half in halves:
        venv.step_async(actions[half], half)
    found: list[Any] = []
    for _ in halves:
        try:
            found.append(venv.step_wait())
        except PlangymExtError as error:
            print(f"\n{type(error).__name__}: {error}", flush=True)
            found.append(None)
    return [
        venv.step(actions[half], half) if one is None else one
        for one, half in zip(found, halves, strict=True)
    ]


def step_into_arrays(venv: PlanVectorEnv, actions: Any) -> Any:
    """Step, with results written to new arrays in shared memory."""
    space = venv.single_observation_space
    shape, num = space.shape, venv.num_envs
    out = {
        "obs": Array((num,), space.dtype, feature_shape=shape, storage="shared"),
        "rewards": Array((num,), np.float64, storage="shared"),
        "terminateds": Array((num,), bool, storage="shared"),
        "truncateds": Array((num,), bool, storage="shared"),
    }
    *arrays, infos = venv.step(actions, out=out)
    return *(np.array(array) for array in arrays), infos


def equal(got: Any, expected: Any) -> bool:
    """Whether two results are the same, bit for bit."""
    if isinstance(expected, dict):
        same = isinstance(got, dict) and got.keys() == expected.keys()
        return same and all(equal(got[key], expected[key]) for key in expected)
    if isinstance(expected, tuple | list):
        return len(got) == len(expected) and all(map(equal, got, expected))
    if isinstance(expected, np.ndarray) and expected.dtype != object:
        return bool(got.dtype == expected.dtype and got.tobytes() == expected.tobytes())
    if isinstance(expected, np.ndarray):
        return equal(got.tolist(), expected.tolist())
    return bool(got == expected)


def call_until_done(call: Call, venv: PlanVectorEnv, tally: Tally) -> Any:
    """Make a call, again if it raises: sub-envs should be where they were before it."""
    while True:
        try:
            return call(venv)
        except ResetNeeded:
            tally.lost += 1
            venv.reset(seed=0)
            return None
        except PlangymExtError as error:
            tally.errors += 1
            print(f"\n{type(error).__name__}: {error}", flush=True)


def run_case(name: str, kills: int, gap: float, seed: int, progress: ProgressLine) -> Tally:
    """Play one env until its workers have been killed often enough."""
    env_id, arguments = CASES[name]
    make = functools.partial(plangym_ext.make_vec, env_id, _NUM_ENVS, **arguments)
    tally, rng = Tally(), np.random.default_rng(seed)
    with make(backend="serial") as plain, make(n_workers=2, backend="process") as venv:
        space = plain.action_space
        space.seed(seed)
        backend = venv._backend
        assert isinstance(backend, EnvBackend)
        equal(venv.reset(seed=seed), plain.reset(seed=seed))
        killer = PhaseKiller(backend, kills, gap, seed)
        killer.start()
        try:
            while killer.is_alive():
                call = calls_of(space, rng)
                before, begun = len(killer.seen), time.perf_counter()
                got = call_until_done(call, venv, tally)
                took = time.perf_counter() - begun
                (tally.late if len(killer.seen) > before else tally.usual).append(took)
                tally.calls += 1
                tally.wrong += not equal(got, call(plain))
                progress.update(
                    f"{name}: {len(killer.kills)} of {kills} kills, {tally.wrong} wrong"
                )
        finally:
            killer.stop()
        tally.kills, tally.seen = len(killer.kills), killer.seen
        tally.kills_while = dict(killer.phases)
    return tally


def summary(tally: Tally) -> dict[str, Any]:
    """A row of the table; times in milliseconds."""
    keys = ("kills", "kills_while", "calls", "wrong", "lost", "errors")
    row: dict[str, Any] = {key: getattr(tally, key) for key in keys}
    return row | {key: percentiles(getattr(tally, key)) for key in ("seen", "late", "usual")}


def print_table(results: dict[str, Any]) -> None:
    """All envs."""
    print(
        f"{'env':12} {'kills':>6} {'calls':>8} {'wrong':>6} {'lost':>5} {'errors':>6} | seen ms "
        "p50 p99 max | late ms p50 p99 max | usual ms p50 | killed while"
    )
    for name, row in results.items():
        seen, late = row["seen"], row["late"]
        phases = ", ".join(f"{key} {count}" for key, count in sorted(row["kills_while"].items()))
        print(
            f"{name:12} {row['kills']:6} {row['calls']:8} {row['wrong']:6} {row['lost']:5} "
            f"{row['errors']:6} | {seen['p50']:.1f} {seen['p99']:.1f} {seen['p100']:.1f} | "
            f"{late['p50']:.0f} {late['p99']:.0f} {late['p100']:.0f} | {row['usual']['p50']:.2f} | "
            f"{phases}"
        )


def main(argv: list[str] | None = None) -> int:
    """Run the program; returns how many envs had a wrong, lost or failed call."""
    results = run_program(argv, __doc__, 0.2, list(CASES), lambda *to: summary(run_case(*to)))
    print_table(results)
    return sum(any(row[key] for key in ("wrong", "lost", "errors")) for row in results.values())


if __name__ == "__main__":
    raise SystemExit(main())
