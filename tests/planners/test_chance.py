"""Searches that draw chance anew, beside exact expectations."""

from __future__ import annotations

import numpy as np
import pytest
from planners.expectimax import Expectimax
from planners.models import TableModel

import plangym_ext
from plangym_ext.errors import InvalidOption, WrongKind
from plangym_ext.planners import MCTS


def chain_values(n, p, discount):
    """Q of every cell and action of ChainMDP, by value iteration."""
    value, quality = np.zeros(n + 1), np.zeros((n, 2))
    for _ in range(200):
        for cell in range(n):
            for action in range(2):
                to = cell + 2 * action - 1
                reward = 0.7 if to < 0 else 1.0 if to == n else 0.0
                moved = reward + (discount * value[to] if 0 <= to < n else 0.0)
                quality[cell, action] = p * moved + (1 - p) * discount * value[cell]
        value[:n] = quality.max(axis=1)
    return quality


def test_returns_are_expectations():
    exact = chain_values(3, 0.7, 0.5)
    with plangym_ext.make("plangym_ext/ChainMDP-v0", n=3, p=0.7) as env:
        env.reset(seed=0)
        states = []
        for cell in range(3):
            env.gym_env.unwrapped.state["cell"] = cell
            states.append(env.get_state())
        planner = MCTS(3000, discount=0.5, chance=True, rollout_depth=0, selection="uct")
        rngs = np.random.default_rng(0).spawn(3)
        plans = planner.plan_batch(env, np.array(states), rngs=rngs)
    for plan, row in zip(plans, exact, strict=True):
        assert plan.action == row.argmax()
        assert plan.value == pytest.approx(row.max(), abs=0.05)
        assert plan.q[plan.action] == pytest.approx(row.max(), abs=0.05)


def tiles(env, *cells):
    """The state of a 2048, and what it allows."""
    env.gym_env.unwrapped.state["cells"][:] = cells
    return env.get_state(), env.gym_env.unwrapped.infos()["action_mask"]


def test_2048_is_worth_what_expectimax_says():
    exact = Expectimax(2, 0.1).actions((4, 2, 1, 0))
    with plangym_ext.make("plangym_ext/2048-v0", size=2) as env:
        env.reset(seed=3)
        state, legal = tiles(env, 4, 2, 1, 0)

        def planned(size, **options):
            options = {"discount": 1.0, "rollout_depth": 0, "selection": "uct", **options}
            return MCTS(size, **options).plan(env, state, rng=0, legal=legal)

        plans = [planned(size, chance=True) for size in (300, 3000, 10_000)]
        clairvoyant = planned(3000)
    errors = [abs(plan.value - max(exact.values())) for plan in plans]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.1 * max(exact.values())
    assert {plan.action for plan in plans} == {max(exact, key=exact.get)}
    # Of the tiles that are to come in this state nothing can be earned: that is known to a search
    # that steps the state as it is.
    assert abs(clairvoyant.value - max(exact.values())) > 5.0


def test_only_a_search_that_knows_the_future_expects_to_win_on_ice():
    with plangym_ext.make("FrozenLake-v1") as env:
        options = {"discount": 1.0, "rollout_depth": 30}
        state, *_ = env.reset(seed=0)
        knows = MCTS(10_000, compiled=False, **options).plan(env, state, rng=0)
        honest = MCTS(3000, chance=True, **options).plan(env, state, rng=0)
    # The best policy there is reaches the goal with probability 14 / 17.
    assert honest.value < 14 / 17 < knows.value


def test_one_state_has_one_plan_alone_and_among_others():
    planner = MCTS(60, chance=True, wave_size=4)
    with (
        plangym_ext.make("FrozenLake-v1", backend="serial") as serial,
        plangym_ext.make("FrozenLake-v1", backend="process", n_workers=1) as process,
        plangym_ext.make("FrozenLake-v1") as kernel,
    ):
        state, *_ = serial.reset(seed=0)
        found = []
        for env in (serial, process, kernel):
            env.reset(seed=0)
            rngs = [np.random.default_rng(7), np.random.default_rng(8)]
            found.append(planner.plan_batch(env, np.stack([state, state]), rngs=rngs))
        alone = planner.plan(serial, state, rng=8)
    for plans in found:
        np.testing.assert_array_equal(plans[0].q, found[0][0].q)
        np.testing.assert_array_equal(plans[1].q, alone.q)
        assert plans[0].visits.sum() == 60


def test_limits_hold_and_trees_say_that_they_are_full():
    with plangym_ext.make("FrozenLake-v1") as env:
        state, *_ = env.reset(seed=0)
        options = {"chance": True, "rollout_depth": 0}
        plan = MCTS(max_model_steps=50, **options).plan(env, state, rng=0)
        assert plan.budget.model_steps == 50
        small = MCTS(100, capacity=9, return_tree=True, **options).plan(env, state, rng=0)
    assert small.full
    assert len(small.tree.parent) <= 9
    # Draws that gave a known outcome cost a step, and are no simulation.
    assert small.visits.sum() + 1 <= small.budget.model_steps + 8


def test_without_chance_it_is_plain_search_of_the_same_states():
    # One outcome each: the means are those of the search without nodes of chance.
    with plangym_ext.make("plangym_ext/NarrowPath-v0", n=6) as env:
        state, *_ = env.reset(seed=0)
        options = {"rollout_depth": 0, "wave_size": 1, "discount": 0.9}
        plain = MCTS(40, **options).plan(env, state, rng=0)
        drawn = MCTS(40, chance=True, **options).plan(env, state, rng=0)
    np.testing.assert_array_equal(plain.visits, drawn.visits)
    np.testing.assert_array_equal(plain.q, drawn.q)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"selection": "gumbel"}, "chance is for selection 'puct' or 'uct'; got 'gumbel'"),
        ({"keep_tree": True}, "MCTS: keep_tree must be False with chance=True; got True"),
        ({"slots": True}, "slots must be False"),
        ({"waves_in_flight": 2}, "waves_in_flight must be 1 with chance=True; got 2"),
        ({"capacity": 2}, "capacity must be at least 3"),
        ({"chance_growth": 1.5}, "chance_growth"),
        ({"chance_width": 0.0}, "chance_width"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, message):
    with pytest.raises(InvalidOption, match=message):
        MCTS(8, chance=True, **options)


def test_a_model_without_the_hook_is_refused():
    model = TableModel([[1, 1], [1, 1]], [[0, 0], [0, 0]], terminated=[1])
    with pytest.raises(WrongKind, match=r"MCTS: chance=True needs an env with `reseeded"):
        MCTS(4, chance=True).plan(model, model.state(0), rng=0)
