"""How fast is the tree? `python tests/benchmarks/search.py [--json FILE] [--only SECTION ...]`.

A trivial model with 4 actions and leaves that are worth nothing, so that nearly all of
the time is the search's own. Sections:

    trees     MCTS in compiled code, in batches of numpy, and a plain-Python tree of the
              usual design, with one object per node and one model call per simulation
    mctx      mctx's two policies on the same model, where mctx is installed (`tox -e mctx`)
    cartpole  moves per second on the CartPole kernel, with random rollouts

Every figure is the best of some repetitions, on as many threads as the program takes.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import time
from pathlib import Path
from typing import NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import plangym_ext
from plangym_ext.planners import MCTS

ACTIONS = 4
#: Trees, simulations, and how many times mctx's better policy we aim at.
SHAPES = [(1, 200, 20), (32, 128, 5), (128, 64, 3)]
#: How many times the plain-Python tree we aim at, and moves per second on CartPole.
AGAINST_PYTHON, CARTPOLE_MOVES = 100, 1000


class Hashing(gym.Env):
    """A state is a number; an action hashes it into the next."""

    observation_space = spaces.Box(-(2**62), 2**62, (1,), np.int64)
    action_space = spaces.Discrete(ACTIONS)
    number = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number = 0
        return np.zeros(1, np.int64), {}

    def step(self, action):
        self.number = (self.number * 31 + int(action) + 1) & 0xFFFF_FFFF
        return np.array([self.number]), float(self.number % 7), False, False, {}

    def get_state(self):
        return np.array([self.number], np.int64).view(np.uint8)

    def set_state(self, state):
        self.number = int(np.array(state).view(np.int64)[0])


def step(state, params, action, info):
    state["number"] = (state["number"] * 31 + action + 1) & 0xFFFF_FFFF
    return float(state["number"] % 7), False, False


def reset(state, params):
    state["number"] = 0


def observe(state, params, obs):
    obs[0] = state["number"]


def hashing_env(**options):
    state = np.dtype([("number", "<i8")])
    kernel = plangym_ext.Kernel(state, step, reset, observe)
    return plangym_ext.KernelEnv(plangym_ext.GymEnv(Hashing, name="Hashing"), kernel, **options)


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
                number = (here.number * 31 + action + 1) % 2**32
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


class Row(NamedTuple):
    tree: str
    trees: int
    num_simulations: int
    wave_size: int
    simulations_per_second: float


def ours(batch, sims, wave, *, compiled, repeats=50):
    planner = MCTS(sims, wave_size=wave, rollout_depth=0, compiled=compiled)
    rngs = [np.random.default_rng(i) for i in range(batch)]
    with hashing_env() as env:
        state, *_ = env.reset(seed=0)
        states = np.repeat(state[None], batch, axis=0)
        seconds = best_of(repeats, lambda: planner.plan_batch(env, states, rngs=rngs))
    name = "MCTS, compiled" if compiled else "MCTS, batches"
    return Row(name, batch, sims, wave, batch * sims / seconds)


def trees():
    rows = [Row("plain Python", 1, 200, 1, 200 / best_of(20, lambda: plain_python(200)))]
    for batch, sims, _ in SHAPES:
        for wave in (1, 8):
            rows.append(ours(batch, sims, wave, compiled=True))
            rows.append(ours(batch, sims, wave, compiled=False, repeats=5))
    return rows


def mctx_rows():
    """The same model in JAX, compiled for each shape."""
    import jax
    import jax.numpy as jnp
    import mctx

    def recurrent(params, key, action, embedding):
        number = embedding * 31 + action.astype(jnp.uint32) + 1
        batch = number.shape[0]
        output = mctx.RecurrentFnOutput(
            reward=(number % 7).astype(jnp.float32),
            discount=jnp.full(batch, 0.99),
            prior_logits=jnp.zeros((batch, ACTIONS)),
            value=jnp.zeros(batch),
        )
        return output, number

    rows = []
    for policy in (mctx.muzero_policy, mctx.gumbel_muzero_policy):
        for batch, sims, _ in SHAPES:
            root = mctx.RootFnOutput(
                prior_logits=jnp.zeros((batch, ACTIONS)),
                value=jnp.zeros(batch),
                embedding=jnp.zeros(batch, jnp.uint32),
            )

            @jax.jit
            def plan(key, root=root, policy=policy, sims=sims):
                return policy(None, key, root, recurrent, sims).action_weights

            key = jax.random.PRNGKey(0)
            seconds = best_of(50, lambda plan=plan, key=key: plan(key).block_until_ready())
            rows.append(Row(policy.__name__, batch, sims, 1, batch * sims / seconds))
    return rows


def cartpole():
    """Moves per second with 256 simulations, each a random rollout of 20 steps."""
    found = {}
    with plangym_ext.make("CartPole-v1", threads=1) as env:
        state, *_ = env.reset(seed=0)
        for compiled, moves in ((True, 200), (False, 5)):
            for wave in (1, 8):
                planner = MCTS(256, rollout_depth=20, wave_size=wave, compiled=compiled)
                rng = np.random.default_rng(0)

                def play(planner=planner, rng=rng, moves=moves):
                    for _ in range(moves):
                        planner.plan(env, state, rng=rng)

                name = f"{'compiled' if compiled else 'batches'}, waves of {wave}"
                found[name] = moves / best_of(5, play)
    return found


def best_rate(rows, names, shape):
    return max(r.simulations_per_second for r in rows if r.tree in names and r[1:3] == shape)


def print_rows(rows):
    print(f"{'tree':>20} {'trees':>6} {'sims':>6} {'wave':>6} {'sims/s':>12}")
    for row in rows:
        print("{:>20} {:>6} {:>6} {:>6} {:>12,.0f}".format(*row))


def print_ratios(rows):
    """Each aim and what came of it."""
    compiled = ["MCTS, compiled"]
    python = best_rate(rows, ["plain Python"], (1, 200))
    ratio = best_rate(rows, compiled, (1, 200)) / python
    print(f"compiled / plain Python, 1 x 200: {ratio:.0f} (aim: {AGAINST_PYTHON})")
    policies = [row.tree for row in rows if row.tree.endswith("_policy")]
    for batch, sims, aim in SHAPES if policies else ():
        shape = (batch, sims)
        ratio = best_rate(rows, compiled, shape) / best_rate(rows, policies, shape)
        print(f"compiled / mctx's better policy, {batch} x {sims}: {ratio:.1f} (aim: {aim})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    sections = ("trees", "mctx", "cartpole")
    parser.add_argument("--only", nargs="+", choices=sections, default=sections)
    options = parser.parse_args()
    rows, moves = [], {}
    if "trees" in options.only:
        rows += trees()
    if "mctx" in options.only:
        if importlib.util.find_spec("mctx"):
            rows += mctx_rows()
        else:
            print("mctx is not installed, so it is left out: tox -e mctx")
    if rows:
        print_rows(rows)
    if "trees" in options.only:
        print_ratios(rows)
    if "cartpole" in options.only:
        moves = cartpole()
        for name, rate in moves.items():
            print(f"CartPole, 256 simulations of 20 steps, {name}: {rate:,.0f} moves/s")
        print(f"(aim: {CARTPOLE_MOVES:,} on one thread)")
    if options.json:
        figures = {"trees": [row._asdict() for row in rows], "cartpole_moves": moves}
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
