"""How many expansions does a trained policy take to solve Boxoban's levels?

    python tests/benchmarks/boxoban.py --folder PATH --page docs/benchmarks.md

`train` runs the preset `boxoban` on the training levels, and goes on where it was stopped.
`test` searches each test level once, from its beginning, by each player; the levels that a
player has tried are kept in the folder, and are not tried again. `shoot` plays test levels move by
move, with Shoot Tree Search by the network's value, once for each H. PATH is a folder with files of
https://github.com/google-deepmind/boxoban-levels: `unfiltered_test_000.txt`, and any number of
`unfiltered_train_*.txt`. Without it, levels of 7x7 with two boxes are generated.
"""

from __future__ import annotations

import argparse
import csv
import functools
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scoring.starts import StartedBy
from table.sections import write_section

from plangym_ext import make
from plangym_ext.envs.sokoban import SokobanEnv, format_board, read_levels
from plangym_ext.envs.sokoban.generator import generate_level
from plangym_ext.envs.sokoban.heuristic import pushes_to_go
from plangym_ext.planners import PHS, STS, BestFirst, GraphSearch, LevinTS, Planner, play
from plangym_ext.run.bootstrap import mean_interval
from plangym_ext.run.files import write_json
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.trained import trained_evaluator

STAGES = ["train", "test", "shoot"]
SHOWN = (500, 1000, 2000, 5000)
TRAIN, TEST = "unfiltered_train_*.txt", "unfiltered_test_000.txt"
#: A step costs 1: values are minus the steps to go.
REWARDS = {"step_reward": -1.0, "box_reward": 0.0, "solved_reward": 0.0}


#: A move of `shoot`: simulations times H, the expansions in a row of one simulation.
EXPANSIONS, DEPTHS = 50, (1, 2, 5, 10)
#: What a board is worth in which nothing is left to do; a level of so many moves is cut.
DEAD_END, MOVES = -100.0, 120


class Player(NamedTuple):
    """A search.

    Attributes:
        make: from the network, with the limits as keywords, to the planner.
        everywhere: whether it tries all levels, or only the first few as it is slow.
    """

    make: Callable[..., Planner]
    everywhere: bool = False


PLAYERS: dict[str, Player] = {
    "levin, uniform": Player(lambda _, **limits: LevinTS(**limits)),
    "levin, policy": Player(lambda network, **limits: LevinTS(evaluator=network, **limits)),
    "best-first, pushes, weight 10": Player(
        lambda _, **limits: BestFirst(heuristic=pushes_to_go, heuristic_weight=10.0, **limits),
        everywhere=True,
    ),
    "phs, policy, pushes": Player(
        lambda network, **limits: PHS(evaluator=network, heuristic=pushes_to_go, **limits)
    ),
    "phs, policy, value": Player(
        lambda network, **limits: PHS(evaluator=network, value_to_go=True, **limits)
    ),
    "phs, policy, value and pushes": Player(
        lambda network, **limits: PHS(
            evaluator=network, value_to_go=True, heuristic=pushes_to_go, **limits
        ),
        everywhere=True,
    ),
}


class Shooter(NamedTuple):
    """A way to play with Shoot Tree Search.

    Attributes:
        make: from `num_simulations`, H and the evaluator, to the planner.
        knows_pushes: whether a board is worth no more than its pushes say, so that those in which a
            box can no longer reach a target are known.
    """

    make: Callable[..., Planner]
    knows_pushes: bool = False


_GRAPH = functools.partial(GraphSearch, dead_end_value=DEAD_END, state_key="obs")
SHOOTERS: dict[str, Shooter] = {
    "graph": Shooter(_GRAPH),
    "graph, pushes": Shooter(_GRAPH, knows_pushes=True),
    "tree": Shooter(functools.partial(STS, keep_tree=True)),
}


def parsed() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "stages", nargs="*", default=STAGES, help="train, test, shoot; page: the tables alone"
    )
    parser.add_argument("--folder", metavar="PATH", default="", help="of Boxoban's level files")
    parser.add_argument("--out", type=Path, default=Path("runs/boxoban"), help="folder of results")
    parser.add_argument("--rounds", type=int, help="of training (default: the preset's)")
    parser.add_argument("--problems", type=int, help="of a round of training")
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="searches by name")
    parser.add_argument("--levels", type=int, default=1000, help="test levels")
    parser.add_argument("--few", type=int, default=100, help="test levels of slow players")
    parser.add_argument("--expansions", type=int, default=5000, help="of a search, at most")
    parser.add_argument("--together", type=int, default=50, help="searches side by side")
    parser.add_argument("--page", type=Path, help="docs/benchmarks.md, to write its part")
    options = parser.parse_args()
    unknown = set(options.stages) - {*STAGES, "page"}
    if unknown:
        parser.error(f"stages are {', '.join(STAGES)} and page; got {', '.join(unknown)}")
    return options


