"""What is learned from planning, on two processors? `python tests/benchmarks/learn.py`.

CartPole: a network learns from searches of 16 simulations a move; then it plays alone. Its
mean return over 20 new episodes must be at least 475, within 3 minutes, for 3 of 3 seeds.

Sokoban: Shoot Tree Search with 50 expansions a move on a graph of boards, first with a fixed
value function (minus the least total distance of boxes to targets), then with a value network
trained by the same search. Judged by the share of 200 held-out levels that it solves; no
training level is one of them. Only training counts as training time. At the end both values
are also judged in a tree that knows no board again, which is not what was trained.

Results are kept in OUT/learn.json and runs in OUT; run it again to go on. `--slice` ends an
invocation after so many seconds of training.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from table.sections import write_section

import plangym_ext
from plangym_ext.envs.sokoban import format_board, read_levels
from plangym_ext.envs.sokoban.generator import generate_level
from plangym_ext.planners import STS
from plangym_ext.run.files import write_json
from plangym_ext.run.settings.compose import compose, preset
from plangym_ext.run.training.callbacks import Callback
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.trained import Trained

LEAST_RETURN, MOST_SECONDS, EPISODES = 475.0, 180.0, 20
NEW_EPISODES = 2_000_000  # seeds that no evaluation of the training has used
HELD_OUT, TRAINING_LEVELS, MAX_MOVES = 200, 20_000, 60
FIRST_LEVEL = 7_000_000  # the settings were tried on levels from seed 0 on
TASKS = {"sokoban_6x6": (6, 1), "sokoban_8x8": (8, 2)}


class Results:
    """What has been measured, and its file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "learn.json"
        folder.mkdir(parents=True, exist_ok=True)
        self.rows: dict[str, Any] = json.loads(self.path.read_text()) if self.path.exists() else {}

    def put(self, key: str, row: Any) -> None:
        self.rows[key] = row
        write_json(self.path, self.rows)


# CartPole -----------------------------------------------------------------------------


def cartpole(results: Results, seed: int) -> None:
    key = f"cartpole/{seed}"
    if key in results.rows:
        return
    folder = results.folder / key / time.strftime("%H%M%S")
    started = time.perf_counter()
    with Runner(compose(["cartpole", {"seed": seed}]), folder) as runner:
        runner.run()
        seconds, moves = time.perf_counter() - started, runner.steps
    with Trained(folder, player="network", seed=NEW_EPISODES) as trained:
        returns = [episode.return_ for episode in trained.play(EPISODES)]
    row = {
        "seconds": round(seconds, 1),
        "moves": moves,
        "mean": float(np.mean(returns)),
        "min": min(returns),
    }
    results.put(key, row)
    print(f"CartPole, seed {seed}: {row}", flush=True)


# Sokoban ------------------------------------------------------------------------------


def write_levels(folder: Path, size: int, boxes: int) -> tuple[Path, Path]:
    """Generate training and held-out levels, all different; returns their files."""
    train, held_out = folder / "train.txt", folder / "held_out.txt"
    if not (train.exists() and held_out.exists()):
        folder.mkdir(parents=True, exist_ok=True)
        seen: set[bytes] = set()
        texts: list[str] = []
        seed = FIRST_LEVEL
        # The last ones of 6x6 take long to come: there are only so many levels.
        while len(texts) < HELD_OUT + TRAINING_LEVELS and seed < FIRST_LEVEL + 20 * TRAINING_LEVELS:
            board, _ = generate_level(seed=seed, dim=(size, size), num_boxes=boxes)
            if board.tobytes() not in seen:
                seen.add(board.tobytes())
                texts.append(f"; {seed}\n{format_board(board)}\n")
            seed += 1
        held_out.write_text("\n".join(texts[:HELD_OUT]))
        train.write_text("\n".join(texts[HELD_OUT:]))
    return train, held_out


