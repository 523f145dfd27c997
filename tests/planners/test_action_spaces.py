"""Planners plan over every kind of action space: values, masks, proposals, kept trees."""

from __future__ import annotations

import pickle

import action_table
import gymnasium
import numpy as np
import pytest
from aiming_env import KINDS, LENGTHS, Aiming, all_actions, parts_in
from gymnasium import spaces

from plangym_ext import GymEnv, errors
from plangym_ext.arrays.action_parts import between
from plangym_ext.arrays.nested import num_rows, rows_of
from plangym_ext.planners import CEM, MCTS, PLANNERS, SPO, OpenLoopMCTS, load_planner, play

FINITE = [kind for kind in KINDS if kind not in ("MultiDiscrete, large", "Box", "hybrid")]
TREE = {"num_simulations": 1000, "num_candidates": 64}
COLD = {**TREE, "policy_temperature": 0.02}
SEQUENCES = {"num_simulations": 600, "horizon": 2, "iterations": 6}
PARTICLES = {"num_candidates": 64}
#: Options of planners, and how far what they play may be from the best action, 0 to 1, where
#: actions are sampled: the nearest of 64 misses by about 0.1. In the other spaces `EXHAUSTIVE`
#: ones find the best. The others promise no optimum: `q` is at most what an action is worth, and
#: `value` what `actions` return.
PROMISES = {
    "mcts": (TREE, 0.2),
    "gumbel": ({**TREE, "selection": "gumbel", "num_considered": 64}, 0.25),
    "sts": ({"num_simulations": 1000, "num_candidates": 32}, 0.25),
    "open-loop": (TREE, 0.25),
    "ments": (COLD, 0.2),
    "tents": (COLD, 0.2),
    "dents": (COLD, 0.2),
    "bts": (COLD, 0.2),
    "ants": (TREE, 0.2),
    "graph": ({**TREE, "num_simulations": 300}, 0.25),
    "rollout-iw": ({"num_simulations": 1100, "features": "whole", "num_candidates": 32}, 0.25),
    "iw": ({"num_simulations": 1100, "features": "whole", "num_candidates": 32}, 0.25),
    "shooting": ({"num_simulations": 4000, "rollout_depth": 2, "num_candidates": 64}, 0.25),
    "bandit": ({**TREE, "rollout_depth": 2}, 0.3),
    "fractal": ({**PARTICLES, "num_simulations": 500, "depth": 2}, 0.35),
    "spo": ({**PARTICLES, "num_simulations": 512}, 0.35),
    "tsmcts": ({**PARTICLES, "num_simulations": 1024}, 0.35),
    "random-shooting": ({"num_simulations": 2500, "horizon": 2}, 0.2),
    "predictive-sampling": (SEQUENCES, 0.2),
    "cem": (SEQUENCES, 0.1),
    "icem": (SEQUENCES, 0.1),
    "mppi": (SEQUENCES, 0.3),
    "dial": (SEQUENCES, 0.1),
}
EXHAUSTIVE = [
    *("mcts", "gumbel", "sts", "open-loop", "ments", "tents", "dents", "bts", "ants"),
    *("rollout-iw", "iw", "shooting", "random-shooting"),
]
#: Entropy is a part of values.
SOFT = {"ments": 0.01, "tents": 0.01, "dents": 0.01, "ants": 0.25}
#: Searches for a goal, in a lock that only the best actions open.
TO_GOALS = {name: {**TREE, "num_simulations": 200} for name in ("best-first", "levin", "phs")}


def planner_of(name, **changed):
    options = TO_GOALS[name] if name in TO_GOALS else PROMISES[name][0]
    options = {**options, "discount": 1.0, **changed}
    return load_planner("mcts" if name == "gumbel" else name)(**options)


def test_every_planner_promises_something():
    assert {*PROMISES, *TO_GOALS} == {*PLANNERS, "gumbel"}


def opened(kind, **options):
    return GymEnv(lambda: Aiming(kind, **options))


def returned(env, actions):
    """The return of a sequence of actions."""
    env.reset(seed=0)
    return sum(env.step(rows_of(actions, t))[1] for t in range(num_rows(actions)))


