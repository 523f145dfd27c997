"""How fast is the tree? `python tests/benchmarks/search.py [--json FILE]`.

A trivial model with 4 actions and an evaluator that answers zeros, so that
nearly all of the time is the search's own. Next to it a plain-Python tree of
the usual design, one object per node and one model call per simulation.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from gymnasium.spaces import Discrete

from plangym_ext.planners import MCTS

ACTIONS = 4
SETTINGS = [(1, 200, 1), (1, 200, 8), (32, 128, 1), (32, 128, 8), (128, 64, 1), (128, 64, 8)]


class Batch(NamedTuple):
    states: np.ndarray
    obs: np.ndarray
    rewards: np.ndarray
    terminateds: np.ndarray
    truncateds: np.ndarray
    infos: dict


class Trivial:
    """A state is a number; an action hashes it into the next."""

    action_space = Discrete(ACTIONS)

    def step_batch(self, actions, states):
        number = states.view(np.int64) * 31 + actions[:, None] + 1
        never = np.zeros(len(number), bool)
        reward = (number[:, 0] % 7).astype(float)
        return Batch(number.view(np.uint8), number, reward, never, never, {})


class Node:
    def __init__(self, number, reward):
        self.number, self.reward, self.children = number, reward, {}
        self.visits, self.total = 0, 0.0


def plain_python(sims, gamma=0.99, c=1.5):
    """PUCT as it is usually written."""
    root = Node(0, 0.0)
    for _ in range(sims):
        path = [root]
        while True:
            here = path[-1]
            scores = [
                (child.total / child.visits / 10 if child else 0.0)
                + c / ACTIONS * math.sqrt(here.visits + 1) / (1 + (child.visits if child else 0))
                for child in (here.children.get(a) for a in range(ACTIONS))
            ]
            action = max(range(ACTIONS), key=scores.__getitem__)
            if action not in here.children:
                number = (here.number * 31 + action + 1) % 2**63
                here.children[action] = Node(number, float(number % 7))
                path.append(here.children[action])
                break
            path.append(here.children[action])
        ret = 0.0
        for node in reversed(path):
            ret = node.reward + gamma * ret
            node.visits += 1
            node.total += ret


def best_of(repeats, call):
    call()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times)


def ours(batch, sims, wave):
    planner = MCTS(sims, wave_size=wave, evaluator=lambda obs: (None, np.zeros(len(obs))))
    states, obs, model = np.zeros((batch, 8), np.uint8), np.zeros((batch, 1)), Trivial()
    rngs = [np.random.default_rng(i) for i in range(batch)]
    return best_of(5, lambda: planner.plan_batch(model, states, rngs=rngs, obs=obs))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the table to this file")
    options = parser.parse_args()
    rows = [("plain Python", 1, 200, 1, 200 / best_of(5, lambda: plain_python(200)))]
    for batch, sims, wave in SETTINGS:
        rows.append(("MCTS", batch, sims, wave, batch * sims / ours(batch, sims, wave)))
    print(f"{'tree':>14} {'trees':>6} {'sims':>6} {'wave':>6} {'sims/s':>12}")
    for name, batch, sims, wave, rate in rows:
        print(f"{name:>14} {batch:>6} {sims:>6} {wave:>6} {rate:>12,.0f}")
    if options.json:
        names = ("tree", "trees", "num_simulations", "wave_size", "simulations_per_second")
        options.json.write_text(json.dumps([dict(zip(names, r, strict=True)) for r in rows]))


if __name__ == "__main__":
    main()
