"""Searches over discrete actions plan in spaces of discrete parts, by numbers of joint actions."""

from __future__ import annotations

import functools
import itertools
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from plangym_ext import GymEnv, errors
from plangym_ext.planners import (
    MCTS,
    STS,
    BanditShooting,
    BestFirst,
    DiscreteShooting,
    FractalMC,
    GraphSearch,
    OpenLoopMCTS,
    RolloutIW,
    play,
)
from plangym_ext.planners.action_spaces import adapted

SPACES = {
    "MultiDiscrete": spaces.MultiDiscrete([2, 3, 2]),
    "MultiDiscrete with a start": spaces.MultiDiscrete([2, 3], start=[5, -1]),
    "MultiDiscrete of two axes": spaces.MultiDiscrete([[2, 2], [1, 3]]),
    "MultiBinary": spaces.MultiBinary(3),
    "Tuple": spaces.Tuple((spaces.Discrete(3, start=4), spaces.MultiBinary(2))),
    "Dict": spaces.Dict(
        {"b": spaces.Discrete(2), "a": spaces.Tuple((spaces.MultiDiscrete([2, 2]),))}
    ),
}


def flat(space, action):
    """The numbers of an action, in the order of the space's parts."""
    return tuple(int(x) for x in np.ravel(spaces.flatten(space, action)))


@functools.cache
def paid(t, kind, numbers):
    """What an action pays, drawn once."""
    text = repr((t, kind, numbers))
    return np.random.default_rng([*text.encode()]).random()


class Payment(gymnasium.Env):
    """Two steps; what each joint action pays is drawn once, and the second depends on the first."""

    def __init__(self, space, mask=None):
        self.action_space, self.mask = space, mask
        self.observation_space = spaces.Box(0, 2, (1,), np.float32)
        self.t = self.kind = 0

    def told(self):
        return {} if self.mask is None else {"action_mask": self.mask[self.t % 2].copy()}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = self.kind = 0
        return np.zeros(1, np.float32), self.told()

    def step(self, action):
        assert self.action_space.contains(action), action
        numbers = flat(self.action_space, action)
        reward = paid(self.t, self.kind, numbers)
        self.kind = sum(numbers) % 3
        self.t += 1
        return np.full(1, self.t, np.float32), reward, self.t == 2, False, self.told()

    def get_state(self):
        return np.array([self.t, self.kind], np.uint8)

    def set_state(self, state):
        self.t, self.kind = map(int, state)


def all_actions(space):
    """Every action of a space, from its own parts."""
    if isinstance(space, spaces.Dict):
        found = itertools.product(*map(all_actions, space.values()))
        return [dict(zip(space, parts, strict=True)) for parts in found]
    if isinstance(space, spaces.Tuple):
        return list(itertools.product(*map(all_actions, space)))
    if isinstance(space, spaces.Discrete):
        return [space.start + k for k in range(space.n)]
    counts = space.nvec if hasattr(space, "nvec") else np.full(space.shape, 2)
    start = getattr(space, "start", np.zeros_like(counts))
    rows = itertools.product(*(range(n) for n in counts.ravel()))
    return [(np.array(row).reshape(counts.shape) + start).astype(space.dtype) for row in rows]


def values(env, t=0, kind=0):
    """The most that can be earned after each action, by trying everything."""
    found = {}
    for action in all_actions(env.action_space):
        numbers = flat(env.action_space, action)
        found[numbers] = paid(t, kind, numbers)
        if t == 0:
            found[numbers] += max(values(env, 1, sum(numbers) % 3).values())
    return found


PLANNERS = {
    "mcts": MCTS(600, discount=1.0),
    "gumbel": MCTS(600, discount=1.0, selection="gumbel"),
    "sts": STS(300, discount=1.0),
    "open loop": OpenLoopMCTS(800, discount=1.0),
    "graph": GraphSearch(num_simulations=600, discount=1.0),
    "shooting": DiscreteShooting(num_simulations=4000, rollout_depth=2, discount=1.0),
}


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("name", PLANNERS)
def test_the_best_first_action_is_that_of_trying_everything(name, kind):
    env = Payment(SPACES[kind])
    found = values(env)
    with GymEnv(lambda: Payment(SPACES[kind])) as model:
        state, obs, _ = model.reset(seed=0)
        plan = PLANNERS[name].plan(model, state, rng=0, obs=obs)
    assert SPACES[kind].contains(plan.action)
    # The best, or one that earns nearly as much: values lie between 1 and 1.9.
    assert found[flat(SPACES[kind], plan.action)] >= max(found.values()) - 0.08


@pytest.mark.parametrize(
    "planner",
    [
        BanditShooting(200, rollout_depth=2),
        BestFirst(num_simulations=50),
        FractalMC(num_simulations=20, depth=2),
        RolloutIW(num_simulations=50, max_depth=2),
    ],
    ids=lambda planner: type(planner).__name__,
)
def test_other_planners_play_actions_of_the_space(planner):
    with GymEnv(lambda: Payment(SPACES["Dict"])) as env:
        episode = play(env, planner, seed=0, max_steps=5)
        many = play(env, planner, seed=0, max_steps=5, num_episodes=2)
    assert episode.length == 2
    np.testing.assert_array_equal(many[0].rewards, episode.rewards)


@pytest.mark.parametrize("name", ["mcts", "gumbel", "sts", "open loop", "graph", "shooting"])
def test_masks_of_the_parts_are_heeded(name):
    space = SPACES["MultiDiscrete"]
    # First and second step: choices of 2, 3 and 2, one part after the other.
    masks = np.array([[1, 0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 0, 0, 1]], np.int8)
    legal = [
        [a for a in all_actions(space) if all(mask[[a[0], 2 + a[1], 5 + a[2]]])] for mask in masks
    ]
    with GymEnv(lambda: Payment(space, masks)) as env:
        episode = play(env, PLANNERS[name], seed=0, max_steps=5)
    for action, allowed in zip(episode.actions, legal, strict=True):
        assert any((action == one).all() for one in allowed)


def test_numbers_are_in_the_order_of_the_parts():
    model = adapted(Payment(SPACES["Tuple"]), MCTS(1))
    assert model.action_space.n == 12
    rows = list(zip(*model.actions, strict=True))
    np.testing.assert_array_equal([row[0] for row in rows], np.repeat([4, 5, 6], 4))
    np.testing.assert_array_equal([row[1] for row in rows][:4], [[0, 0], [0, 1], [1, 0], [1, 1]])
    assert adapted(Payment(spaces.Discrete(3)), MCTS(1)) is None


def test_masks_of_another_width_are_refused():
    with GymEnv(lambda: Payment(SPACES["MultiBinary"])) as env:
        state, *_ = env.reset(seed=0)
        with pytest.raises(errors.InvalidObservation, match="for each of their 6 choices"):
            MCTS(4).plan(env, state, rng=0, legal=np.ones(3, bool))


def test_a_tree_is_kept_and_a_planner_travels():
    planner = MCTS(100, keep_tree=True, return_tree=True)
    with GymEnv(lambda: Payment(SPACES["MultiDiscrete"])) as env:
        state, *_ = env.reset(seed=0)
        plan = planner.plan(env, state, rng=0)
        after = env.step_batch(plan.action[None], state[None]).states[0]
        kept = planner.plan(env, after, rng=1)
        assert kept.visits.sum() > 100
        fresh = pickle.loads(pickle.dumps(planner)).plan(env, after, rng=1)
    assert fresh.visits.sum() == 100