def level_files(options: argparse.Namespace) -> tuple[str, str]:
    """Return the training levels and the test levels, as `SokobanEnv` takes them."""
    if options.folder:
        return str(Path(options.folder, TRAIN)), str(Path(options.folder, TEST))
    for name, first in (("train.txt", 0), ("test.txt", 10**6)):
        boards = [generate_level(first + i, (7, 7), 2)[0] for i in range(50)]
        (options.out / name).write_text("\n\n".join(map(format_board, boards)))
    return str(options.out / "train.txt"), str(options.out / "test.txt")


def train(options: argparse.Namespace, levels: str) -> None:
    """Run the preset, or what is left of it."""
    changed: dict[str, Any] = {"env": {"kwargs": {"levels": levels}}}
    if options.rounds:
        changed["rounds"] = options.rounds
    if options.problems:
        changed["collector"] = {"num_envs": options.problems}
    folder = options.out / "train"
    with Runner(compose(["boxoban", changed]), folder, resume=True, show=True) as runner:
        runner.run()


def test(options: argparse.Namespace, path: str) -> None:
    """Have every player try its test levels, and keep what came of them."""
    levels = read_levels(path)
    with make(functools.partial(SokobanEnv, levels=levels, **REWARDS)) as env:
        network = trained_evaluator(options.out / "train", env)
        for number, (name, player) in enumerate(PLAYERS.items()):
            if not any(text in name for text in options.only):
                continue
            file = options.out / f"{number}.json"
            found = json.loads(file.read_text()) if file.exists() else {"tried": [], "seconds": 0.0}
            tried, count = found["tried"], min(many(options, player), len(levels))
            while len(tried) < count:
                numbers = range(len(tried), min(len(tried) + options.together, count))
                began = time.perf_counter()
                planner = player.make(
                    network, num_simulations=options.expansions, goal_reward=-2.0, discount=1.0
                )
                tried += searched(env, planner, numbers)
                found["seconds"] += time.perf_counter() - began
                write_json(file, found)
                solved = np.mean([one["solved"] for one in tried])
                print(f"{name}: {solved:.1%} of {len(tried)} levels", flush=True)


def many(options: argparse.Namespace, player: Player) -> int:
    """Return how many levels a player tries."""
    return options.levels if player.everywhere else min(options.few, options.levels)


def searched(env: Any, planner: Planner, numbers: range) -> list[dict[str, Any]]:
    """Search some levels side by side; a level is solved if the way that was found solves it."""
    begun = [env.reset(options={"level": number})[:2] for number in numbers]
    states, obs = (np.stack([np.array(one[part]) for one in begun]) for part in (0, 1))
    rngs = [np.random.default_rng(number) for number in numbers]
    plans = planner.plan_batch(env, states, rngs=rngs, obs=obs)
    found = []
    for plan, state in zip(plans, states, strict=True):
        solved = False
        for action in plan.actions:
            step = env.step_batch(np.array([action]), states=state[None])
            state, solved = step.states[0], bool(step.terminateds[0])
        expanded = plan.budget.model_steps // int(env.action_space.n)
        found.append({"solved": solved, "expansions": expanded, "moves": len(plan.actions)})
    return found


def shoot(options: argparse.Namespace, path: str) -> None:
    """Have every kind of tree play its test levels with every H, and keep what came of them."""
    levels = read_levels(path)
    with make("plangym_ext/Sokoban-v0", levels=levels, **REWARDS) as env:
        network = trained_evaluator(options.out / "train", env)

        def value(obs: Any) -> tuple[None, Any]:
            return None, network(obs)[1]

        def value_and_pushes(obs: Any) -> tuple[None, Any]:
            return None, np.minimum(network(obs)[1], -pushes_to_go(obs))

        for kind, depth in itertools.product(SHOOTERS, DEPTHS):
            if not any(text in f"{kind}, H={depth}" for text in options.only):
                continue
            file = options.out / f"{kind}-{depth}.json"
            tried = json.loads(file.read_text()) if file.exists() else []
            count = min(options.few, options.levels, len(levels))
            while len(tried) < count:
                numbers = range(len(tried), min(len(tried) + options.together, count))
                evaluator = value_and_pushes if SHOOTERS[kind].knows_pushes else value
                planner = SHOOTERS[kind].make(
                    EXPANSIONS // depth, num_expansions=depth, evaluator=evaluator, discount=1.0
                )
                tried += shot(env, planner, numbers)
                write_json(file, tried)
                solved = np.mean([one["solved"] for one in tried])
                print(f"{kind}, H={depth}: {solved:.1%} of {len(tried)} levels", flush=True)


