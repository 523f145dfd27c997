"""Envs and agents whose every value says what it is, and a plain loop that samplers must equal."""

from __future__ import annotations

import functools
import os
import signal
import time

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from plangym_ext import make_vec
from plangym_ext.learn.agents.agent import Acted, Agent
from plangym_ext.learn.agents.inputs import Inputs
from plangym_ext.learn.sampling.noise import RowNoise

ACTIONS = 5


class Oracle(gym.Env):
    """Observations are (env, episode, step); episodes end by turns in either way.

    Args:
        index: of the env among all.
        longest: episodes have 2 to so many steps.
    """

    observation_space = spaces.Box(-1000, 1000, (3,), np.float32)
    action_space = spaces.Discrete(ACTIONS)

    def __init__(self, index, longest=5):
        self.index, self.longest = index, longest
        self.episode, self.count = -1, 0

    def _obs(self):
        return np.array([self.index, self.episode, self.count], np.float32)

    @property
    def length(self):
        return 2 + (self.index + 2 * self.episode) % (self.longest - 1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.count = self.episode + 1, 0
        return self._obs(), {"at": float(self._obs() @ [100, 10, 1])}

    def step(self, action):
        self.count += 1
        over = self.count == self.length
        terminates = (self.index + self.episode) % 2 == 0
        reward = 100.0 * self.index + 10 * self.episode + self.count + action / 10
        # np.bool_, as many envs return.
        ends = np.bool_(over and terminates), np.bool_(over and not terminates)
        return self._obs(), reward, *ends, {"at": float(self._obs() @ [100, 10, 1])}


class Games(Oracle):
    """Every second end is only that of a life."""

    def step(self, action):
        *found, info = super().step(action)
        return *found, info | {"game_over": self.episode % 2 == 1, "score": 1000 + self.episode}


class Tally(Agent):
    """Carries the number of steps since `first`, and acts by everything that it is shown."""

    def initial_carry(self, num_rows):
        return {"steps": np.full(num_rows, 7, np.int64)}

    def step(self, inputs: Inputs, carry):
        steps = np.where(inputs.first, 0, carry["steps"]) + 1
        drawn = np.floor(inputs.noise.uniform()[:, 0] * 3).astype(np.int64)
        action = (steps + inputs.action + drawn) % ACTIONS
        info = {"steps": steps, "seen": np.array(inputs.reward), "value": inputs.obs[:, 2] * 1.0}
        return Acted(action, info, {"steps": steps})

    def value(self, inputs, carry):
        return inputs.obs[:, 2]


def oracle_venv(num_envs=3, env=Oracle, first=0, **options):
    """Return a vector env of oracles, numbered from `first`."""
    makes = [lambda index=index: env(index) for index in range(first, first + num_envs)]
    return make_vec(makes, **{"backend": "serial", "autoreset_mode": "same_step", **options})


def oracle_rows(rows, env=Oracle, **options):
    """Return a vector env of some rows, as a `WorkerSampler` wants it."""
    return oracle_venv(len(rows), env, rows.start, **options)


def cartpole_rows(rows, backend="serial"):
    """Return CartPoles, as a `WorkerSampler` wants them."""
    return make_vec("CartPole-v1", len(rows), backend=backend, autoreset_mode="same_step")


class NestedOracle(Oracle):
    """An oracle whose observations and actions are nested."""

    observation_space = spaces.Dict(
        {
            "place": spaces.Tuple((Oracle.observation_space, spaces.Discrete(100))),
            "mask": spaces.MultiBinary(2),
        }
    )
    action_space = spaces.Tuple((spaces.Discrete(3), spaces.Dict({"x": spaces.Box(-1, 1, (2,))})))

    def _nested(self, obs):
        return {"place": (obs, int(obs[2])), "mask": np.array([1, obs[2] % 2], np.int8)}

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed)
        return self._nested(obs), info

    def step(self, action):
        which, more = action
        obs, reward, *rest = super().step(0)
        return self._nested(obs), reward + which + float(more["x"].sum()), *rest


class Marked(Oracle):
    """An oracle that does something in step 2 of its episode 1 while there is a file.

    Args:
        index: of the env; only that of row 2 does it.
        folder: of the file, whose name says what is done: "kill", "sleep" or "raise".
    """

    def __init__(self, index, folder):
        super().__init__(index)
        self.folder = folder

    def step(self, action):
        if (self.index, self.episode, self.count) == (2, 1, 1):
            for marker in self.folder.iterdir():
                self.fault(marker)
        return super().step(action)

    def fault(self, marker):
        if marker.name == "kill":
            marker.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        if marker.name == "kill again":
            os.kill(os.getpid(), signal.SIGKILL)
        if marker.name == "raise":
            raise RuntimeError("the env failed")
        if marker.name == "sleep":
            time.sleep(300)


