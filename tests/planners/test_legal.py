"""Actions that are not legal have no part in a plan, whatever is known of them."""

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.errors import NoLegalAction
from plangym_ext.planners import (
    IW,
    MCTS,
    STS,
    BanditShooting,
    DiscreteShooting,
    FractalMC,
    GraphSearch,
    OpenLoopMCTS,
    RolloutIW,
)
from plangym_ext.planners.clock import Clock
from plangym_ext.planners.masks import weights_over_legal
from plangym_ext.planners.request import PlanRequest
from plangym_ext.planners.rollouts.playouts import draw
from plangym_ext.planners.trees.tree import ROOT, new_tree, restrict_prior


class Infos(dict):
    """Infos of a batch: a field by its name, a row by its number."""

    def __getitem__(self, key):
        if isinstance(key, str):
            return super().__getitem__(key)
        return {name: rows[key] for name, rows in self.items()}


def masked(models, mask, successor, reward, **options):
    """A `TableModel` that says what its states allow, `mask` `[states, A]`, and means it."""

    class Masked(models.TableModel):
        def _advance(self, index, action):
            assert mask[index, action], f"played {action} in {index}"
            return super()._advance(index, action)

        def _batch(self, index, reward):
            infos = Infos(action_mask=mask[index].astype(np.int8))
            return super()._batch(index, reward)._replace(infos=infos)

        def rollout_batch(self, actions, states):
            out = super().rollout_batch(actions, states)
            return out._replace(infos=Infos(action_mask=mask[self.index(out.states)]))

    return Masked(successor, reward, **options)


# Drawing ----------------------------------------------------------------------------


def test_weights_stay_where_they_are_legal_and_are_uniform_where_none_is():
    weights = np.array([[0.2, 0.5, 0.3], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0]])
    legal = np.array([[1, 0, 1], [1, 1, 0], [0, 0, 0]], bool)
    expected = [[0.2, 0, 0.3], [1, 1, 0], [0, 0, 0]]
    np.testing.assert_array_equal(weights_over_legal(weights, legal), expected)
    drawn = draw(weights_over_legal(weights, legal), np.zeros(3, int), [np.random.default_rng(0)])
    assert drawn[0] in (0, 2)
    assert drawn[1] in (0, 1)
    assert drawn[2] == -1


@pytest.mark.parametrize("cls", [BanditShooting, DiscreteShooting, MCTS])
def test_a_policy_that_wants_what_is_illegal_alone_is_uniform_over_the_rest(models, cls):
    # Action 2 pays 100, is allowed nowhere, and is all that the policy knows.
    mask = np.tile([True, True, False], (40, 1))
    plain = models.random_mdp(5)
    reward = plain.reward.copy()
    reward[:, 2] = 100.0
    model = masked(models, mask, plain.successor % 32, reward)
    policy = lambda obs: np.tile([0.0, 0.0, 1.0], (len(obs), 1))  # noqa: E731
    planner = cls(60, rollout_depth=4, rollout_policy=policy)
    plan = planner.plan(model, model.state(3), rng=0, obs=np.zeros(1), legal=mask[3])
    assert plan.visits[2] == 0
    assert min(plan.visits[:2]) >= 3
    assert np.nanmax(plan.q) < 20


def test_shooting_begins_as_its_policy_says_with_and_without_a_mask(models):
    model = models.random_mdp(1, states=400)
    policy = lambda obs: np.tile([1.0, 0.0, 0.0], (len(obs), 1))  # noqa: E731
    planner = DiscreteShooting(90, rollout_depth=3, rollout_policy=policy)

    def visits(legal):
        plan = planner.plan(model, model.state(0), rng=0, obs=np.zeros(1), legal=legal)
        return plan.visits.tolist()

    assert visits(None) == [90, 0, 0]
    assert visits(np.ones(3, bool)) == [90, 0, 0]
    # Nothing of the policy is left: two actions, half each; 4 standard deviations.
    none, one, two = visits(np.array([False, True, True]))
    assert none == 0
    assert abs(one - two) < 4 * np.sqrt(90)


def test_bandits_share_prior_and_noise_among_their_legal_arms(models):
    model = models.bandit([1.0, 2.0, 3.0, 4.0])
    legal = np.array([[True, False, True, False]])

    def priors(**options):
        rngs = [np.random.default_rng(0)]
        obs, states = np.zeros((1, 1)), model.state(0)[None]
        request = PlanRequest("bandit", model, states, rngs, obs, legal, Clock(None))
        return BanditShooting(8, **options)._arms(request)[0].prior

    np.testing.assert_allclose(priors(), [0.5, 0, 0.5, 0])
    policy = lambda obs: np.array([[0.1, 0.6, 0.3, 0.0]])  # noqa: E731
    np.testing.assert_allclose(priors(rollout_policy=policy), [0.25, 0, 0.75, 0], rtol=1e-6)
    noisy = priors(root_noise=0.5)
    # What is not noise is half of the uniform prior.
    assert noisy.sum() == pytest.approx(1.0)
    assert (noisy[legal[0]] >= 0.25).all()
    assert (noisy[~legal[0]] == 0).all()


