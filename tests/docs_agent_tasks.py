"""Ten tasks of a new user, and the checks of their answers.

A coding agent gets AGENTS.md, llms.txt, the pages and one task's text; it writes a script that
prints one line of JSON. `python -P tests/docs_agent_tasks.py` prints the tasks; with a folder of
answers (`task_1.py` ... `task_10.py`) it runs each in an empty folder and prints which are right.
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


CHECKS = [
    is_batch,
    is_best,
    lambda said, folder: said["return"] == 120 and said["model_steps"] > 1000,
    is_vector,
    lambda said, folder: said == {"A": True, "B": False},
    is_run,
    lambda said, folder: said["equal"] is True and said["best"] in (31, 32),
    lambda said, folder: all(100 < said[name] <= 600 for name in ("cem", "mppi")),
    lambda said, folder: said["return"] == 60,
    lambda said, folder: (
        1 <= said["moves"] <= 20 and "<html" in (folder / "lake" / "tree.html").read_text()
    ),
]
TEXTS = Path(__file__).with_suffix(".txt").read_text().strip().split("\n\n")
TASKS = [Task(" ".join(text.split()), check) for text, check in zip(TEXTS, CHECKS, strict=True)]


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
        print(f"task {number}: {why or 'right'}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
