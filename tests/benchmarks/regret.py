"""How far from the best is what a tree search plays? Simple regret, by simulations.

    python tests/benchmarks/regret.py --page docs/benchmarks.md

The regret of a move is what the best action is worth, less what the played one is worth, both
by value iteration over the task's own tables. Each seed plans one move from a state of its
own, by each planner and with each number of simulations. A cell is a task, a planner and a
number; one that is finished is kept in the folder and not run again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from table.sections import write_section

from plangym_ext import make
from plangym_ext.planners import ANTS, BTS, DENTS, MCTS, MENTS, SPO, TENTS, TSMCTS, Planner
from plangym_ext.run.bootstrap import mean_interval
from plangym_ext.run.files import write_json

SIMULATIONS = (16, 64, 256, 1024)
SEEDS = 50
DISCOUNT = 0.99


class Tree(gym.Env[Any, Any]):
    """A complete tree whose leaves pay the sum of the numbers on the way, in [0, 1].

    Args:
        seed: of the numbers.
        actions: in each node.
        depth: of the leaves.

    Source: Xiao et al. 2019, section 5.1, whose leaves pay with noise: here a state says what
    comes next, noise included.
    """

    def __init__(self, seed: int, actions: int = 8, depth: int = 4) -> None:
        self.action_space = gym.spaces.Discrete(actions)
        self.observation_space = gym.spaces.Box(0, actions, (depth,), np.float32)
        rng, pays = np.random.default_rng(seed), np.zeros(1)
        for _ in range(depth):
            pays = (pays[:, None] + rng.random((len(pays), actions))).ravel()
        pays = (pays - pays.min()) / (pays.max() - pays.min())
        self.pays = pays.reshape((actions,) * depth)
        self.depth, self.path = depth, list[int]()

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.path = []
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.path.append(int(action))
        over = len(self.path) == self.depth
        paid = float(self.pays[tuple(self.path)]) if over else 0.0
        return self._seen(), paid, over, False, {}

    def _seen(self) -> Any:
        return np.array(self.path + [0] * (self.depth - len(self.path)), np.float32)

    def worth(self) -> Any:
        """Return what each first action is worth, `[A]`; rewards are discounted from there."""
        best = self.pays.reshape(len(self.pays), -1).max(axis=1)
        return best * DISCOUNT ** (self.depth - 1)


class Start(NamedTuple):
    """A state to plan from, and what each action is worth there."""

    env: Any
    state: Any
    obs: Any
    worth: Any


def table_worth(transitions: dict[int, dict[int, list[Any]]]) -> Any:
    """Return what actions are worth by the tables of gymnasium's toy texts, `[states, A]`."""
    states, actions = len(transitions), len(transitions[0])
    q = np.zeros((states, actions))
    for _ in range(2000):
        best, before = q.max(axis=1), q.copy()
        for s, a in itertools.product(range(states), range(actions)):
            q[s, a] = sum(
                p * (r + DISCOUNT * best[n] * (not over)) for p, n, r, over in transitions[s][a]
            )
        if np.abs(q - before).max() < 1e-12:
            break
    return q


def ways_from(transitions: dict[int, dict[int, list[Any]]], start: int) -> dict[int, list[int]]:
    """Return the actions that lead from a state to each one that is reached without an end."""
    ways, open_states = {start: list[int]()}, [start]
    while open_states:
        s = open_states.pop(0)
        for a, outcomes in transitions[s].items():
            for _, after, _, over in outcomes:
                if not over and after not in ways:
                    ways[after] = [*ways[s], a]
                    open_states.append(after)
    return ways


def toy_starts(env_id: str, **kwargs: Any) -> Callable[[int], list[Start]]:
    """Return a function to a state for each seed, drawn from all that are reached in an episode.

    The task must have no chance.
    """

    def starts(count: int) -> list[Start]:
        transitions = gym.make(env_id, **kwargs).unwrapped.P
        worth = table_worth(transitions)
        env, found = make(env_id, backend="serial", **kwargs), []
        for seed in range(count):
            state, obs, _ = env.reset(seed=seed)
            ways = ways_from(transitions, int(obs))
            for action in ways[sorted(ways)[np.random.default_rng(seed).integers(len(ways))]]:
                state, obs, *_ = env.step(action, state)
            found.append(Start(env, state, obs, worth[int(obs)]))
        return found

    return starts


