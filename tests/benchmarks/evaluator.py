"""What does a search with a network spend its time on? `python tests/benchmarks/evaluator.py`.

32 trees of 64 simulations each on CartPole, with an MLP of two layers of 64 as evaluator.
Environment and network are timed at the calls that the search makes; the rest is the
search's own. It must be at most 25 %, and a call must have at least 24 rows in the mean.
Beside it stands what the tree's compiled code takes of that, without which there is no search:
the rest are Python's calls, and checks of what env and evaluator answer.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import time
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from table.sections import write_section

import plangym_ext
from plangym_ext.learn import NetworkConfig, NetworkEvaluator, make_network
from plangym_ext.planners import MCTS
from plangym_ext.planners.lockstep.search import Search

TREES, SIMULATIONS = 32, 64
LEAST_ROWS, MOST_OUTSIDE = 24, 0.25


class Timed:
    """A callable, and the seconds spent in it."""

    def __init__(self, call):
        self.call, self.seconds = call, 0.0

    def __call__(self, *args, **kwargs):
        return self.run(self.call, *args, **kwargs)

    def run(self, call, *args, **kwargs):
        """Count what another call takes."""
        started = time.perf_counter()
        try:
            return call(*args, **kwargs)
        finally:
            self.seconds += time.perf_counter() - started


class Model:
    """The env as a search sees it, with a clock on what it steps."""

    def __init__(self, env):
        self.action_space, self.observation_space = env.action_space, env.observation_space
        self.step_batch = Timed(env.step_batch)
        self._env = env

    def simulator(self):
        """What compiled code steps by; what it steps is on the clock too."""
        offer = getattr(self._env, "simulator", None)
        return None if offer is None else Rules(offer(), self.step_batch)


class Rules:
    """A simulator whose compiled code is on the clock of the batches."""

    def __init__(self, simulator, clock):
        self._simulator, self._clock = simulator, clock

    def __getattr__(self, name):
        return getattr(self._simulator, name)

    def build(self, make, example):
        """The same code; the clock counts what it takes."""
        return functools.partial(self._clock.run, self._simulator.build(make, example))


def on_the_clock(tree):
    """Have the compiled code that selects, writes and backs up waves run on a clock."""
    prepared = Search._prepared

    def clocked(self):
        data, kernel = prepared(self)
        # That of an earlier plan is on the clock already.
        own = kernel.args[0] if isinstance(kernel, functools.partial) else kernel
        return data, functools.partial(tree.run, own)

    return mock.patch.object(Search, "_prepared", clocked)


def measure(env, evaluator, wave, repeats):
    """Medians over some plans of 32 trees: seconds, and shares of env, network and tree."""
    model, network, tree = Model(env), Timed(evaluator), Timed(None)
    with on_the_clock(tree):
        return _measured(model, network, tree, env, evaluator, wave, repeats)


def _measured(model, network, tree, env, evaluator, wave, repeats):
    states, obs = zip(*[env.reset(seed=i)[:2] for i in range(TREES)], strict=True)
    states, obs = np.stack(states), np.stack(obs)
    planner = MCTS(SIMULATIONS, wave_size=wave, evaluator=network)
    totals, envs, networks, trees = [], [], [], []
    for i in range(repeats + 3):
        rngs = [np.random.default_rng([i, b]) for b in range(TREES)]
        model.step_batch.seconds = network.seconds = tree.seconds = 0.0
        evaluator.calls = evaluator.rows = 0
        started = time.perf_counter()
        planner.plan_batch(model, states, rngs=rngs, obs=obs)
        totals.append(time.perf_counter() - started)
        envs.append(model.step_batch.seconds / totals[-1])
        networks.append(network.seconds / totals[-1])
        trees.append(tree.seconds / totals[-1])
    # The first ones compile and warm up.
    measured = totals, envs, networks, trees
    seconds, in_env, in_network, in_tree = (statistics.median(x[3:]) for x in measured)
    outside = 1 - in_env - in_network
    return {
        "wave_size": wave,
        "simulations_per_second": round(TREES * SIMULATIONS / seconds),
        "rows_per_call": round(evaluator.rows / evaluator.calls, 1),
        "environment": round(in_env, 3),
        "network": round(in_network, 3),
        "outside": round(outside, 3),
        "tree": round(in_tree, 3),
        "outside_us": round(1e6 * outside * seconds / (TREES * SIMULATIONS), 2),
    }


def page(rows, repeats):
    """The part of the page of benchmarks."""
    lines = [
        "## A search with a network",
        "",
        f"{TREES} trees of {SIMULATIONS} simulations on CartPole; an MLP of two layers of 64 as",
        "evaluator, on one thread. Shares of a plan's time: in the env's `step_batch`, or",
        "in compiled code that steps by its rules, in the evaluator, and outside both, which is",
        "the search's own. A wave is one call. Medians",
        f"of {repeats} plans. Asked for are at least {LEAST_ROWS} rows per call and at most",
        f"{MOST_OUTSIDE:.0%} outside. Of what is outside, the compiled code of the tree takes the",
        "share beside it; the rest are Python's calls, and checks of what env and evaluator",
        "answer. `tests/benchmarks/evaluator.py` measures it.",
        "",
        "| backend | wave size | simulations/s | rows per call | environment | network | outside "
        "| of it the tree | outside, us a simulation |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        names = "environment", "network", "outside", "tree"
        shares = " | ".join(f"{row[name]:.1%}" for name in names)
        lines.append(
            f"| {row['backend']} | {row['wave_size']} | {row['simulations_per_second']:,} | "
            f"{row['rows_per_call']} | {shares} | {row['outside_us']:.2f} |"
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the table to this file")
    parser.add_argument("--page", type=Path, help="and to this page of benchmarks")
    parser.add_argument("--backends", nargs="+", default=["kernel", "serial", "process"])
    parser.add_argument("--repeats", type=int, default=60, help="plans of 32 trees each")
    parser.add_argument("--compile", action="store_true", help="compile the network")
    options = parser.parse_args()
    # More threads are no faster for layers this small, and take the env's processors.
    torch.set_num_threads(1)
    rows = []
    for backend in options.backends:
        workers = {"n_workers": 2} if backend == "process" else {}
        with plangym_ext.make("CartPole-v1", backend=backend, **workers) as env:
            spaces = env.observation_space, env.action_space
            network = make_network(*spaces, NetworkConfig(hidden=(64, 64)), seed=0)
            evaluator = NetworkEvaluator(network, compile=options.compile)
            for wave in (1, 8):
                row = {"backend": backend, **measure(env, evaluator, wave, options.repeats)}
                met = row["rows_per_call"] >= LEAST_ROWS and row["outside"] <= MOST_OUTSIDE
                rows.append({**row, "met": met})
                print(json.dumps(rows[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    if options.page:
        write_section(options.page, "evaluator", page(rows, options.repeats))
    return 0 if all(row["met"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
