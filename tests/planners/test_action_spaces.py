"""Planners plan over every kind of action space: values, masks, proposals, kept trees."""

from __future__ import annotations

import pickle

import action_table
import gymnasium
import numpy as np
import pytest
from aiming_env import KINDS, LENGTHS, Aiming, parts_in
from gymnasium import spaces

from plangym_ext import GymEnv, errors
from plangym_ext.arrays.action_parts import between
from plangym_ext.arrays.nested import rows_of
from plangym_ext.planners import (
    CEM,
    ICEM,
    MCTS,
    MPPI,
    SPO,
    STS,
    TSMCTS,
    DiscreteShooting,
    GraphSearch,
    OpenLoopMCTS,
    RolloutIW,
    play,
)

SAMPLED = ["MultiDiscrete, large", "Box", "hybrid"]
#: Planners, and how far what they play may be from the best action, 0 to 1, where actions are
#: sampled: the nearest of 64 misses by about 0.1. `EXHAUSTIVE` ones find the best elsewhere.
PLANNERS = {
    "mcts": (MCTS(1000, discount=1.0, num_candidates=64), 0.2),
    "gumbel": (
        MCTS(1000, discount=1.0, selection="gumbel", num_considered=64, num_candidates=64),
        0.25,
    ),
    "sts": (STS(1000, discount=1.0, num_candidates=32), 0.25),
    "open loop": (OpenLoopMCTS(1000, discount=1.0, num_candidates=64), 0.25),
    "graph": (GraphSearch(num_simulations=300, discount=1.0, num_candidates=64), 0.25),
    "shooting": (
        DiscreteShooting(num_simulations=4000, rollout_depth=2, discount=1.0, num_candidates=64),
        0.25,
    ),
    "spo": (SPO(num_simulations=512, discount=1.0, num_candidates=64), 0.35),
    "tsmcts": (TSMCTS(num_simulations=1024, discount=1.0, num_candidates=64), 0.35),
    "cem": (CEM(num_simulations=600, horizon=2, iterations=6, discount=1.0), 0.1),
    "icem": (ICEM(num_simulations=600, horizon=2, iterations=6, discount=1.0), 0.1),
    "mppi": (MPPI(num_simulations=600, horizon=2, iterations=6, discount=1.0), 0.3),
}
EXHAUSTIVE = ["mcts", "gumbel", "sts", "open loop", "shooting"]


def opened(kind, **options):
    return GymEnv(lambda: Aiming(kind, **options))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PLANNERS)
def test_value_and_first_action_are_near_those_of_exhaustive_search(name, kind):
    planner, tolerance = PLANNERS[name]
    if name in EXHAUSTIVE and kind not in SAMPLED:
        tolerance = 0.0
    env = Aiming(kind)
    with opened(kind) as model:
        state, obs, _ = model.reset(seed=0)
        plan = planner.plan(model, state, rng=0, obs=obs)
    assert KINDS[kind].contains(plan.action)
    assert env.distance(plan.action) <= tolerance
    # The best action pays 1, and the best after it 1 more. A mean over tries is less.
    assert plan.value <= 2.0
    best = plan.value if plan.q is None else np.nanmax(plan.q)
    assert best > 1.4


@pytest.mark.parametrize("kind", [kind for kind in KINDS if any(LENGTHS[kind])])
@pytest.mark.parametrize("name", PLANNERS)
def test_masks_of_every_kind_are_heeded(name, kind):
    planner, _ = PLANNERS[name]
    few = type(planner)(num_simulations=64)
    with opened(kind, masks=True) as env:
        episode = play(env, few, seed=0, max_steps=5)
    assert episode.length == 2
    twin = Aiming(kind)
    twin.reset(seed=0)
    first, second = (rows_of(episode.actions, t) for t in range(2))
    twin.step(first)
    # At the second step the choices on the target are illegal.
    hit = parts_in(KINDS[kind], second) == twin.target()
    assert not any(one for one, n in zip(hit, LENGTHS[kind], strict=True) if n is not None)


class Lock(gymnasium.Env):
    """Two moves open it; a wrong one closes it for ever."""

    def __init__(self, kind):
        self.action_space, self.task = KINDS[kind], Aiming(kind)
        self.observation_space = spaces.Box(-1, 2, (1,), np.float64)
        self.at = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return np.zeros(1), {}

    def step(self, action):
        self.task.t, self.task.miss = self.at, 0.0
        right = self.task.distance(action) == 0.0
        self.at = self.at + 1 if right else -1
        return np.full(1, float(self.at)), float(self.at == 2), self.at in (-1, 2), False, {}

    def get_state(self):
        return np.array([self.at], np.int8).view(np.uint8)

    def set_state(self, state):
        self.at = int(state.view(np.int8)[0])


LOCK_PICKERS = {
    "mcts": MCTS(3000),
    "gumbel": MCTS(6000, selection="gumbel", num_considered=50),
    "rollout-iw": RolloutIW(800),
}


@pytest.mark.parametrize("name", LOCK_PICKERS)
@pytest.mark.parametrize("kind", ["MultiDiscrete", "Dict"])
def test_a_lock_of_several_parts_is_opened(name, kind):
    """50, or 18, actions at each of two moves, of which one pair pays."""
    with GymEnv(lambda: Lock(kind)) as env:
        episode = play(env, LOCK_PICKERS[name], seed=0, max_steps=3)
    assert episode.return_ == 1.0


