"""How fast is the tree?

    python tests/benchmarks/search.py --only trees cartpole --out runs/search.json

A trivial model with 4 actions and leaves that are worth nothing, so that nearly all of
the time is the search's own. Sections:

    trees     MCTS in compiled code, in batches of numpy, and a plain-Python tree of the
              usual design, with one object per node and one model call per simulation;
              beside them mctx's two policies on the same model, where mctx is installed
              (`tox -e mctx`)
    cartpole  moves per second on the CartPole kernel, with random rollouts
    network   CartPole's rules, and an MLP of two layers of 64 as evaluator, beside mctx
    latent    a latent model 128 wide, as MuZero's, beside mctx; and its network alone

Contestants are measured in turn, round after round, on as many threads as they take; the
best time of each counts. What is not measured again stays in the file; the page is written
from all that is there.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.util
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stepping import machine
from stepping.rounds import Contestant, Tree, fastest, interleaved
from table.sections import write_section

import plangym_ext
from plangym_ext.planners import MCTS
from plangym_ext.run.files import write_json

ACTIONS = 4
#: Trees, simulations, and how many times mctx's better policy we aim at.
SHAPES = [(1, 200, 100), (32, 128, 25), (128, 64, 9)]
#: How many times the plain-Python tree we aim at, and moves per second on CartPole.
AGAINST_PYTHON, CARTPOLE_MOVES = 100, 1000
COMPILED, PYTHON = "MCTS, compiled", "plain Python"


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


def ours(envs: contextlib.ExitStack, batch: int, sims: int, wave: int, *, compiled: bool) -> Any:
    planner = MCTS(sims, wave_size=wave, rollout_depth=0, compiled=compiled)
    rngs = [np.random.default_rng(i) for i in range(batch)]
    env = envs.enter_context(hashing_env())
    state, *_ = env.reset(seed=0)
    states = np.repeat(state[None], batch, axis=0)
    return lambda: planner.plan_batch(env, states, rngs=rngs)


def mctx_plan(policy: Any, batch: int, sims: int) -> Callable[[], Any]:
    """The same model in JAX, compiled for a shape."""
    import jax
    import jax.numpy as jnp
    import mctx

    def recurrent(params, key, action, embedding):
        number = embedding * 31 + action.astype(jnp.uint32) + 1
        output = mctx.RecurrentFnOutput(
            reward=(number % 7).astype(jnp.float32),
            discount=jnp.full(batch, 0.99),
            prior_logits=jnp.zeros((batch, ACTIONS)),
            value=jnp.zeros(batch),
        )
        return output, number

    root = mctx.RootFnOutput(
        prior_logits=jnp.zeros((batch, ACTIONS)),
        value=jnp.zeros(batch),
        embedding=jnp.zeros(batch, jnp.uint32),
    )
    key = jax.random.PRNGKey(0)
    plan = jax.jit(lambda key: policy(None, key, root, recurrent, sims).action_weights)
    return lambda: plan(key).block_until_ready()


def contestants(envs: contextlib.ExitStack) -> dict[Tree, Contestant]:
    """All of them, in every shape."""
    found = {Tree(PYTHON, 1, 200, 1): fastest(lambda: plain_python(200))}
    for batch, sims, _ in SHAPES:
        for wave in (1, 8):
            for name, compiled in ((COMPILED, True), ("MCTS, batches", False)):
                call = ours(envs, batch, sims, wave, compiled=compiled)
                found[Tree(name, batch, sims, wave)] = fastest(call)
    if importlib.util.find_spec("mctx"):
        import mctx

        for policy in (mctx.muzero_policy, mctx.gumbel_muzero_policy):
            for batch, sims, _ in SHAPES:
                call = mctx_plan(policy, batch, sims)
                found[Tree(policy.__name__, batch, sims, 1)] = fastest(call)
    else:
        print("mctx is not installed, so it is left out: tox -e mctx")
    return found


def trees(rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Simulations per second of each."""
    with contextlib.ExitStack() as envs:
        times = interleaved(contestants(envs), rounds, seconds)
    return [
        {**tree._asdict(), "simulations_per_second": tree.trees * tree.sims / min(found)}
        for tree, found in times.items()
    ]


def cartpole(rounds: int, seconds: float) -> list[dict[str, Any]]:
    """Moves per second with 256 simulations, each a random rollout of 20 steps."""
    found: dict[tuple[str, int], Contestant] = {}
    with plangym_ext.make("CartPole-v1", threads=1) as env:
        state, *_ = env.reset(seed=0)
        for name, compiled in (("compiled", True), ("batches", False)):
            for wave in (1, 8):
                planner = MCTS(256, rollout_depth=20, wave_size=wave, compiled=compiled)
                rng = np.random.default_rng(0)
                found[name, wave] = fastest(
                    lambda planner=planner, rng=rng: planner.plan(env, state, rng=rng)
                )
        times = interleaved(found, rounds, seconds)
    return [
        {"name": name, "wave": wave, "moves_per_second": 1 / min(all_)}
        for (name, wave), all_ in times.items()
    ]


