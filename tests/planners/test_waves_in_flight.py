"""Several waves of one search under way at once."""

from __future__ import annotations

import numpy as np
import pytest

import plangym_ext
from plangym_ext.planners import MCTS, play
from plangym_ext.planners.trees.tree import PENDING, ROOT

COUNTED = ("model_steps", "expansions", "evaluator_rows", "restores")


def same(plan, other):
    np.testing.assert_array_equal(plan.visits, other.visits)
    np.testing.assert_array_equal(plan.q, other.q)
    assert (plan.action, plan.value, plan.full) == (other.action, other.value, other.full)
    for name in COUNTED:
        assert getattr(plan.budget, name) == getattr(other.budget, name), name


@pytest.mark.parametrize(("wave", "flying"), [(1, 1), (1, 2), (4, 2), (3, 3), (8, 4)])
@pytest.mark.parametrize("seed", range(4))
def test_waves_are_chosen_as_the_textbook_says(models, textbook, seed, wave, flying):
    model = models.random_mdp(seed)
    evaluator = models.table_evaluator(seed, 40, 3)
    planner = MCTS(
        50, wave_size=wave, waves_in_flight=flying, c_puct=1.5, discount=0.75, evaluator=evaluator
    )
    plan = planner.plan(model, model.state(0), rng=seed, obs=np.zeros(1, np.float32))
    order = np.random.default_rng(seed).permutation(3)
    terms = {"sims": 50, "c": 1.5, "gamma": 0.75}
    visits, q = textbook(model, evaluator, 0, order, wave=wave, flying=flying, **terms)
    np.testing.assert_array_equal(plan.visits, visits)
    np.testing.assert_array_equal(plan.q, q)
    assert plan.visits.sum() == 50


def test_where_there_is_no_choice_it_is_sequential(models):
    # With one action nothing can be chosen while its child is in flight.
    model, options = models.chain(40), {"discount": 0.5, "rollout_depth": 3}
    plan = MCTS(12, waves_in_flight=3, **options).plan(model, model.state(0), rng=0)
    same(plan, MCTS(12, wave_size=1, **options).plan(model, model.state(0), rng=0))


@pytest.mark.parametrize("flying", [1, 2, 3, 4])
@pytest.mark.parametrize("selection", ["puct", "gumbel"])
def test_a_row_is_planned_for_as_it_would_be_alone(models, flying, selection):
    options = {"wave_size": 3, "rollout_depth": 1, "waves_in_flight": flying}
    for seed in range(12):
        # Few states, so that selections are blocked by what is in flight.
        model = models.random_mdp(seed, states=12, actions=2, ended=3)
        rows = [s for s in range(12) if not model.over[s] and not model.cut[s]][:3]
        states = np.stack([model.state(row) for row in rows])

        def planned(some, model=model, states=states, seed=seed):
            planner = MCTS(20, selection=selection, **options)
            rngs = [np.random.default_rng([seed, i]) for i in some]
            return planner.plan_batch(model, states[some], rngs=rngs)

        for i, plan in enumerate(planned([0, 1, 2])):
            same(plan, planned([i])[0])


class Overlapping:
    """A `TableModel` that steps when it is waited for, and says how much was under way."""

    def __init__(self, model):
        self._model, self.action_space = model, model.action_space
        self.begun = self.ended = self.most = 0

    def step_batch_async(self, actions, states):
        self.begun += 1
        self.most = max(self.most, self.begun - self.ended)
        self.actions, owner = actions.copy(), self

        class Pending:
            def wait(self):
                owner.ended += 1
                return owner._model.step_batch(actions, states=states)

        return Pending()


@pytest.mark.parametrize("flying", [2, 3])
def test_so_many_waves_are_under_way_and_no_more(models, flying):
    model = Overlapping(models.random_mdp(1, states=400))
    state = np.zeros(8, np.uint8)
    options = {"wave_size": 4, "waves_in_flight": flying, "rollout_depth": 0}
    plan = MCTS(60, **options).plan(model, state, rng=0)
    assert model.most == flying
    assert model.begun == model.ended
    # When the model is asked makes no difference.
    same(plan, MCTS(60, **options).plan(models.random_mdp(1, states=400), state, rng=0))