def tree_starts(count: int) -> list[Start]:
    """Return the root of a tree for each seed."""
    found = []
    for seed in range(count):
        env = make(lambda seed=seed: Tree(seed), backend="serial")
        state, obs, _ = env.reset(seed=0)
        found.append(Start(env, state, obs, Tree(seed).worth()))
    return found


#: Task -> its starts, and the steps of a rollout.
TASKS: dict[str, tuple[Callable[[int], list[Start]], int]] = {
    "FrozenLake 8x8": (toy_starts("FrozenLake-v1", map_name="8x8", is_slippery=False), 30),
    "Taxi": (toy_starts("Taxi-v4"), 10),
    "tree, 8 actions, depth 4": (tree_starts, 4),
}


def particles(kind: type[SPO] | type[TSMCTS]) -> Callable[..., Planner]:
    """Return a maker of particle searches; a particle takes the steps of a leaf and its rollout."""

    def made(count: int, discount: float, rollout_depth: int) -> Planner:
        return kind(count, depth=1 + rollout_depth, discount=discount)

    return made


PLANNERS: dict[str, Callable[..., Planner]] = {
    "mcts (puct)": MCTS,
    "mcts (uct)": lambda sims, **options: MCTS(sims, selection="uct", **options),
    "ments": MENTS,
    "tents": TENTS,
    "bts": BTS,
    "dents": DENTS,
    "ants": ANTS,
    "mcts (gumbel)": lambda sims, **options: MCTS(sims, selection="gumbel", **options),
    "spo": particles(SPO),
    "tsmcts": particles(TSMCTS),
}


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="tasks by name")
    parser.add_argument("--planners", nargs="+", choices=PLANNERS, default=list(PLANNERS))
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many")
    parser.add_argument("--simulations", nargs="+", type=int, default=list(SIMULATIONS))
    parser.add_argument("--out", type=Path, default=Path("runs/regret"), help="folder of cells")
    parser.add_argument("--page", type=Path, help="docs/benchmarks.md, to write its part")
    return parser.parse_args()


def played(make_planner: Callable[..., Planner], sims: int, starts: list[Start], depth: int) -> Any:
    """Return the regret of each seed's move, and the seconds of all."""
    began, regrets = time.perf_counter(), []
    for seed, (env, state, obs, worth) in enumerate(starts):
        planner = make_planner(sims, discount=DISCOUNT, rollout_depth=depth)
        action = planner.plan(env, state, rng=seed, obs=obs).action
        regrets.append(float(worth.max() - worth[action]))
    return {"regrets": regrets, "seconds": time.perf_counter() - began}


def page(found: dict[str, dict[str, dict[int, dict[str, Any]]]]) -> str:
    """Return the tables."""
    lines = [
        "## Regret of tree searches",
        "",
        "`tests/benchmarks/regret.py`: mean regret of one move over the seeds, with the ends of",
        "its 95 % bootstrap interval, by simulations; each planner with its own defaults, leaves",
        "rated by one random rollout. A particle of `SPO` or `TSMCTS` takes as many steps as a",
        "leaf with its rollout. Lower is better; 0 is the best move from every state.",
    ]
    for task, planners in found.items():
        numbers = sorted({sims for cells in planners.values() for sims in cells})
        lines += [
            "",
            f"### {task}",
            "",
            "| planner | " + " | ".join(f"{n:,}" for n in numbers) + " |",
        ]
        lines.append("|---|" + "---:|" * len(numbers))
        for planner, cells in planners.items():
            shown = []
            for sims in numbers:
                mean, low, high = mean_interval(cells[sims]["regrets"])
                shown.append(f"{mean:.3f} [{low:.3f}, {high:.3f}]")
            lines.append(f"| {planner} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    options = parsed()
    options.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, dict[int, dict[str, Any]]]] = {}
    for number, (task, (starts_of, depth)) in enumerate(TASKS.items()):
        if not any(text in task for text in options.only):
            continue
        starts: list[Start] = []
        for planner, sims in itertools.product(options.planners, options.simulations):
            file = options.out / f"{number}-{planner}-{sims}.json"
            if not file.exists():
                starts = starts or starts_of(options.seeds)
                print(f"{task}, {planner}, {sims} simulations", flush=True)
                write_json(file, played(PLANNERS[planner], sims, starts, depth))
            found.setdefault(task, {}).setdefault(planner, {})[sims] = json.loads(file.read_text())
    print(page(found))
    if options.page:
        write_section(options.page, "regret", page(found))


if __name__ == "__main__":
    main()