def with_network(name: str) -> Callable[[int, float], dict[str, Any]]:
    """Return what measures a section of `beside_mctx`."""

    def measured(rounds: int, seconds: float) -> dict[str, Any]:
        if not importlib.util.find_spec("mctx"):
            raise SystemExit(f"{name}: mctx is not installed; tox -e mctx has it")
        from with_networks.beside_mctx import NETWORK_SHAPES, contestants_of

        with contextlib.ExitStack() as envs:
            times = interleaved(contestants_of(name, envs), rounds, seconds)
        rows = [
            {**tree._asdict(), "simulations_per_second": tree.trees * tree.sims / min(found)}
            for tree, found in times.items()
        ]
        policies = [row["name"] for row in rows if "policy" in row["name"]]
        compared = []
        for batch, sims, aim in NETWORK_SHAPES[name]:
            shape = batch, sims
            theirs = best_rate(rows, policies, shape)
            one_by_one = [row for row in rows if row["wave"] == 1]
            for told, mine in (("", rows), (", one simulation a wave", one_by_one)):
                ratio = best_rate(mine, ["MCTS"], shape) / theirs
                compared.append([f"{batch} x {sims}{told}", ratio, aim])
        return {"rows": rows, "ratios": compared}

    return measured


def best_rate(rows: list[dict[str, Any]], names: list[str], shape: tuple[int, int]) -> float:
    return max(
        row["simulations_per_second"]
        for row in rows
        if row["name"] in names and (row["trees"], row["sims"]) == shape
    )


def ratios(rows: list[dict[str, Any]]) -> Iterator[tuple[str, float, int]]:
    """What was compared, what came of it, and the aim."""
    ratio = best_rate(rows, [COMPILED], (1, 200)) / best_rate(rows, [PYTHON], (1, 200))
    yield "plain Python, 1 x 200", ratio, AGAINST_PYTHON
    policies = [row["name"] for row in rows if row["name"].endswith("_policy")]
    for batch, sims, aim in SHAPES if policies else ():
        shape = (batch, sims)
        ratio = best_rate(rows, [COMPILED], shape) / best_rate(rows, policies, shape)
        yield f"mctx's better policy, {batch} x {sims}", ratio, aim


def part(kept: dict[str, Any]) -> str:
    """The part of the page of benchmarks."""
    lines = [
        "## The tree\n",
        "`tests/benchmarks/search.py` measures and writes this part: a model with 4 actions whose",
        "step is one multiplication, and leaves that are worth nothing, so that nearly all of the",
        "time is the search's own. Contestants take turns; the best time of each counts.\n",
    ]
    for name in kept:
        about = ", ".join(f"{key} {value}" for key, value in kept[name]["machine"].items())
        lines.append(f"- {name}: {kept[name]['date']}; {about}.")
    if "trees" in kept:
        rows = kept["trees"]["found"]
        lines += ["", *_table(rows)]
        lines += ["", "| compiled MCTS against | times as fast | asked for |", "|---|---:|---:|"]
        lines += [f"| {name} | {ratio:.1f} | {aim} |" for name, ratio, aim in ratios(rows)]
    if "cartpole" in kept:
        lines += [
            "",
            "CartPole on one thread, 256 simulations a move, each a random rollout of 20 steps;",
            f"asked for are {CARTPOLE_MOVES:,} moves per second:\n",
            "| | wave size | moves/s |",
            "|---|---:|---:|",
        ]
        lines += [
            "| {name} | {wave} | {moves_per_second:,.0f} |".format(**row)
            for row in kept["cartpole"]["found"]
        ]
    for name in ("network", "latent"):
        if name in kept:
            lines += [
                f"\nWith a network, `{name}` (see the program):",
                "",
                *_table(kept[name]["found"]["rows"]),
            ]
            lines += ["", "| MCTS against mctx's better policy | times as fast | asked for |"]
            lines += ["|---|---:|---:|"]
            for shape, ratio, aim in kept[name]["found"]["ratios"]:
                lines.append(f"| {shape} | {ratio:.2f} | {aim} |")
    return "\n".join(lines)


def _table(rows: list[dict[str, Any]]) -> list[str]:
    return [
        "| | trees | simulations | wave size | simulations/s |",
        "|---|---:|---:|---:|---:|",
        *(
            "| {name} | {trees} | {sims} | {wave} | {simulations_per_second:,.0f} |".format(**row)
            for row in rows
        ),
    ]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sections: dict[str, Callable[[int, float], Any]] = {"trees": trees, "cartpole": cartpole}
    sections |= {name: with_network(name) for name in ("network", "latent")}
    parser.add_argument("--only", nargs="+", choices=list(sections), default=["trees", "cartpole"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each in each round")
    parser.add_argument("--out", type=Path, default=Path("runs/search.json"))
    parser.add_argument("--page", type=Path, help="docs/benchmarks.md, to write its part")
    options = parser.parse_args()
    kept = json.loads(options.out.read_text()) if options.out.exists() else {}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        found = sections[name](options.rounds, options.seconds)
        about = machine.described() | machine.versions("numba", "mctx", "jax")
        about = {key: value for key, value in about.items() if value is not None}
        date = datetime.date.today().isoformat()
        kept[name] = {"date": date, "machine": about, "found": found}
        write_json(options.out, kept)
    print(part(kept))
    if options.page:
        write_section(options.page, "search", part(kept))


if __name__ == "__main__":
    main()