# Priors -----------------------------------------------------------------------------


@pytest.mark.parametrize("run", [restrict_prior, restrict_prior.py_func], ids=["jit", "python"])
def test_a_prior_is_renormalised_over_what_is_legal(run):
    tree = new_tree(1, 2, 4)
    for prior, legal, expected in (
        ([0.1, 0.2, 0.3, 0.4], [1, 0, 1, 0], [0.25, 0, 0.75, 0]),
        ([0.0, 0.5, 0.0, 0.5], [1, 0, 1, 0], [0.5, 0, 0.5, 0]),
        ([0.1, 0.2, 0.3, 0.4], [0, 0, 0, 0], [0.1, 0.2, 0.3, 0.4]),
    ):
        tree.prior[0, ROOT], tree.legal[0, ROOT] = prior, legal
        run(tree, 0, ROOT)
        np.testing.assert_allclose(tree.prior[0, ROOT], expected, rtol=1e-6)


@pytest.mark.parametrize("planner", [MCTS(80, wave_size=1), STS(20, num_expansions=2)])
def test_illegal_actions_are_as_if_they_were_not_there(models, planner):
    # Twenty actions of which two are legal everywhere, against these two alone.
    small = models.random_mdp(7, actions=2)
    count = len(small.successor)
    legal = np.zeros(20, bool)
    legal[[3, 7]] = True
    successor, reward = np.zeros((count, 20), int), np.full((count, 20), 50.0)
    successor[:, legal], reward[:, legal] = small.successor, small.reward
    ends = {"terminated": np.flatnonzero(small.over), "truncated": np.flatnonzero(small.cut)}
    large = masked(models, np.tile(legal, (count, 1)), successor, reward, **ends)
    evaluator = models.table_evaluator(2, count, 2)

    def of_twenty(obs):
        prior, value = evaluator(obs)
        wide = np.full((len(prior), 20), 0.9 / 18)
        wide[:, legal] = 0.1 * prior
        return wide, value

    options = {"rng": 0, "obs": np.zeros(1, np.float32)}
    planner.rollout_depth = 0
    planner.evaluator = evaluator
    expected = planner.plan(small, small.state(0), **options)
    planner.evaluator = of_twenty
    planner.reset()
    plan = planner.plan(large, large.state(0), legal=legal, **options)
    np.testing.assert_array_equal(plan.visits[legal], expected.visits)
    np.testing.assert_allclose(plan.q[legal], expected.q, rtol=1e-6)
    assert plan.visits[~legal].sum() == 0


# Reused knowledge -------------------------------------------------------------------

KEEPERS = {
    "puct": lambda **more: MCTS(40, rollout_depth=3, keep_tree=True, **more),
    "uct": lambda **more: MCTS(40, rollout_depth=3, selection="uct", keep_tree=True, **more),
    "sts": lambda **more: STS(20, rollout_depth=3, num_expansions=2, keep_tree=True, **more),
    "iw": lambda: IW(30),
    "rollout-iw": lambda: RolloutIW(30),
    "graph": lambda: GraphSearch(12, rollout_depth=3),
}


def cases(*names):
    return pytest.mark.parametrize("name", names or tuple(KEEPERS))


def went_on(models, planner, seed, **legal):
    """The plans of a state and of the one that its action leads to, and that state."""
    model = models.random_mdp(seed, states=400)
    first = planner.plan(model, model.state(0), rng=seed, obs=np.zeros(1))
    index = model.successor[0, first.action]
    obs = np.array([index], np.float32)
    return first, planner.plan(model, model.state(index), rng=seed, obs=obs, **legal)


@cases()
@pytest.mark.parametrize("seed", range(3))
def test_what_is_kept_of_an_action_that_is_illegal_now_is_dropped(models, name, seed):
    _, free = went_on(models, KEEPERS[name](), seed)
    legal = np.arange(3) != free.action
    planner = KEEPERS[name]()
    _, plan = went_on(models, planner, seed, legal=legal)
    assert legal[plan.action]
    assert plan.weights[free.action] == 0
    assert np.isnan(plan.q[free.action])
    if plan.visits is not None:
        assert plan.visits[free.action] == 0
    assert np.isfinite(plan.q[legal]).any()


@cases("puct", "sts")
def test_a_drawn_action_is_legal_too(models, name):
    for seed in range(10):
        _, free = went_on(models, KEEPERS[name](), seed)
        legal = np.arange(3) != free.action
        _, plan = went_on(models, KEEPERS[name](temperature=1.0), seed, legal=legal)
        assert legal[plan.action]