def marked_rows(rows, folder):
    """Return a vector env of `Marked`, as a `WorkerSampler` wants it."""
    return oracle_rows(rows, functools.partial(Marked, folder=folder))


def copied(tree):
    """Return fresh numpy arrays of everything in a tree, row T of what has one included."""
    found = {}
    for name, leaf in tree.leaves():
        top = name.split(".")[0]
        more = top in ("obs", "first", "prev_action", "prev_reward")
        found[name] = np.array(leaf[0 : leaf.shape[0] + more])
    # What is not of an ending is left over from before.
    ended = found["terminated"] | found["truncated"]
    for name in found:
        if name.startswith("final_obs"):
            found[name][~ended] = 0
    return found


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)


def played(num_envs, num_steps, fragments, seed=0, env=Oracle, on_end="reset"):
    """Return what a sampler must write, by a plain loop over one env after the other.

    Returns:
        A dict of arrays for each fragment, and the episodes as (fragment, step, row, return,
        length, terminated).
    """
    found, episodes = [{} for _ in range(fragments)], []
    for row in range(num_envs):
        one = _Row(env(row), row, seed, num_steps, on_end)
        for fragment in range(fragments):
            columns = one.fragment()
            for name, column in columns.items():
                found[fragment].setdefault(name, []).append(column)
            episodes += [(fragment, *ending) for ending in one.ended]
    stacked = [
        {
            name: np.stack(columns, axis=np.ndim(columns[0]) > 0 and 1)
            for name, columns in one.items()
        }
        for one in found
    ]
    return stacked, sorted(episodes)


class _Row:
    """One env and one agent of one row."""

    def __init__(self, env, row, seed, num_steps, on_end):
        self.env, self.row, self.num_steps, self.on_end = env, row, num_steps, on_end
        self.agent, self.noise = Tally(), RowNoise(seed, [row])
        self.carry = self.agent.initial_carry(1)
        self.obs, _ = env.reset()
        self.action, self.reward, self.first = 0, 0.0, True
        self.sum, self.length = 0.0, 0

    def fragment(self):
        steps = self.num_steps
        found = {
            "obs": np.zeros((steps + 1, 3), np.float32),
            "final_obs": np.zeros((steps, 3), np.float32),
            "action": np.zeros(steps, np.int64),
            "prev_action": np.zeros(steps + 1, np.int64),
            "reward": np.zeros(steps, np.float32),
            "prev_reward": np.zeros(steps + 1, np.float32),
            "terminated": np.zeros(steps, bool),
            "truncated": np.zeros(steps, bool),
            "first": np.zeros(steps + 1, bool),
            "valid": np.zeros(steps, bool),
            "carry.steps": self.carry["steps"][0],
            **{f"agent_info.{name}": np.zeros(steps) for name in ("steps", "seen", "value")},
        }
        self.ended, waits = [], False
        for t in range(steps):
            if waits:
                if self.on_end == "sticky":
                    found["obs"][t], found["first"][t] = self.obs, True
                self.noise.advance()
                continue
            self.show(found, t)
            waits = self.step(found, t) and self.on_end != "reset"
        self.show(found, steps)
        return found

    def show(self, found, t):
        found["obs"][t], found["first"][t] = self.obs, self.first
        found["prev_action"][t], found["prev_reward"][t] = self.action, self.reward

    def step(self, found, t):
        obs = self.obs[None]
        first = np.array([self.first])
        inputs = Inputs(obs, np.array([self.action]), np.array([self.reward], np.float32), first)
        action, info, self.carry = self.agent.step(inputs._replace(noise=self.noise), self.carry)
        self.noise.advance()
        self.obs, reward, terminated, truncated, info_ = self.env.step(int(action[0]))
        found["valid"][t], found["action"][t], found["reward"][t] = True, action[0], reward
        found["terminated"][t], found["truncated"][t] = terminated, truncated
        for name, value in info.items():
            found[f"agent_info.{name}"][t] = value[0]
        self.sum, self.length = self.sum + reward, self.length + 1
        self.action, self.reward = int(action[0]), np.float32(reward)
        self.first = bool(terminated or truncated)
        if self.first:
            found["final_obs"][t] = self.obs
            if info_.get("game_over", True):
                self.ended.append((t, self.row, self.sum, self.length, bool(terminated)))
                self.sum, self.length = 0.0, 0
            self.obs, _ = self.env.reset()
            self.action, self.reward = 0, 0.0
        return self.first