def shot(env: Any, planner: Planner, numbers: range) -> list[dict[str, Any]]:
    """Play some levels side by side."""

    def begin(env: Any, seed: int) -> tuple[Any, Any, dict[str, Any]]:
        return env.reset(seed=seed, options={"level": seed})

    episodes = play(
        StartedBy(env, begin),
        planner,
        seed=numbers[0],
        max_steps=MOVES,
        num_episodes=len(numbers),
    )
    return [
        {
            "solved": bool(one.terminated),
            "moves": len(one.actions),
            "model_steps": one.budget.model_steps,
        }
        for one in episodes
    ]


def page(options: argparse.Namespace) -> str:
    """Return the tables."""
    log = [json.loads(line) for line in (options.out / "train" / "progress.jsonl").open()]
    problems = sum(int(row["episodes"]) for row in log)
    with (options.out / "train" / "timings.csv").open() as file:
        minutes = float([*csv.DictReader(file)][-1]["seconds"]) / 60.0
    lines = [
        "## Boxoban by policy-guided search",
        "",
        "`tests/benchmarks/boxoban.py`: the preset `boxoban` learns from what weighted A* solves,",
        f"within 600 expansions each, of {problems:,} training levels drawn with replacement, in",
        f"{minutes:.0f} minutes on a shared core, searches included. Then every search is made",
        "once per test level, from its beginning. Share of the levels that are solved, by",
        "expansions; an expansion steps all four actions, and eight states are expanded at a time.",
        "*pushes*: `pushes_to_go`; *value*: the network's; *seconds* are those of one search on a",
        "shared core, several side by side.",
        "",
        "| search | levels | "
        + " | ".join(f"{n:,}" for n in shown(options))
        + " | expansions, mean | moves of a solution | seconds |",
        "|---|---:|" + "---:|" * (len(shown(options)) + 3),
    ]
    for number, name in enumerate(PLAYERS):
        file = options.out / f"{number}.json"
        if file.exists():
            lines.append(row(name, json.loads(file.read_text()), shown(options)))
    files = {
        (kind, depth): options.out / f"{kind}-{depth}.json"
        for kind, depth in itertools.product(SHOOTERS, DEPTHS)
    }
    if any(file.exists() for file in files.values()):
        lines += ["", *shooting({at: file for at, file in files.items() if file.exists()})]
    return "\n".join(lines)


def shooting(files: dict[tuple[str, int], Path]) -> list[str]:
    """Return the table of `shoot`."""
    lines = [
        "### Shoot Tree Search with the learned value",
        "",
        f"Levels played move by move, at most {MOVES}, each move by a search of {EXPANSIONS}",
        "expansions: that many over H simulations of H in a row. *tree*: `STS`, kept from move to",
        "move; *graph*: `GraphSearch`, one node per board. They see the network's value, which was",
        "taught of boards on solutions alone; *pushes*: no more than `pushes_to_go` says, so that",
        "they know boards in which a box can reach no target any more.",
        "In brackets the ends of the 95 % bootstrap interval.",
        "",
        "| search | levels | solved | moves of a solution | model steps a move |",
        "|---|---:|---:|---:|---:|",
    ]
    for (kind, depth), file in files.items():
        tried = json.loads(file.read_text())
        share, low, high = (100.0 * x for x in mean_interval([one["solved"] for one in tried]))
        moves = [one["moves"] for one in tried if one["solved"]]
        steps = sum(one["model_steps"] for one in tried) / sum(one["moves"] for one in tried)
        lines.append(
            f"| {kind}, H={depth} | {len(tried)} | {share:.0f}% [{low:.0f}, {high:.0f}] | "
            f"{np.mean(moves) if moves else 0.0:.1f} | {steps:.0f} |"
        )
    return lines


def shown(options: argparse.Namespace) -> list[int]:
    """Return the numbers of expansions that have a column."""
    return [n for n in SHOWN if n < options.expansions] + [options.expansions]


def row(name: str, found: dict[str, Any], numbers: list[int]) -> str:
    """Return what a player has solved."""
    tried = found["tried"]
    expansions = np.array([one["expansions"] for one in tried])
    solved = np.array([one["solved"] for one in tried])
    moves = [one["moves"] for one in tried if one["solved"]]
    shares = " | ".join(f"{np.mean(solved & (expansions <= n)):.1%}" for n in numbers)
    return (
        f"| {name} | {len(tried):,} | {shares} | {expansions.mean():,.0f} | "
        f"{np.mean(moves) if moves else 0.0:.1f} | {found['seconds'] / len(tried):.2f} |"
    )


def main() -> None:
    """Run the stages, print the table."""
    options = parsed()
    options.out.mkdir(parents=True, exist_ok=True)
    learned, tested = level_files(options)
    if "train" in options.stages:
        train(options, learned)
    if "test" in options.stages:
        test(options, tested)
    if "shoot" in options.stages:
        shoot(options, tested)
    print(page(options))
    if options.page:
        write_section(options.page, "boxoban", page(options))


if __name__ == "__main__":
    main()