def test_what_is_kept_of_legal_actions_stays(models):
    # 40 simulations, and those that went on below the child; the mask leaves two of three.
    planner = KEEPERS["puct"]()
    first, _ = went_on(models, planner, 0)
    free = KEEPERS["puct"]()
    model = models.random_mdp(0, states=400)
    free.plan(model, model.state(0), rng=0)
    tree = free._kept.search.tree
    child = tree.children[0, ROOT, first.action]
    below = tree.children[0, child]
    kept = np.where(below >= 0, tree.visits[0, below], 0)
    legal = np.arange(3) != int(np.argmax(kept))
    index = model.successor[0, first.action]
    plan = free.plan(model, model.state(index), rng=1, legal=legal)
    assert plan.visits.sum() == 40 + kept[legal].sum()
    assert tree.visits[0, ROOT] == plan.visits.sum()
    # The root's mean is that of its children, and none of its nodes hangs below nothing.
    known = plan.visits > 0
    mean = (plan.visits[known] * plan.q[known]).sum() / plan.visits.sum()
    assert plan.value == pytest.approx(mean, rel=1e-5)
    assert tree.prior[0, ROOT].tolist() == pytest.approx((legal / 2).tolist())


@cases()
def test_an_action_that_becomes_legal_is_tried(models, name):
    # The model says that action 2 is illegal everywhere; then the caller knows better.
    plain = models.random_mdp(4, states=400)
    mask = np.tile([True, True, False], (400, 1))
    ends = {"terminated": np.flatnonzero(plain.over), "truncated": np.flatnonzero(plain.cut)}
    model = masked(models, mask, plain.successor, plain.reward, **ends)
    planner = KEEPERS[name]()
    obs = np.zeros(1, np.float32)
    first = planner.plan(model, model.state(0), rng=0, obs=obs, legal=mask[0])
    index = model.successor[0, first.action]
    mask[index] = True
    obs = np.array([index], np.float32)
    plan = planner.plan(model, model.state(index), rng=1, obs=obs, legal=np.ones(3, bool))
    assert np.isfinite(plan.q).all()


def test_a_graph_asks_the_model_again_what_a_former_root_allows(models):
    # 0 -> 1 -> 0 ...: the caller forbids action 1 in 0, the model does not.
    model = models.TableModel([[1, 2], [0, 0], [2, 2]], [[0, 5.0], [0, 0], [0, 0]], terminated=[2])
    planner = GraphSearch(6, rollout_depth=0, discount=1.0)
    legal = np.array([True, False])
    plan = planner.plan(model, model.state(0), rng=0, legal=legal)
    assert (plan.action, np.isnan(plan.q[1])) == (0, True)
    planner.plan(model, model.state(1), rng=0)
    grown = planner._kept.rows[0].graph
    # Node 0 is the state 1 now; its edge leads back to the state 0, of which all is legal again.
    back = grown.child[grown.edges[0], 0]
    assert (grown.child[grown.edges[back]] >= 0).all()
    # And the 5 that it pays is found.
    assert grown.value[back] > 0


# Nothing at all ---------------------------------------------------------------------


TREES = [MCTS, STS, OpenLoopMCTS, GraphSearch, IW, RolloutIW]


@pytest.mark.parametrize("cls", [*TREES, BanditShooting, DiscreteShooting, FractalMC])
def test_a_state_that_allows_nothing_is_not_planned_from(models, cls):
    model = models.random_mdp(0)
    states = np.stack([model.state(0), model.state(1)])
    legal = np.array([[True] * 3, [False] * 3])
    rngs = [np.random.default_rng(i) for i in range(2)]
    with pytest.raises(NoLegalAction, match=r"those of rows \[1\] allow none"):
        cls(4).plan_batch(model, states, rngs=rngs, obs=np.zeros((2, 1)), legal=legal)
    assert model.model_steps == 0


@pytest.mark.parametrize("cls", [*TREES, BanditShooting, DiscreteShooting, FractalMC])
def test_every_planner_comes_to_an_end_where_nothing_is_allowed(models, cls):
    # 0 -> 1 or 2; neither is an ending, and neither allows anything.
    mask = np.array([[1, 1], [0, 0], [0, 0]], bool)
    model = masked(models, mask, [[1, 2], [1, 1], [2, 2]], [[0.0, 1.0], [0, 0], [0, 0]])
    obs = np.zeros(1, np.float32)
    plan = cls(30).plan(model, model.state(0), rng=0, obs=obs, legal=mask[0])
    assert plan.action in (0, 1)
    # Fractal Monte Carlo may lose all walkers of an action; graph search has its own price
    # for dead ends.
    if cls not in (FractalMC, GraphSearch):
        assert plan.action == 1
        np.testing.assert_array_equal(plan.q, [0, 1])


def test_walkers_stop_where_nothing_is_allowed(models):
    # Action 1 leads to state 1, where the episode goes on but nothing may be done.
    successor = np.array([[2, 1], [1, 1], [2, 2]])
    mask = np.array([[1, 1], [0, 0], [1, 1]], bool)
    model = masked(models, mask, successor, np.zeros((3, 2)))
    plan = FractalMC(30, depth=5).plan(model, model.state(0), rng=0, legal=mask[0])
    # Those who stopped took the places of others.
    assert plan.visits.tolist() == [30, 0]
