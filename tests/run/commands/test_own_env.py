"""An env of the user's own, from a module in the current folder, on the command line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

MODULE = """
import gymnasium as gym
import numpy as np

class Corridor(gym.Env):
    observation_space = gym.spaces.Box(0, 99, (1,), np.int64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, length=5, sticky=False):
        self.length, self.sticky = length, sticky

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return np.array([0]), {}

    def step(self, action):
        self.at += int(action)
        return np.array([self.at]), float(action), self.at >= self.length, False, {}

gym.register("Corridor-v0", Corridor)
"""

#: One process runs all of the commands: each argument is a JSON list.
PROGRAM = """
import json, sys
from plangym_ext.run.cli import main
for number, arguments in enumerate(sys.argv[1:]):
    status = main(json.loads(arguments))
    print(f"status {number}: {status}", flush=True)
"""


def run_all(folder, *commands):
    words = [json.dumps(command) for command in commands]
    return subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", PROGRAM, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )


def test_every_command_takes_an_own_env_and_its_arguments(tmp_path):
    (tmp_path / "corridors.py").write_text(MODULE)
    name, small = "corridors:Corridor-v0", ["--max-steps", "20", "--n-workers"]
    done = run_all(
        tmp_path,
        # First, so that it has to find the module by itself.
        [
            "compare",
            name,
            "--planners",
            "mcts:rollout-depth=2",
            "--seeds",
            "1",
            "--model-steps",
            "20",
            "--out",
            "d",
            "--env.length=2",
        ],
        ["plan", name, *small, "1", "--num-simulations", "8", "--out", "a"],
        ["plan", name, *small, "0", "--num-simulations", "8", "--out", "b", "--env.length", "3"],
        ["plan", "Corridor-v0", *small, "0", "--import", "corridors", "--out", "c"],
        ["doctor", name, "--steps", "5", "--env.length=7"],
        ["doctor", name, "--env.lenght", "7"],
        ["doctor", "corridor:Corridor-v0"],
        ["doctor", name, "--import", "corridor"],
    )
    statuses = [int(line[-1]) for line in done.stdout.splitlines() if line.startswith("status")]
    assert statuses == [0, 0, 0, 0, 0, 2, 2, 2]
    episodes = {out: json.loads((tmp_path / out / "episode.json").read_text()) for out in "abc"}
    # A step to the right pays 1, and the last one ends the episode.
    assert [episodes[out]["return"] for out in "abc"] == [5.0, 3.0, 5.0]
    assert (episodes["a"]["env"], episodes["b"]["env_arguments"]) == (name, {"length": 3})
    compared = json.loads((tmp_path / "d" / "compare.json").read_text())
    assert [row["mean"] for row in compared["summary"]] == [2.0]
    assert compared["settings"]["env_arguments"] == {"length": 2}
    assert "Corridor-v0 has no option 'lenght' (did you mean 'length'?)" in done.stderr
    assert "There is no module 'corridor' in sys.path" in done.stderr
    assert "--import: expected a module; got 'corridor'" in done.stderr


STAYING = """
import sys

class StayError(Exception):
    def __init__(self, first, second):
        super().__init__(first)

class Workers(Corridor):
    def step(self, action):
        if "fork_server" in " ".join(sys.orig_argv):
            raise StayError(1, 2)
        return super().step(action)

gym.register("Workers-v0", Workers)
"""


def test_a_fault_in_a_worker_that_cannot_travel_is_shown_with_its_traceback(tmp_path):
    (tmp_path / "staying.py").write_text(MODULE + STAYING)
    program = (
        "import sys\n"
        "from plangym_ext.run.cli import main\n"
        "sys.exit(main(['plan', 'staying:Workers-v0', '--n-workers', '1', '--max-steps', '2']))"
    )
    command = [sys.executable, "-P", "-c", program]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 1
    assert "WorkerError: StayError in worker 0" in done.stderr
    assert "raise StayError(1, 2)" in done.stderr