def test_the_table_on_the_page_is_what_the_planners_do():
    assert action_table.written(action_table.PAGE.read_text()) == action_table.table()


def test_a_node_is_widened_with_its_visits():
    planner = MCTS(100, num_candidates=32, rollout_depth=0, wave_size=1, keep_tree=True)
    with opened("Box") as env:
        state, obs, _ = env.reset(seed=0)
        plan = planner.plan(env, state, rng=0, obs=obs)
        wide = MCTS(100, num_candidates=32, rollout_depth=0, action_width=32.0)
        other = wide.plan(env, state, rng=0, obs=obs)
    # The square root of 99 visits, rounded up; all of them at once where the width is so large.
    assert np.count_nonzero(plan.visits) == 10
    assert (plan.visits[10:] == 0).all()
    assert np.count_nonzero(other.visits) == 32


@pytest.mark.parametrize("planner", [MCTS(40, keep_tree=True), OpenLoopMCTS(40), SPO(64)])
def test_sampled_plans_depend_on_the_state_and_the_seed_alone(planner):
    with opened("hybrid") as env:
        state, obs, _ = env.reset(seed=0)
        plan = planner.plan(env, state, rng=0, obs=obs)
        after = env.step_batch(stacked(plan.action), states=state[None])
        states, seen = np.stack([state, after.states[0]]), np.stack([obs, after.obs[0]])
        copy = pickle.loads(pickle.dumps(planner))
        both = copy.plan_batch(
            env, states, rngs=[np.random.default_rng(k) for k in range(2)], obs=seen
        )
    np.testing.assert_array_equal(both[0].q, plan.q)
    # The candidates are the env's own actions, of which the plan's is one.
    named = plan.candidates["gear"], plan.candidates["by"][0]
    assert named[0].shape == (16,)
    assert named[1].shape == (16, 2)
    same = (named[1] == plan.action["by"][0]).all(axis=1) & (named[0] == plan.action["gear"])
    assert same.any()
    assert (both[0].candidates["gear"] == named[0]).all()
    assert (both[1].candidates["by"][0] != named[1]).any()


def stacked(action):
    return {"gear": action["gear"][None], "by": (action["by"][0][None],)}


def test_a_tree_over_sampled_actions_is_kept():
    planner = MCTS(200, keep_tree=True)
    with opened("Box") as env:
        state, *_ = env.reset(seed=0)
        plan = planner.plan(env, state, rng=0)
        after = env.step_batch(plan.action[None], states=state[None]).states[0]
        assert planner.plan(env, after, rng=1).visits.sum() > 200


def test_a_proposal_is_what_actions_are_drawn_from():
    def proposal(obs):
        # Weights of the gears, and mean and standard deviation of two numbers, which come first.
        return np.tile([0.25, 0.0, -0.75, 0.1, 0.0, 1.0, 3.0], (len(obs), 1))

    with opened("hybrid") as env:
        state, obs, _ = env.reset(seed=0)
        plan = MCTS(20, num_candidates=2000, proposal=proposal).plan(env, state, rng=0, obs=obs)
        gears, (by,) = plan.candidates["gear"], plan.candidates["by"]
        assert not (gears == 0).any()
        assert abs((gears == 2).mean() - 0.75) < 0.05
        assert (by[:, 0] == 0.25).all()
        assert abs(by[:, 1].mean() + 0.75) < 0.01
        assert abs(by[:, 1].std() - 0.1) < 0.02
        with pytest.raises(errors.InvalidOption, match="a proposal needs obs"):
            MCTS(2, proposal=proposal).plan(env, state, rng=0)
        for answer, message in [
            (np.ones((1, 3)), r"must return \(1, 7\) numbers"),
            (-np.ones((1, 7)), "0 or more; got negative ones"),
        ]:
            with pytest.raises(errors.InvalidAnswer, match=message):
                MCTS(2, proposal=lambda obs, said=answer: said).plan(env, state, rng=0, obs=obs)


def test_numbers_without_bounds_are_drawn_as_gymnasium_draws_them():
    rng = np.random.default_rng(0)
    low, high = np.array([-np.inf, 2.0, -np.inf, -1.0]), np.array([np.inf, np.inf, 3.0, 1.0])
    drawn = between(low, high, rng.random((20_000, 4)), rng.normal(size=(20_000, 4)))
    box = spaces.Box(low, high, dtype=np.float64)
    box.seed(0)
    theirs = np.array([box.sample() for _ in range(5000)])
    assert (drawn >= low).all()
    assert (drawn <= high).all()
    np.testing.assert_allclose(drawn.mean(axis=0), theirs.mean(axis=0), atol=0.06)
    np.testing.assert_allclose(drawn.std(axis=0), theirs.std(axis=0), atol=0.06)


def test_continuous_planners_need_bounds():
    def unbounded():
        env = Aiming("Box")
        env.action_space = spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(-np.inf, 1, (1,))})
        return env

    with GymEnv(unbounded) as env:
        state, *_ = env.reset(seed=0)
        with pytest.raises(errors.InvalidOption, match=r"must be finite; got Dict"):
            CEM(num_simulations=4, horizon=2).plan(env, state, rng=0)
