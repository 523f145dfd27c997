"""The doctor on envs that are ill: it names the first field and step that differ."""

from __future__ import annotations

import re
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import plangym_ext
from plangym_ext.run.cli import main


class Forgetful(CartPoleEnv):
    """Its own state leaves out the wind, which blows harder with every step."""

    wind = 0.0

    def get_state(self):
        return np.array(self.state, np.float64)

    def set_state(self, state):
        self.state = np.array(state)

    def step(self, action):
        self.wind += 0.5
        obs, reward, *rest = super().step(action)
        return obs, reward + self.wind, *rest


class Counting(gym.Env):
    """Counts outside of itself, and says so from the thirteenth step on."""

    observation_space = gym.spaces.Box(0.0, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)
    ticks = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(1), {}

    def step(self, action):
        self.steps += 1
        Counting.ticks += 1
        info = {"ticks": Counting.ticks if self.steps >= 13 else 0}
        return np.full(1, self.steps, np.float64), 1.0, False, False, info


class Raising(Counting):
    """Raises where `when` says: in its constructor, a reset after two steps, or its fifth step."""

    when = "step"

    def __init__(self, when="step"):
        self.when, self.steps = when, 0
        self._raise("init", SystemExit(3))

    def _raise(self, when, error):
        if when == self.when:
            raise error

    def reset(self, *, seed=None, options=None):
        if self.steps >= 2:
            self._raise("reset", FileNotFoundError(2, "no such file", "level.txt"))
        return super().reset(seed=seed)

    def step(self, action):
        self.steps += 1
        if self.steps == 5:
            self._raise("step", ValueError("out of order"))
        return np.full(1, self.steps, np.float64), 1.0, False, False, {}


class BehindPipe(Counting):
    """Asks a child over a pipe, which copies of the process do not have."""

    def __init__(self):
        program = "for line in open(0): print(line, end='', flush=True)"
        self.child = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def step(self, action):
        self.child.stdin.write(f"{action}\n")
        self.child.stdin.flush()
        return np.full(1, int(self.child.stdout.readline()), np.float64), 1.0, False, False, {}

    def close(self):
        self.child.communicate()


class Short(Counting):
    """Ends with the fifth step, and minds one that is taken after that."""

    def step(self, action):
        assert self.steps < 5
        self.steps += 1
        return np.full(1, self.steps, np.float64), 1.0, self.steps == 5, False, {}


@pytest.mark.parametrize(
    ("name", "backend"), [("CartPole-v1", "kernel,"), ("Reacher-v5", "mujoco, on ")]
)
def test_it_tells_the_backend_and_what_compiling_took(name, backend, capsys):
    assert main(["doctor", name, "--steps", "5"]) == 0
    (line,) = [text for text in capsys.readouterr().out.splitlines() if " backend " in text]
    assert line.split(maxsplit=1)[1].startswith(backend)
    assert "compiled or loaded in" in line


@pytest.fixture
def ids():
    found = {f"{cls.__name__}-v0": cls for cls in (Forgetful, Counting, Short, Raising)}
    for name, cls in found.items():
        gym.register(name, cls)
    yield
    for name in found:
        del gym.registry[name]


@pytest.mark.usefixtures("ids")
def test_own_state_that_forgets_is_refused_by_the_field_that_differs(capsys):
    assert main(["doctor", "Forgetful-v0", "--capture", "own"]) == 2
    said = capsys.readouterr().err
    assert "own: reward differs at step 2, 1 after the state of step 1" in said
    assert "Give the env get_state and set_state" in said
    # Left to itself the library takes CartPole's codec and the wind beside it.
    assert main(["doctor", "Forgetful-v0", "--steps", "20"]) == 0


@pytest.mark.usefixtures("ids")
def test_difference_that_shows_late_is_found_with_its_step(capsys):
    assert main(["doctor", "Counting-v0"]) == 2
    said = capsys.readouterr().err
    # By its name, also where the proof was too short to come to the thirteenth step.
    assert "Counting.ticks" in said
    with plangym_ext.make("Counting-v0", check=False) as env:
        assert not plangym_ext.check_env(env, num_steps=30).exact


@pytest.mark.usefixtures("ids")
def test_what_a_replay_costs_is_measured_within_an_episode(capsys):
    assert main(["doctor", "Short-v0", "--capture", "replay", "--steps", "20"]) == 0
    assert "at depth 4: the reset and 4 steps are played again" in capsys.readouterr().out


@pytest.mark.usefixtures("ids")
@pytest.mark.parametrize(
    ("when", "text"),
    [("init", "SystemExit: 3"), ("reset", "no such file"), ("step", "ValueError: out of order")],
)
def test_what_an_env_raises_is_a_line_with_its_place(when, text, capsys):
    assert main(["doctor", "Raising-v0", f"--env.when={when}", "--steps", "50"]) == 1
    *_, line = capsys.readouterr().out.splitlines()
    assert re.search(rf"the env +has raised .*{text}.* \({re.escape(__file__)}:\d+\)", line)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (BehindPipe, "it reads a pipe"),
        (lambda: Raising("reset"), r"it has raised FileNotFoundError.*test_doctor.py:\d+"),
    ],
)
def test_what_an_env_raises_in_a_copy_is_the_difference(make, text):
    with plangym_ext.make(make, backend="serial", check=False, capture="snapshot") as env:
        report = plangym_ext.check_env(env, num_steps=20)
    assert not report.exact
    assert re.search(text, str(report))
