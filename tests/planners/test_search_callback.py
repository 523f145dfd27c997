"""Callbacks see every pass and model step of a search, and change no plan."""

from __future__ import annotations

import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import InvalidOption
from plangym_ext.planners import MCTS, PLANNERS, SearchCallback, load_planner, play

#: Options without which a planner does nothing in an env of numbers, or much more than is asked.
OPTIONS = {
    "phs": {"state_key": "state"},
    "best-first": {"state_key": "state"},
    "levin": {"state_key": "state"},
    "graph": {"state_key": "state"},
}


class Seen(SearchCallback):
    def __init__(self):
        self.steps, self.passes, self.sizes = 0, [], []

    def on_model_step(self, states, actions, results):
        assert len(states) == len(actions) == len(results.terminateds)
        self.steps += int(np.sum(getattr(results, "steps", np.ones(len(actions)))))

    def on_pass(self, number, search):
        self.passes.append(number)
        if search is not None:
            self.sizes.append(int(search.tree.size[0]))


def test_what_is_no_callback_is_refused():
    with pytest.raises(InvalidOption, match="callback must be a SearchCallback or None; got <bui"):
        MCTS(num_simulations=4, callback=print)


def plan_of(name, env, state, obs, callback):
    cls = load_planner(name)
    planner = cls(num_simulations=12, callback=callback, **OPTIONS.get(name, {}))
    return planner.plan(env, state, rng=0, obs=obs)


@pytest.mark.parametrize("name", PLANNERS)
def test_every_planner_tells_of_all_its_steps_and_plans_the_same(name):
    with plangym_ext.make("CartPole-v1") as env:
        state, obs, _ = env.reset(seed=0)
        seen = Seen()
        plan, alone = (plan_of(name, env, state, obs, one) for one in (seen, None))
    assert seen.passes == list(range(1, len(seen.passes) + 1))
    assert seen.passes
    assert seen.steps == plan.budget.model_steps == alone.budget.model_steps
    assert plan.action == alone.action
    assert plan.value == alone.value
    for one, other in ((plan.q, alone.q), (plan.weights, alone.weights)):
        assert one is other is None or one.tobytes() == other.tobytes()


def test_with_one_simulation_a_wave_each_pass_is_one():
    with plangym_ext.make("CartPole-v1") as env:
        seen = Seen()
        planner = MCTS(10, wave_size=1, callback=seen, rollout_depth=0, keep_tree=True)
        episode = play(env, planner, seed=0, max_steps=2)
        # A move has ten simulations, and a last pass sees none left: it is no pass.
        assert seen.passes == 2 * list(range(1, 11))
        assert seen.sizes[:10] == list(range(2, 12))
        planner.callback = None
        again = play(env, planner, seed=0, max_steps=2)
        assert len(seen.passes) == 20
    assert episode.actions.tobytes() == again.actions.tobytes()
    assert episode.budget.expansions == again.budget.expansions


def test_a_callback_that_is_empty_sees_the_search():
    class Passes(SearchCallback, list):
        def on_pass(self, number, search):
            self.append(number)

    with plangym_ext.make("CartPole-v1") as env:
        state, *_ = env.reset(seed=0)
        passes = Passes()
        MCTS(4, wave_size=1, callback=passes).plan(env, state, rng=0)
    assert passes == [1, 2, 3, 4]