@pytest.mark.parametrize("kind", FINITE)
def test_the_best_of_all_sequences_begins_at_the_target_and_returns_two(kind):
    env, every = Aiming(kind), all_actions(KINDS[kind])
    env.reset(seed=0)
    start, returns = env.get_state(), {}
    for i, first in enumerate(every):
        for j, second in enumerate(every):
            env.set_state(start)
            returns[i, j] = env.step(first)[1] + env.step(second)[1]
    env.set_state(start)
    best = max(returns, key=returns.get)
    assert returns[best] == 2.0
    assert env.distance(every[best[0]]) == 0.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PROMISES)
def test_value_and_first_action_are_near_those_of_exhaustive_search(name, kind):
    tolerance = 0.0 if name in EXHAUSTIVE and kind in FINITE else PROMISES[name][1]
    env = Aiming(kind)
    with opened(kind) as model:
        state, obs, _ = model.reset(seed=0)
        plan = planner_of(name).plan(model, state, rng=0, obs=obs)
    assert KINDS[kind].contains(plan.action)
    assert env.distance(plan.action) <= tolerance
    # The best action pays 1, and the best after it 1 more. A mean over tries is less.
    most = 2.0 + SOFT.get(name, 0.0)
    assert plan.value <= most
    best = plan.value if plan.q is None else np.nanmax(plan.q)
    assert 1.4 < best <= most
    if plan.q is not None and kind in FINITE:
        # What an action pays, and what is the best after it.
        optimal = [2.0 - env.distance(action) for action in all_actions(KINDS[kind])]
        assert np.nanmax(plan.q - optimal) < SOFT.get(name, 0.0) + 1e-6
    if plan.actions is not None:
        assert returned(env, plan.actions) == pytest.approx(plan.value, abs=1e-6)
        if name in EXHAUSTIVE and kind in FINITE:
            assert plan.value == pytest.approx(2.0, abs=1e-6)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if any(LENGTHS[kind])])
@pytest.mark.parametrize("name", [*PROMISES, *TO_GOALS])
def test_masks_of_every_kind_are_heeded(name, kind):
    few = planner_of(name, num_simulations=32)
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
    """Two moves open it; a wrong one, which is not as near as `near`, closes it for ever."""

    def __init__(self, kind, near=0.0):
        self.near = near
        self.action_space, self.task = KINDS[kind], Aiming(kind)
        self.observation_space = spaces.Box(-1, 2, (1,), np.float64)
        self.at = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return np.zeros(1), {}

    def step(self, action):
        self.task.t, self.task.miss = self.at, 0.0
        right = self.task.distance(action) <= self.near
        self.at = self.at + 1 if right else -1
        return np.full(1, float(self.at)), float(self.at == 2), self.at in (-1, 2), False, {}

    def get_state(self):
        return np.array([self.at], np.int8).view(np.uint8)

    def set_state(self, state):
        self.at = int(state.view(np.int8)[0])


LOCK_PICKERS = {
    "mcts": {"num_simulations": 3000},
    "gumbel": {"num_simulations": 6000, "num_considered": 50},
    "rollout-iw": {"num_simulations": 800, "features": None},
}


@pytest.mark.parametrize("name", LOCK_PICKERS)
@pytest.mark.parametrize("kind", ["MultiDiscrete", "Dict"])
def test_a_lock_of_several_parts_is_opened(name, kind):
    """50, or 18, actions at each of two moves, of which one pair pays."""
    planner = planner_of(name, **LOCK_PICKERS[name])
    with GymEnv(lambda: Lock(kind)) as env:
        episode = play(env, planner, seed=0, max_steps=3)
    assert episode.return_ == 1.0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TO_GOALS)
def test_searches_for_a_goal_have_the_best_sequence(name, kind):
    env = Lock(kind, 0.0 if kind in FINITE else 0.25)
    with GymEnv(lambda: env) as model:
        state, *_ = model.reset(seed=0)
        plan = planner_of(name).plan(model, state, rng=0)
    # All other sequences return 0.
    assert plan.value == 1.0
    if kind in FINITE:
        assert returned(env, plan.actions) == 1.0
        assert num_rows(plan.actions) == 2


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
