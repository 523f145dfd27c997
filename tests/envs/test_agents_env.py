"""AgentsEnv: the contract with agents that come and go; what it refuses."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from forging import forged
from gymnasium import spaces
from parallel_envs import NumberedAgents, numbered

import plangym_ext
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.envs import AgentsEnv
from plangym_ext.errors import (
    DamagedState,
    InvalidAction,
    InvalidObservation,
    InvalidOption,
    WrongKind,
)


def test_states_with_agents_that_come_and_go_are_exact():
    with plangym_ext.make(numbered) as env:
        assert env.exact
        assert env.exactness.method == "codec"
        assert env.exactness.proved != "library"
        state, *_ = env.reset()
        action = np.zeros(3, np.int64)
        state = env.step(action, state).state
        after = env.step(action, state)
        # Agents 0, 1 and 2 act from steps 0, 1 and 2 on.
        assert after.info["agent_acted"].tolist() == [True, True, False]
        assert after.info["agent_alive"].tolist() == [True, True, True]
        assert after.info["agent_reward"].tolist() == [2.0, 102.0, 0.0]
        assert after.reward == 104.0


def test_an_agent_that_goes_without_a_word_has_terminated():
    class Vanishes(NumberedAgents):
        def step(self, actions):
            seen, reward, terminated, truncated, info = super().step(actions)
            return seen, reward, dict.fromkeys(terminated, False), truncated, info

    env = AgentsEnv(Vanishes())
    env.reset()
    ended = []
    over = False
    while not over:
        _, _, over, cut, info = env.step(np.zeros(3, np.int64))
        ended.append(info["agent_terminated"].tolist())
    assert not cut
    assert np.array(ended).sum(axis=0).tolist() == [1, 1, 1]


def test_what_is_no_parallel_env_is_refused():
    with pytest.raises(WrongKind, match="parallel interface"):
        AgentsEnv(gym.make("CartPole-v1"))
    env = AgentsEnv(NumberedAgents())
    env.reset()
    with pytest.raises(InvalidAction, match="for each of a, b, c"):
        env.step(np.zeros(2, np.int64))


@pytest.mark.parametrize("there", [None, 3, np.ones(2, bool), np.ones(3)])
def test_a_forged_state_that_does_not_say_who_is_there_is_refused(there):
    with GymEnv(numbered) as env:
        env.reset(seed=1)
        if there is None:
            del env.gym_env._alive
        else:
            env.gym_env._alive = there
        row = forged(env)
        with pytest.raises(DamagedState, match="3 agents"):
            env.step_batch(np.zeros((1, 3), int), row[None])


@pytest.mark.parametrize("name", ["stacked", "_masked", "_widths", "_spaces", "env", "agents"])
def test_a_state_has_no_place_for_what_the_env_is_made_of(name):
    with GymEnv(numbered) as env:
        env.reset(seed=1)
        assert name not in env.codec.parts[-1]._layers[0].state()


class Odd(NumberedAgents):
    """Does in its second step what the interface does not allow."""

    possible_agents = ("a", "b")
    what = ""
    dtype = np.float32

    def observation_space(self, agent):
        return spaces.Box(0, 255, (2,), self.dtype)

    def reset(self, seed=None, options=None):
        self.t, self.agents = 0, ["a", "b"]
        return self._shown(), {}

    def _shown(self):
        return {name: np.array([self.t, 1.0]) for name in self.agents}

    def step(self, actions):
        self.t += 1
        seen, flags = self._shown(), dict.fromkeys(self.agents, False)
        rewards = dict.fromkeys(self.agents, np.array([0.5]))
        if self.t == 2 and self.what == "stranger":
            self.agents = ["a", "b", "z"]
        elif self.t == 2 and self.what in seen | {"all": None}:
            seen = None if self.what == "all" else {**seen, self.what: np.full(3, 7.5)}
        elif self.t == 2 and self.what == "fraction":
            seen["a"] = np.array([300.5, 0.0])
        elif self.t == 2 and self.what in ("text", "none"):
            rewards = {"a": "1.5"} if self.what == "text" else None
        return seen, rewards, flags, flags, {}


@pytest.mark.parametrize(
    ("what", "dtype", "message"),
    [
        ("stranger", np.float32, "among possible_agents"),
        ("b", np.float32, "observation of b: expected"),
        ("all", np.float32, "a dict by agent"),
        ("fraction", np.uint8, "observation of a: expected"),
        ("text", np.float32, "reward: expected one number"),
        ("none", np.float32, "dicts by agent"),
    ],
)
def test_what_the_interface_does_not_allow_is_refused(what, dtype, message):
    odd = Odd()
    odd.what, odd.dtype = what, dtype
    env = AgentsEnv(odd)
    env.reset(seed=0)
    assert env.step(np.zeros(2, int))[1] == 1.0  # rewards may be arrays of one number
    with pytest.raises(InvalidObservation, match=message):
        env.step(np.zeros(2, int))


@pytest.mark.parametrize(("agents", "message"), [(("a", "a"), "distinct"), (None, "no possible")])
def test_agents_have_different_names(agents, message):
    odd = Odd()
    odd.possible_agents = agents
    with pytest.raises(InvalidOption, match=message):
        AgentsEnv(odd)
