"""Small exact models that speak the `SearchModel` protocol."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Discrete


class Batch(NamedTuple):
    states: Any
    obs: Any
    rewards: Any
    terminateds: Any
    truncateds: Any
    infos: Any


class RolloutBatch(NamedTuple):
    states: Any
    obs: Any
    rewards: Any
    terminateds: Any
    truncateds: Any
    steps: Any
    infos: Any


class TableModel:
    """A Markov decision process written out as tables, one row per state.

    A state row is 8 bytes, the index of the state; obs is `[1]` float32, the
    same index. Stepping an ended state is an error, so every test that uses
    this model also shows that planners never do it.
    """

    def __init__(self, successor, reward, terminated=(), truncated=(), first_action=0):
        self.successor = np.asarray(successor)
        self.reward = np.asarray(reward, float)
        self.over = np.isin(np.arange(len(self.successor)), terminated)
        self.cut = np.isin(np.arange(len(self.successor)), truncated)
        self.action_space = Discrete(self.successor.shape[1], start=first_action)
        self.step_rows = 0  # restores by step_batch
        self.rollout_rows = 0  # restores by rollout_batch
        self.model_steps = 0
        self.waves = []  # rows of every step_batch

    def state(self, index):
        return np.array([index], np.int64).view(np.uint8)

    def index(self, states):
        return np.ascontiguousarray(states).view(np.int64)[..., 0]

    def _advance(self, index, action):
        ended = self.over[index] or self.cut[index]
        assert not ended, f"stepped the ended state {index}"
        assert self.action_space.contains(action), f"action {action!r}"
        self.model_steps += 1
        a = int(action) - int(self.action_space.start)
        return self.successor[index, a], self.reward[index, a]

    def step_batch(self, actions, states):
        assert actions.shape == (len(states),)
        assert actions.dtype == np.int64
        self.step_rows += len(states)
        self.waves.append(len(states))
        pairs = [self._advance(i, a) for i, a in zip(self.index(states), actions, strict=True)]
        return self._batch(np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs]))

    def _batch(self, index, reward):
        states = index.astype(np.int64)[:, None].view(np.uint8)
        obs = index.astype(np.float32)[:, None]
        return Batch(states, obs, reward, self.over[index], self.cut[index], {})

    def rollout_batch(self, actions, states):
        rows, horizon = actions.shape
        self.rollout_rows += rows
        index = self.index(states).copy()
        rewards, steps = np.zeros((rows, horizon)), np.zeros(rows, np.int32)
        for i in range(rows):
            for t in range(horizon):
                index[i], rewards[i, t] = self._advance(index[i], actions[i, t])
                steps[i] += 1
                if self.over[index[i]] or self.cut[index[i]]:
                    break
        last = self._batch(index, rewards)
        return RolloutBatch(
            last.states, last.obs, rewards, last.terminateds, last.truncateds, steps, {}
        )

    # An episode, for `play`.
    def reset(self, *, seed=None):
        return self.state(0), np.zeros(1, np.float32), {}

    def step(self, action, state):
        out = self.step_batch(np.array([action]), states=state[None])
        return (*(x[0] for x in out[:5]), {})


def chain(length, reward=1.0, **options):
    """One action that leads from state i to i + 1; the last state has a successor too."""
    successor = np.minimum(np.arange(length) + 1, length - 1)[:, None]
    return TableModel(successor, np.full((length, 1), reward), **options)


def bandit(rewards, **options):
    """State 0 pays `rewards[a]` and ends in state 1 + a."""
    arms = len(rewards)
    successor = np.zeros((arms + 1, arms), int)
    successor[0] = np.arange(arms) + 1
    reward = np.zeros((arms + 1, arms))
    reward[0] = rewards
    return TableModel(successor, reward, terminated=range(1, arms + 1), **options)


def narrow_path(length, actions=3, right=1):
    """Only `right` stays on the path; its end pays 1, leaving it ends with 0."""
    fallen, goal = length + 1, length
    successor = np.full((length + 2, actions), fallen)
    reward = np.zeros((length + 2, actions))
    successor[:length, right] = np.arange(length) + 1
    reward[length - 1, right] = 1.0
    return TableModel(successor, reward, terminated=[goal, fallen])


def path_progress(length):
    """Return an evaluator of `narrow_path`: how much of the path is walked, 0 off it."""

    def evaluate(obs):
        at = obs[:, 0]
        return None, np.where(at > length, 0.0, at / length)

    return evaluate


def worth(value):
    """Return an evaluator to which all states are worth the same."""
    return lambda obs: (None, np.full(len(obs), value))


def random_mdp(seed, states=40, actions=3, ended=8):
    """Random tables with dyadic rewards; the last states are ended."""
    rng = np.random.default_rng(seed)
    successor = rng.integers(states, size=(states, actions))
    successor[:, 0] = rng.integers(states - ended, size=states)
    reward = rng.integers(-8, 9, size=(states, actions)) / 4
    half = states - ended // 2
    return TableModel(
        successor, reward, terminated=range(half, states), truncated=range(states - ended, half)
    )


def table_evaluator(seed, states, actions):
    """Random dyadic values and priors, looked up by the state index in obs."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-16, 17, size=states) / 4
    priors = rng.dirichlet(np.ones(actions), size=states).astype(np.float32)

    def evaluator(obs):
        index = obs[:, 0].astype(int)
        return priors[index], values[index]

    return evaluator


class Integrator:
    """x' = x + a, reward -(x'**2 + cost * a**2): a linear-quadratic problem.

    A state row is 8 bytes, x. Its best sequences are in closed form (`optimum`), as
    long as no bound of the actions is reached.
    """

    def __init__(self, cost=0.5, low=-1.0, high=1.0):
        self.cost = cost
        self.action_space = Box(low, high, (1,), np.float64)
        self.model_steps = 0
        self.calls = []  # rows of every rollout_batch
        self.tried = []  # actions of every rollout_batch

    def state(self, x):
        return np.array([x], np.float64).view(np.uint8)

    def rollout_batch(self, actions, states):
        assert actions.shape[2:] == (1,)
        assert actions.dtype == np.float64
        assert (abs(actions) <= self.action_space.high).all()
        self.calls.append(len(actions))
        self.tried.append(actions.copy())
        self.model_steps += actions.shape[0] * actions.shape[1]
        start = np.ascontiguousarray(states).view(np.float64)
        x = start + np.cumsum(actions[:, :, 0], axis=1)
        rewards = -(x**2 + self.cost * actions[:, :, 0] ** 2)
        never = np.zeros(len(x), bool)
        steps = np.full(len(x), actions.shape[1], np.int32)
        last = np.ascontiguousarray(x[:, -1:])
        return RolloutBatch(last.view(np.uint8), last, rewards, never, never, steps, {})

    def optimum(self, x, horizon):
        """The best sequence and its return: the normal equations of a least squares."""
        sums = np.tril(np.ones((horizon, horizon)))
        system = sums.T @ sums + self.cost * np.eye(horizon)
        actions = np.linalg.solve(system, -sums.T @ np.full(horizon, x))
        return actions, -float(((x + sums @ actions) ** 2).sum() + self.cost * (actions**2).sum())

    def reset(self, *, seed=None):
        return self.state(0.6), np.array([0.6]), {}

    def step(self, action, state):
        out = self.rollout_batch(np.asarray(action)[None, None], state[None])
        return out.states[0], out.obs[0], float(out.rewards[0, 0]), False, False, {}
