"""Ten tasks of a new user, and the checks of their answers.

A coding agent gets AGENTS.md, llms.txt, the pages and one task's text; it writes a script that
prints one line of JSON. `python -P tests/docs/agent_tasks.py` prints the tasks, and with a folder of
answers (`task_1.py` ... `task_10.py`) runs each once in an empty folder and prints what was right.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

import gymnasium
import numpy as np


class Task(NamedTuple):
    """A text for an agent, and the check of the printed object and of the folder of the script."""

    text: str
    check: Callable[[dict, Path], bool]


def pole(seed: int):
    """Return CartPole after a reset with this seed."""
    env = gymnasium.make("CartPole-v1").unwrapped
    env.reset(seed=seed)
    return env


def is_batch(said, folder):
    """Compare with a copy of gymnasium's env for each row."""
    env, sums = pole(3), []
    for row in range(16):
        copy = deepcopy(env)
        for _ in range(4):
            obs = copy.step(row % 2)[0]
        sums.append(obs)
    return np.allclose(said["obs"], np.array(sums, float), atol=1e-6) and said["reward"] == 64


def is_best(said, folder):
    """Play all sequences in copies of gymnasium's env."""
    rng = np.random.default_rng(7)
    actions, env = rng.integers(0, 2, (32, 40)), pole(5)
    lengths = []
    for sequence in actions:
        copy, length = deepcopy(env), 0
        for action in sequence:
            length += 1
            if copy.step(int(action))[2]:
                break
        lengths.append(length)
    return said["lengths"] == lengths


def is_vector(said, folder):
    """Compare with gymnasium's own vector env."""
    venv = gymnasium.make_vec("Acrobot-v1", 8, vectorization_mode="sync")
    venv.reset(seed=1)
    for _ in range(10):
        obs = venv.step(np.zeros(8, int))[0]
    venv.close()
    return said["equal"] is True and np.allclose(said["obs"], obs, atol=1e-6)


def is_run(said, folder):
    """Look at the log of a run of four rounds that was stopped after two."""
    lines = (folder / "run" / "progress.csv").read_text().splitlines()
    return len(lines) == 5 and said["rounds"] == 4 and 1 <= said["mean_return"] <= 500


TASKS = [
    Task(
        "Reset CartPole-v1 with seed 3. From that state step a batch of 16 rows: row i holds action "
        "i % 2 for 4 steps. Print {'obs': [16 lists of 4 numbers], 'reward': sum of all rewards}.",
        is_batch,
    ),
    Task(
        "Reset CartPole-v1 with seed 5. actions = numpy.random.default_rng(7).integers(0, 2, (32, 40)) "
        "are 32 sequences of 40 steps from that state. Print {'lengths': [the number of steps that "
        "each sequence played until its episode ended, at most 40]}.",
        is_best,
    ),
    Task(
        "Play CartPole-v1 with MCTS, 32 simulations a move, seed 0, 120 moves. Print {'return': ..., "
        "'model_steps': all steps of the simulator that the searches took}.",
        lambda said, folder: said["return"] == 120 and said["model_steps"] > 1000,
    ),
    Task(
        "Make a vector env of 8 Acrobot-v1, reset it with seed 1, save the states of all of them, step "
        "10 times with action 0, restore the saved states and step again 10 times with action 0. Print "
        "{'equal': whether the last observations of both are equal, 'obs': the last ones}.",
        is_vector,
    ),
    Task(
        "Write two envs of your own with Discrete(2) actions: A adds a number drawn from its np_random "
        "to its position in each step; B adds time.perf_counter() % 1. Find out by the library whether "
        "states of each can be restored exactly. Print {'A': true or false, 'B': true or false}.",
        lambda said, folder: said == {"A": True, "B": False},
    ),
    Task(
        "Train the preset ppo_cartpole with 4 envs into the folder 'run' for 2 rounds, in a second "
        "call resume it up to round 4, then evaluate it on 3 episodes. Print {'rounds': 4, "
        "'mean_return': mean return of the 3 episodes}.",
        is_run,
    ),
    Task(
        "Step Pendulum-v1 on two worker processes: from the state after reset(seed=0), a batch of 64 "
        "rows whose actions are numpy.linspace(-2, 2, 64). Do the same without workers. Print "
        "{'equal': whether observations and states are equal bit for bit, 'best': index of the row "
        "with the highest reward}.",
        lambda said, folder: said["equal"] is True and said["best"] in (31, 32),
    ),
    Task(
        "Plan one move for Pendulum-v1 (reset with seed 0) with the cross-entropy method and with MPPI, "
        "each with at most 600 steps of the model. Print {'cem': steps used, 'mppi': steps used}.",
        lambda said, folder: all(100 < said[name] <= 600 for name in ("cem", "mppi")),
    ),
    Task(
        "Write a planner of your own that tries each action of CartPole-v1 in a batch, continues each "
        "10 times with random actions for 15 steps and plays the action of the best mean return. Play "
        "60 moves with seed 0 by the library's own loop. Print {'return': ...}.",
        lambda said, folder: said["return"] == 60,
    ),
    Task(
        "By the command line, play 20 moves of FrozenLake-v1 with MCTS (32 simulations, seed 0, not "
        "slippery) into the folder 'lake' and write the search tree of every move as a page "
        "'lake/tree.html'. Print {'moves': number of moves that were played}.",
        lambda said, folder: (
            1 <= said["moves"] <= 20 and "<html" in (folder / "lake" / "tree.html").read_text()
        ),
    ),
]


def is_right(task: Task, script: Path) -> str:
    """Run an answer in an empty folder; return "" if it is right, and otherwise why not."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-P", str(script.resolve())]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
        if done.returncode:
            return done.stderr.strip().splitlines()[-1]
        try:
            said = json.loads(done.stdout.strip().splitlines()[-1])
            return "" if task.check(said, Path(folder)) else f"printed {str(said)[:200]}"
        except (ValueError, KeyError, IndexError, TypeError, OSError) as error:
            return f"{type(error).__name__}: {error}"


def main(*folder: str) -> int:
    """Print the tasks, or which answers in a folder are right."""
    wrong = 0
    for number, task in enumerate(TASKS, 1):
        if not folder:
            print(f"{number}. {task.text}\n")
            continue
        why = is_right(task, Path(folder[0]) / f"task_{number}.py")
        wrong += bool(why)
        print(f"task {number}: {'right' if not why else why}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
