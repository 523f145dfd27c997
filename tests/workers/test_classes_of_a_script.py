"""Classes of the caller's own script, which workers know by value alone."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

SCRIPT = """
import enum

import gymnasium as gym
import numpy as np

import plangym_ext


class Board(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(3)

    class Piece:
        class Mark(enum.Enum):
            LOW, HIGH = 1, 2

        def __init__(self):
            self.value, self.mark = 0, self.Mark.LOW

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.piece = self.Piece()
        return np.zeros(1), {}

    def step(self, action):
        self.piece.value += int(action)
        self.piece.mark = self.Piece.Mark.HIGH
        return np.array([self.piece.value + self.piece.mark.value], float), 0.0, False, False, {}


class Other(Board):
    pass


if __name__ == "__main__":
    for kind in (Board, Other):
        with plangym_ext.make(kind, n_workers=1) as env:
            env.reset(seed=0)
            state = env.step(2, return_state=True).state
            found = env.step_batch(np.array([1, 2]), np.stack([state, state]), return_state=True)
            again = env.step_batch(np.array([1]), found.states[1:])
            print(found.obs[:, 0].tolist(), again.obs[0, 0])
"""


@pytest.mark.slow
def test_states_name_classes_within_classes_as_workers_do(tmp_path):
    script = tmp_path / "boards.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["[5.0, 6.0] 7.0"] * 2
