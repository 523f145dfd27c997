"""What a caller has passed is its own again: playing again does not depend on it."""

from __future__ import annotations

import os
import signal

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext


class Arm(gym.Env):
    """An action shows in later observations only; one of them is refused."""

    observation_space = gym.spaces.Box(-1e9, 1e9, (2,), np.float64)
    action_space = gym.spaces.Dict(
        a=gym.spaces.Box(-10, 10, (2,), np.float64), b=gym.spaces.Discrete(3)
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.sum = 0, np.zeros(2)
        return np.zeros(2), {}

    def step(self, action):
        self.time += 1
        self.sum = self.sum + action["a"]
        if self.time == 6 and action["b"] == 2 and action["a"][0] == 5.0:
            raise ValueError("bad action")
        return self.sum * (self.time == 8), 0.0, False, self.time == 8, {}


def kill(venv):
    for pid in venv.worker_pids:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(("n_workers", "fault"), [(None, "error"), (2, "error"), (2, "kill")])
def test_actions_are_played_again_as_they_were(n_workers, fault):
    with plangym_ext.make_vec(Arm, 4, n_workers=n_workers) as venv:
        venv.reset(seed=0)
        buffer = {"a": np.zeros((4, 2)), "b": np.zeros(4, int)}
        for k in range(8):
            buffer["a"][:] = k
            if k == 5 and fault == "kill":
                kill(venv)
            if k == 5 and fault == "error":
                buffer["b"][0] = 2
                with pytest.raises(ValueError, match="bad action"):
                    venv.step(buffer)
                buffer["b"][:] = 0
            obs = venv.step(buffer)[0]
        assert obs.tolist() == [[28.0, 28.0]] * 4


class Goals(gym.Env):
    """Has a goal, which is no part of what it shows before the tenth step."""

    observation_space = gym.spaces.Box(-1e9, 1e9, (2,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, number=0):
        self.goal, self.number, self.level = np.zeros(2), number, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        if options:
            self.goal = np.array(options["goal"], float)
        return np.zeros(2), {}

    def step(self, action):
        self.time += 1
        seen = np.array([self.level, 0.0]) + np.asarray(self.goal) * (self.time >= 10)
        return seen, 0.0, False, self.time == 20, {}

    def set_goal(self, goal):
        self.goal = goal

    def set_level(self, level):
        self.level = level
        if self.number == 3:
            raise ValueError("no such level")

    # Its states say nothing of the goal and the level.
    def get_state(self):
        return np.array([self.time])

    def set_state(self, state):
        self.time = int(state[0])


@pytest.mark.parametrize("way", ["call", "attr", "reset"])
def test_what_was_set_is_set_again_as_it_was(way):
    goal = np.array([2.0, 3.0]) if way == "attr" else [2.0, 3.0]
    with plangym_ext.make_vec(Whole, 2, n_workers=2) as venv:
        venv.reset(seed=0, options={"goal": goal} if way == "reset" else None)
        if way == "call":
            venv.call("set_goal", goal)
        elif way == "attr":
            venv.set_attr("goal", [goal, goal])
        goal[:] = [9.0, 9.0]
        for _ in range(9):
            venv.step(np.zeros(2, int))
        kill(venv)
        assert venv.step(np.zeros(2, int))[0].tolist() == [[2.0, 3.0]] * 2


class Whole(Goals):
    """Whose states hold all of it."""

    get_state = set_state = None

    def set_goal(self, goal):
        # Looked at in the step alone.
        self.goal = goal


@pytest.mark.parametrize("n_workers", [None, 1, 2, 4])
@pytest.mark.parametrize("how", ["call", "attr"])
def test_what_fails_for_one_row_has_not_happened_for_any(n_workers, how):
    makes = [lambda n=n: Picky(n) for n in range(4)]
    with plangym_ext.make_vec(makes, n_workers=n_workers) as venv:
        venv.reset(seed=0)
        venv.call("set_plainly", 1)
        venv.step(np.zeros(4, int))
        with pytest.raises(ValueError, match="no such level"):
            venv.call("set_level", 4) if how == "call" else venv.set_attr("level", [4, 4, 4, 7])
        assert venv.step(np.zeros(4, int))[0][:, 0].tolist() == [1.0] * 4
        assert venv.get_attr("level") == (1,) * 4


class Picky(Goals):
    """Refuses the level 7."""

    def set_plainly(self, level):
        self.level = level

    def set_wrapper_attr(self, name, value, *, force=True):
        if value == 7:
            raise ValueError("no such level")
        return super().set_wrapper_attr(name, value, force=force)