def fixed_value(obs: Any) -> tuple[None, np.ndarray]:
    """Minus the distance, over walls and all, of the boxes to the targets matched best."""
    values = np.zeros(len(obs))
    for i, board in enumerate(np.asarray(obs)):
        boxes = np.argwhere(board[..., 4])
        targets = np.argwhere(board[..., 2] | board[..., 6])
        apart = np.abs(boxes[:, None] - targets[None]).sum(axis=-1)
        if len(boxes) == 1:
            values[i] = -apart.min()
        elif len(boxes) == 2:
            values[i] = -min(apart[0, 0] + apart[1, 1], apart[0, 1] + apart[1, 0])
    return None, values


def solve(planner: Any, levels: Path) -> dict[str, Any]:
    """Play all levels of a file side by side; who is solved after how many moves."""
    count = len(read_levels(levels))
    with plangym_ext.make("plangym_ext/Sokoban-v0", levels=str(levels)) as env:
        starts = [env.reset(seed=i, options={"level": i})[:2] for i in range(count)]
        states, obs = (np.stack(parts) for parts in zip(*starts, strict=True))
        rngs = [np.random.default_rng(i) for i in range(count)]
        going, solved_in = np.arange(count), np.full(count, -1)
        planner.reset()
        for move in range(1, MAX_MOVES + 1):
            plans = planner.plan_batch(env, states, rngs=rngs, obs=obs)
            out = env.step_batch(np.array([plan.action for plan in plans]), states=states)
            solved_in[going[out.terminateds]] = move
            stay = ~out.terminateds
            going, states, obs = going[stay], out.states[stay], out.obs[stay]
            planner.keep_rows(np.flatnonzero(stay))
            rngs = [rng for rng, on in zip(rngs, stay, strict=True) if on]
            if not going.size:
                break
    solved = solved_in > 0
    return {"solved": float(solved.mean()), "moves": float(solved_in[solved].mean())}


class Curve(Callback):
    """Judges the network after so many minutes of training, and ends the slice or the run."""

    def __init__(self, results: Results, task: str, held_out: Path, options: Any) -> None:
        self.results, self.task, self.held_out = results, task, held_out
        self.budget, self.slice = 60 * options.minutes, options.slice
        self.every = 60 * options.every
        row = results.rows.get(f"{task}/trained", {"seconds": 0.0, "curve": []})
        self.seconds, self.curve = row["seconds"], row["curve"]
        self.in_slice, self.started = 0.0, time.perf_counter()

    def on_start(self, runner: Runner) -> None:
        self.started = time.perf_counter()

    def on_round(self, runner: Runner, values: Any) -> None:
        spent = time.perf_counter() - self.started
        self.seconds, self.in_slice = self.seconds + spent, self.in_slice + spent
        done = self.seconds >= self.budget
        if done or self.seconds >= self.every * (1 + len(self.curve)):
            self.judge(runner)
        if done:
            runner.stop("the training time is over")
        elif self.in_slice >= self.slice:
            runner.stop("the slice is over")
        self.started = time.perf_counter()

    def judge(self, runner: Runner) -> None:
        planner = runner.config.planner.make(runner.agent.evaluator)
        row = {
            "minutes": round(self.seconds / 60, 2),
            "training_moves": runner.steps,
            **solve(planner, self.held_out),
        }
        self.curve.append(row)
        print(f"{self.task}: {row}", flush=True)

    def on_checkpoint(self, runner: Runner, path: Path) -> None:
        row = {"seconds": self.seconds, "curve": self.curve}
        self.results.put(f"{self.task}/trained", row)
        self.started = time.perf_counter()


def sokoban(results: Results, task: str, options: Any) -> None:
    folder = results.folder / task
    train, held_out = write_levels(folder, *TASKS[task])
    settings = preset(task)
    # Instead of the generator's size and boxes.
    settings["env"]["kwargs"] = {"levels": str(train.resolve())}
    endless = {"evaluation": {"every": 0}, "rounds": 10**6, "checkpoint_every": 100}
    config = compose([settings, endless])
    judge(results, f"{task}/fixed", config.planner.make(fixed_value), held_out)
    judge(results, f"{task}/fixed in a tree", tree_search(fixed_value), held_out)
    curve = Curve(results, task, held_out, options)
    if curve.seconds < curve.budget:
        with Runner(config, folder / "run", resume=True, callbacks=[curve]) as runner:
            runner.stopped = ""  # that the last slice was over
            runner.run()
    if curve.seconds >= curve.budget:
        with Trained(folder / "run") as trained:
            planner = tree_search(trained.player.evaluator)
            judge(results, f"{task}/trained in a tree", planner, held_out)


