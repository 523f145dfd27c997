"""UCT, noise, temperature, masks, Q functions and policies in tree search."""

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.errors import InvalidAnswer, InvalidOption
from plangym_ext.planners import MCTS, STS, GraphSearch, RolloutIW
from plangym_ext.planners.evaluators import from_prior, from_q, from_value
from plangym_ext.planners.trees.rules import SCALE_NONE, uct_action
from plangym_ext.planners.trees.tree import NO_ACTION, OPEN, PENDING, ROOT, allocate, new_tree


@pytest.mark.parametrize("run", [uct_action, uct_action.py_func], ids=["jit", "python"])
def test_uct_scores_by_hand(run):
    tree = new_tree(1, 8, 3)
    tree.order[0] = [2, 1, 0]
    for a, (visits, q) in enumerate([(8, 1.0), (2, 0.5)]):
        slot = allocate.py_func(tree, 0, ROOT, a)
        tree.kind[0, slot], tree.visits[0, slot], tree.q[0, slot] = OPEN, visits, q
    tree.visits[0, ROOT] = 10
    # Untried first.
    assert run(tree, 0, ROOT, 1.0, SCALE_NONE) == 2
    tree.legal[0, ROOT, 2] = False
    # ln(10) = 2.303: c = 1 gives 1 + 0.536 and 0.5 + 1.073; c = 0.9: 1.483 and 1.466.
    assert run(tree, 0, ROOT, 1.0, SCALE_NONE) == 1
    assert run(tree, 0, ROOT, 0.9, SCALE_NONE) == 0
    tree.kind[0, 1:3] = PENDING
    assert run(tree, 0, ROOT, 1.0, SCALE_NONE) == NO_ACTION


def test_uct_finds_the_end_of_a_narrow_path(models):
    model = models.narrow_path(3)
    plan = MCTS(64, selection="uct").plan(model, model.state(0), rng=0)
    assert plan.action == 1


@pytest.mark.parametrize("planner", [MCTS, STS])
def test_root_noise_moves_the_roots_prior_only(models, planner):
    model = models.random_mdp(2)
    planner = planner(12, root_noise=0.5, dirichlet_alpha=0.3, keep_tree=True, rollout_depth=0)
    planner.plan(model, model.state(0), rng=0)
    prior = planner._kept.search.tree.prior[0]
    assert prior[ROOT].sum() == pytest.approx(1)
    assert (prior[ROOT] >= 0.5 / 3 - 1e-6).all()
    assert prior[ROOT].std() > 0.01
    np.testing.assert_allclose(prior[1 : planner._kept.search.tree.size[0]], 1 / 3)


def test_temperature_draws_in_proportion_to_visits(models):
    model = models.bandit([0.0, 0.5, 1.0])
    options = {"rollout_depth": 0, "value_scale": "none", "c_puct": 4.0}
    weights = MCTS(20, **options).plan(model, model.state(0), rng=0).weights
    cold = MCTS(20, temperature=1e-3, **options)
    warm = MCTS(20, temperature=1.0, **options)
    chosen = [warm.plan(model, model.state(0), rng=seed).action for seed in range(300)]
    share = np.bincount(chosen, minlength=3) / 300
    # Four standard deviations of a share are below 0.12.
    np.testing.assert_allclose(share, weights, atol=0.12)
    assert weights.max() < 0.8
    assert {cold.plan(model, model.state(0), rng=seed).action for seed in range(20)} == {2}


def masked(models, mask):
    """A model whose states allow some actions only, and which says so."""

    class Masked(models.TableModel):  # nothing ends in it
        def _advance(self, index, action):
            assert mask[index, action], f"played {action} in {index}"
            return super()._advance(index, action)

        def _batch(self, index, reward):
            infos = {"action_mask": mask[index].astype(np.int8)}
            return super()._batch(index, reward)._replace(infos=infos)

    plain = models.random_mdp(5)
    return Masked(plain.successor % 32, plain.reward)


@pytest.mark.parametrize(
    "planner",
    [
        MCTS(60, rollout_depth=0),
        MCTS(60, rollout_depth=0, selection="uct"),
        MCTS(60, rollout_depth=0, selection="gumbel"),
        MCTS(60, rollout_policy=lambda obs: np.full((len(obs), 3), 1 / 3)),
        STS(20, rollout_depth=0, num_expansions=3),
    ],
    ids=["puct", "uct", "gumbel", "policy", "sts"],
)
def test_what_infos_forbid_is_never_played(models, planner):
    mask = np.random.default_rng(0).random((40, 3)) < 0.6
    mask[np.arange(40), np.random.default_rng(1).integers(3, size=40)] = True
    model = masked(models, mask)
    if planner.rollout_policy is not None:
        # The first step of a rollout is from a leaf, whose mask it does not know.
        planner.rollout_policy = lambda obs: (
            mask[obs[:, 0].astype(int)] / mask[obs[:, 0].astype(int)].sum(axis=1, keepdims=True)
        )
    plan = planner.plan(model, model.state(0), rng=0, legal=mask[0])
    assert (plan.visits[~mask[0]] == 0).all()
    assert mask[0, plan.action]
    assert plan.budget.model_steps == model.model_steps > 5


