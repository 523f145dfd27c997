"""Opponents of a league: whose moves they are, what they cost, and envs that are refused."""

from __future__ import annotations

from typing import ClassVar

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

import plangym_ext
from plangym_ext.errors import WrongKind
from plangym_ext.learn import (
    AgentConfig,
    AgentPlanner,
    League,
    LeagueConfig,
    Opponents,
    PolicyAgent,
    RandomAgent,
    SerialSampler,
    SoftPolicyConfig,
    make_agent_network,
)

GAME = "plangym_ext/TicTacToe-v0"


def test_opponents_know_the_learners_version_and_what_they_cost():
    config = SoftPolicyConfig(hidden=(4,))
    with plangym_ext.make(GAME) as env:
        mine, copied = (
            make_agent_network(env.observation_space, env.action_space, config, seed=0)
            for _ in range(2)
        )
        with torch.no_grad():
            for part in mine.parameters():
                part.zero_()
            mine.heads.bias[4] = 50.0  # always the middle of the board
        player = AgentPlanner(agent=PolicyAgent(copied), mode="sample")
        venv = plangym_ext.make_vec(GAME, 6, autoreset_mode="same_step")
        other = Opponents(League(mine, LeagueConfig()), copied, player, env)
        agent = RandomAgent(venv.single_action_space)
        sampler = SerialSampler(venv, agent, 20, opponents=other, seed=0)
        collected = sampler.collect(version=7)
        obs = collected.data["obs"].to_ndarray()
        begun = obs[collected.data["first"].to_ndarray() & (obs.sum(axis=(2, 3, 4)) == 1)][:, 1]
        # An agent of version 0 would play at random, whatever its weights are.
        assert len(begun) > 5
        assert begun[:, 1, 1].all()
        assert player.updates == 7
        # Each move of theirs is a step of the env, and each learner's move has come to an end or
        # was answered.
        assert collected.steps == 120
        assert 180 < collected.cost.model_steps < 260
        sampler.close()


class Restricted(gym.Env):
    """Six moves in turns; positions of player 1 allow the first action alone, and say so."""

    metadata: ClassVar = {"render_modes": [], "num_players": 2}
    observation_space = spaces.Box(0.0, 6.0, (1,), np.float32)
    action_space = spaces.Discrete(3)
    first = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._shown(), {"to_play": self.first, "action_mask": np.ones(3, np.int8)}

    def step(self, action):
        mover, self.time = self.time % 2, self.time + 1
        info = {"player": self.first + mover, "to_play": self.first + self.time % 2}
        if self.time % 2:
            info["action_mask"] = np.array([1, 0, 0], np.int8)
        return self._shown(), 0.0, self.time == 6, False, info

    def _shown(self):
        return np.array([self.time], np.float32)


class Numbered(Restricted):
    """The players are 1 and 2."""

    first = 1


class Alone(Restricted):
    """Player 1 never moves, and no game ends."""

    def step(self, action):
        *_, info = super().step(action)
        self.time %= 2
        return self._shown(), 0.0, False, False, {**info, "player": 0, "to_play": 0}


def played(make, num_steps, count=1):
    with plangym_ext.make(make, n_workers=0) as env:
        spaces_of = env.observation_space, env.action_space
        mine, copied = (
            make_agent_network(*spaces_of, AgentConfig(hidden=(4,)), seed=0) for _ in range(2)
        )
        player = AgentPlanner(agent=RandomAgent(env.action_space), mode="sample")
        venv = plangym_ext.make_vec(make, count, autoreset_mode="same_step", backend="serial")
        other = Opponents(League(mine, LeagueConfig()), copied, player, env)
        agent = RandomAgent(venv.single_action_space)
        sampler = SerialSampler(venv, agent, num_steps, opponents=other, seed=0)
        try:
            return sampler.collect().data
        finally:
            sampler.close()


def test_a_mask_is_that_of_the_learners_own_position():
    tree = played(Restricted, 40)
    time, mask = tree["obs"].to_ndarray()[:, 0, 0], tree["action_mask"].to_ndarray()[:, 0]
    assert {0, 1} <= set(time)
    for at, allowed in zip(time, mask, strict=True):
        assert allowed.tolist() == [True, at % 2 == 0, at % 2 == 0]


def test_envs_whose_players_are_others_or_that_never_let_the_learner_move_are_refused():
    with pytest.raises(WrongKind, match=r"0 or 1; got 'to_play' \[[12]\]"):
        played(Numbered, 10)
    with pytest.raises(WrongKind, match="not the learner's turn"):
        played(Alone, 2, count=4)