LIMITS = [
    {},
    {"capacity": 11},
    {"max_model_steps": 33, "rollout_depth": 3},
    {"max_seconds": 1e-9},
    {"selection": "uct", "num_rollouts": 2},
    {"selection": "gumbel", "num_considered": 3},
]


@pytest.mark.parametrize("options", LIMITS, ids=str)
@pytest.mark.parametrize("flying", [2, 5])
def test_nothing_stays_unobserved_and_every_visit_is_accounted_for(models, flying, options):
    model = models.random_mdp(2, states=400)
    # Two of three actions at first: there is something left for a second wave.
    planner = MCTS(40, wave_size=2, waves_in_flight=flying, **options)
    states = np.stack([model.state(0), model.state(7)])
    plans = planner.plan_batch(model, states, rngs=[np.random.default_rng(b) for b in range(2)])
    search = planner._kept.search
    tree = search.tree
    for b, plan in enumerate(plans):
        used = slice(0, tree.size[b])
        assert (tree.unobserved[b, used] == 0).all()
        assert (tree.kind[b, used] != PENDING).all()
        assert tree.visits[b, ROOT] == search.done[b] == plan.visits.sum() <= 40
        # The first visit of a node made it; every other one went on, but where it ends.
        children = np.where(tree.children[b, used] >= 0, tree.children[b, used], 0)
        onward = np.where(children > 0, tree.visits[b, children], 0).sum(axis=1)
        open_ = ~(model.over | model.cut)[model.index(search.states.rows[b, used])]
        made = np.arange(tree.size[b]) != ROOT
        np.testing.assert_array_equal((onward + made)[open_], tree.visits[b, used][open_])
        assert plan.budget.expansions == tree.size[b] - 1
        assert plan.full == ("capacity" in options)
        assert plan.budget.model_steps <= options.get("max_model_steps", np.inf)
    assert sum(plan.budget.model_steps for plan in plans) == model.model_steps


def test_a_search_that_failed_in_flight_leaves_nothing_behind(models):
    model = models.random_mdp(3, states=400)
    planner = MCTS(40, wave_size=3, waves_in_flight=3, keep_tree=True)
    planner.plan(model, model.state(0), rng=0)
    good = model.reward.copy()
    model.reward[:] = np.nan
    with pytest.raises(ValueError, match="rewards must be finite"):
        planner.plan(model, model.state(0), rng=0)
    model.reward[:] = good
    fresh = MCTS(40, wave_size=3, waves_in_flight=3)
    same(planner.plan(model, model.state(0), rng=1), fresh.plan(model, model.state(0), rng=1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("depth", "cases"),
    [(0, [(None, False), (1, False), (3, False), (2, True)]), (3, [(None, False), (2, False)])],
)
def test_the_plan_is_the_same_for_any_number_of_workers(depth, cases):
    episodes = []
    for n_workers, slots in cases:
        with plangym_ext.make("CartPole-v1", n_workers=n_workers) as env:
            planner = MCTS(24, wave_size=4, waves_in_flight=2, rollout_depth=depth, slots=slots)
            episodes.append(play(env, planner, seed=7, max_steps=8, num_episodes=2))
    for other in episodes[1:]:
        for one, two in zip(episodes[0], other, strict=True):
            assert one.actions.tobytes() == two.actions.tobytes()
            for name in COUNTED:
                assert getattr(one.budget, name) == getattr(two.budget, name), name


@pytest.mark.slow
@pytest.mark.parametrize("slots", [False, True])
def test_workers_go_on_after_a_search_that_failed_in_flight(slots):
    def failing(obs):
        calls.append(len(obs))
        return None, np.full(len(obs), np.nan if len(calls) == 3 else 0.0)

    calls: list[int] = []
    options = {"wave_size": 4, "waves_in_flight": 2, "slots": slots}
    with plangym_ext.make("CartPole-v1", n_workers=2) as env:
        state, obs, _ = env.reset(seed=0)
        planner = MCTS(32, evaluator=failing, **options)
        with pytest.raises(ValueError, match="not finite"):
            planner.plan(env, state, rng=0, obs=obs)
        fresh = MCTS(32, evaluator=failing, **options)
        plans = [fresh.plan(env, state, rng=0, obs=obs) for _ in range(2)]
        same(plans[0], plans[1])
        same(planner.plan(env, state, rng=0, obs=obs), plans[0])