def test_a_mask_of_another_width_is_refused(models):
    model = masked(models, np.ones((40, 2), bool))
    model._advance = lambda index, action: (index, 0.0)
    with pytest.raises(ValueError, match=r"one entry per action, 3; got shape \(3, 2\)"):
        MCTS(3, rollout_depth=0).plan(model, model.state(0), rng=0)


def test_evaluators_of_other_functions_by_hand():
    obs = np.array([[1.0], [2.0]])
    prior, value = from_value(lambda obs: obs[:, 0])(obs)
    assert prior is None
    assert list(value) == [1, 2]
    prior, value = from_prior(lambda obs: np.tile([0.25, 0.75], (len(obs), 1)))(obs)
    assert list(prior[1]) == [0.25, 0.75]
    assert list(value) == [0, 0]
    q_function = lambda obs: obs * [0.0, np.log(3)]  # noqa: E731
    prior, value = from_q(q_function)(obs)
    np.testing.assert_allclose(prior, [[0.25, 0.75], [0.1, 0.9]])
    np.testing.assert_allclose(value, np.log([3, 9]))
    prior, _ = from_q(q_function, temperature=2)(obs)
    np.testing.assert_allclose(prior[1], [0.25, 0.75])
    prior, _ = from_q(q_function, policy=lambda obs: [[1, 0], [0, 1]])(obs)
    assert prior == [[1, 0], [0, 1]]
    for wrong in (0, -1.0, np.nan):
        with pytest.raises(InvalidOption, match="from_q: temperature"):
            from_q(q_function, temperature=wrong)
    with pytest.raises(InvalidAnswer, match=r"from_q: .* Q values \[L, A\].*got shape \(2,\)"):
        from_q(lambda obs: obs[:, 0])(obs)


@pytest.mark.parametrize("planner", [MCTS(12, keep_tree=True), STS(4, keep_tree=True)])
def test_some_rows_go_on_without_the_others(models, planner):
    model = models.random_mdp(3)
    states = np.stack([model.state(i) for i in (0, 5, 9)])
    plans = planner.plan_batch(model, states, rngs=[np.random.default_rng(i) for i in range(3)])
    after = [model.successor[i, p.action] for i, p in zip((0, 5, 9), plans, strict=True)]
    planner.keep_rows(np.array([0, 2]))
    states = np.stack([model.state(after[i]) for i in (0, 2)])
    rngs = [np.random.default_rng(i) for i in (10, 12)]
    together = planner.plan_batch(model, states, rngs=rngs)
    for i, plan in zip((0, 2), together, strict=True):
        planner.reset()
        planner.plan(model, model.state((0, 5, 9)[i]), rng=i)
        alone = planner.plan(model, model.state(after[i]), rng=10 + i)
        np.testing.assert_array_equal(plan.visits, alone.visits)
        np.testing.assert_array_equal(plan.q, alone.q)


@pytest.mark.parametrize(
    "planner",
    [
        MCTS(12, keep_tree=True),
        STS(4, keep_tree=True),
        RolloutIW(20),
        GraphSearch(4, rollout_depth=0),
    ],
    ids=["mcts", "sts", "rollout-iw", "graph"],
)
def test_a_forgotten_row_begins_anew_and_the_others_go_on(models, planner):
    model = models.random_mdp(3)

    def planned(rows, numbers):
        found = planner.plan_batch(
            model,
            np.stack([model.state(i) for i in rows]),
            rngs=[np.random.default_rng(number) for number in numbers],
            obs=np.array(rows, np.float32)[:, None],
        )
        return found, [int(model.successor[i, p.action]) for i, p in zip(rows, found, strict=True)]

    roots = (0, 5, 9)
    planner.reset()
    _, after = planned(roots, (0, 1, 2))
    planner.forget_rows(np.array([1]))
    together, _ = planned(after, (10, 11, 12))
    for i, plan in enumerate(together):
        planner.reset()
        if i != 1:
            planned(roots[i : i + 1], (i,))
        (alone,), _ = planned(after[i : i + 1], (10 + i,))
        np.testing.assert_array_equal(plan.q, alone.q)
        assert plan.action == alone.action
        assert plan.budget.model_steps == alone.budget.model_steps


def test_an_ending_that_a_wave_comes_to_twice_costs_nothing_twice(models):
    # Two arms that end: the first wave of 8 steps into both, and averages what is known.
    model = models.bandit([0.25, 1.0])
    plan = MCTS(24, rollout_depth=0, wave_size=8).plan(model, model.state(0), rng=0)
    assert plan.budget.model_steps == 2
    assert plan.visits.sum() == 24
    np.testing.assert_array_equal(plan.q, [0.25, 1.0])