def tree_search(evaluator: Any) -> STS:
    """As many expansions a move, in a tree."""
    return STS(10, num_expansions=5, wave_size=5, discount=0.97, evaluator=evaluator)


def judge(results: Results, key: str, planner: Any, held_out: Path) -> None:
    """Let a planner solve the held-out levels, unless that was done before."""
    if key not in results.rows:
        results.put(key, solve(planner, held_out))
        print(f"{key}: {results.rows[key]}", flush=True)


# The page -----------------------------------------------------------------------------


def page(results: Results) -> str:
    """The results as a part of docs/benchmarks.md."""
    rows = results.rows
    lines = ["## Learning from planning", "", "`tests/benchmarks/learn.py`, two processors.", ""]
    seeds = sorted(key for key in rows if key.startswith("cartpole/"))
    if seeds:
        lines += [
            "CartPole, learned from searches of 16 simulations a move; the network plays 20 new",
            "episodes alone:",
            "",
            "| seed | training | moves | mean return | least |",
            "|---|---|---|---|---|",
        ]
        for key in seeds:
            row = rows[key]
            lines.append(
                f"| {key.rpartition('/')[2]} | {row['seconds']:.0f} s | {row['moves']:,} | "
                f"{row['mean']:.1f} | {row['min']:.0f} |"
            )
        lines.append("")
    for task, (size, boxes) in TASKS.items():
        if f"{task}/trained" not in rows:
            continue
        fixed = rows[f"{task}/fixed"]
        lines += [
            f"Sokoban {size}x{size} with {boxes} box{'es' * (boxes > 1)}: Shoot Tree Search on a",
            f"graph of boards with 50 expansions a move, {HELD_OUT} held-out levels, at most",
            f"{MAX_MOVES} moves. In a tree, which does not know a board again, greedy play goes",
            "in circles with either value:",
            "",
            "| value | training | training moves | solved | moves to solve |",
            "|---|---|---|---|---|",
            solved_row("fixed distance", fixed),
        ]
        lines += [
            solved_row("network", row, f"{row['minutes']:.1f} min", f"{row['training_moves']:,}")
            for row in rows[f"{task}/trained"]["curve"]
        ]
        lines += [
            solved_row(f"{value}, in a tree", rows[f"{task}/{key} in a tree"])
            for value, key in (("fixed distance", "fixed"), ("network", "trained"))
            if f"{task}/{key} in a tree" in rows
        ]
        lines.append("")
    return "\n".join(lines)


def solved_row(value: str, row: Any, *training: str) -> str:
    """A row of a table: whose value, its training, and what it solved."""
    cells = [value, *(training or ("", "")), f"{row['solved']:.1%}", f"{row['moves']:.1f}"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=["cartpole", *TASKS])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--minutes", type=float, default=30.0, help="of training on Sokoban")
    parser.add_argument("--every", type=float, default=5.0, help="minutes between judgements")
    parser.add_argument("--slice", type=float, default=1e9, help="seconds of one invocation")
    parser.add_argument("--out", type=Path, default=Path("runs/learn"))
    parser.add_argument("--page", type=Path, help="write the part of docs/benchmarks.md here")
    options = parser.parse_args()
    results = Results(options.out)
    chosen = options.only or ["cartpole", *TASKS]
    if "cartpole" in chosen:
        for seed in options.seeds:
            cartpole(results, seed)
    for task in TASKS:
        if task in chosen:
            sokoban(results, task, options)
    print(page(results))
    if options.page:
        write_section(options.page, "learning", page(results))
    missed = [
        key
        for key, row in results.rows.items()
        if key.startswith("cartpole/")
        and not (row["mean"] >= LEAST_RETURN and row["seconds"] <= MOST_SECONDS)
    ]
    if missed:
        raise SystemExit(f"below {LEAST_RETURN:g} or over {MOST_SECONDS:g} s: {missed}")


if __name__ == "__main__":
    main()
