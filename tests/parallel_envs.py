"""Parallel envs for tests of several agents; they need no PettingZoo."""

from typing import ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from plangym_ext.envs import AgentsEnv

AGENTS = ("a", "b", "c")


class NumberedAgents:
    """Every observation is (agent, episode, step); agents come and leave at other times.

    Agent i acts in steps i to i + 3 + episode % 3. The last of them is truncated in odd episodes,
    the others terminate. Rewards are 100 * agent + step + 1.
    """

    metadata: ClassVar = {"render_modes": []}
    possible_agents = AGENTS

    def __init__(self):
        self.episode, self.t, self.agents = -1, 0, []

    def observation_space(self, agent):
        return spaces.Box(0.0, 1e6, (3,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(4)

    def _last(self, i):
        return i + 3 + self.episode % 3

    def _seen(self, names):
        return {
            name: np.array([AGENTS.index(name), self.episode, self.t], np.float32) for name in names
        }

    def reset(self, seed=None, options=None):
        self.episode, self.t, self.agents = self.episode + 1, 0, ["a"]
        return self._seen(self.agents), {"a": {}}

    def step(self, actions):
        assert set(actions) == set(self.agents), "others than those who are there"
        left, t = list(self.agents), self.t
        ended = {name: t == self._last(AGENTS.index(name)) for name in left}
        cut = {name: ended[name] and name == "c" and self.episode % 2 == 1 for name in left}
        reward = {name: 100.0 * AGENTS.index(name) + t + 1 for name in left}
        self.t = t + 1
        self.agents = [name for i, name in enumerate(AGENTS) if i <= self.t <= self._last(i)]
        terminated = {name: ended[name] and not cut[name] for name in left}
        return self._seen({*left, *self.agents}), reward, terminated, cut, {}

    def close(self):
        pass


class OneAgent:
    """A gymnasium env as a parallel env of one agent."""

    possible_agents = ("only",)

    def __init__(self, env):
        self.env, self.metadata, self.agents = env, env.metadata, []

    def observation_space(self, agent):
        return self.env.observation_space

    def action_space(self, agent):
        return self.env.action_space

    def reset(self, seed=None, options=None):
        obs, info = self.env.reset(seed=seed, options=options)
        self.agents = ["only"]
        return {"only": obs}, {"only": info}

    def step(self, actions):
        obs, *results, _ = self.env.step(actions["only"])
        self.agents = [] if results[1] or results[2] else ["only"]
        return ({"only": obs}, *({"only": one} for one in results), {"only": {}})

    def close(self):
        self.env.close()


def numbered():
    """Return the numbered agents as one env."""
    return AgentsEnv(NumberedAgents())


def one_cartpole():
    """Return CartPole as an env of one agent."""
    return AgentsEnv(OneAgent(gym.make("CartPole-v1", disable_env_checker=True)))
