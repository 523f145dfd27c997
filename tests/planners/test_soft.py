"""Tree searches with entropy, beside the definitions written out in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plangym_ext.errors import InvalidOption, UnknownName
from plangym_ext.planners import ANTS, BTS, DENTS, MENTS, TENTS
from plangym_ext.planners.trees.soft import (
    LARGEST,
    exploration,
    mean_entropy,
    write_policy,
)

TEMPERATURE = 0.4


def shannon(p):
    p = p[p > 0]
    return -(p * np.log(p)).sum()


def tsallis(p):
    return (1 - (p * p).sum()) / 2


def policy(returns, temperature, entropy):
    found = np.array(returns, float)
    write_policy(found, temperature, entropy is tsallis)
    return found


def value(returns, entropy, temperature=TEMPERATURE):
    """The definition: the maximum over policies, which `policy` is said to reach."""
    if entropy is None:
        return max(returns)
    p = policy(returns, temperature, entropy)
    return p @ returns + temperature * entropy(p)


@settings(max_examples=100, deadline=None)
@given(
    returns=st.lists(st.floats(-5, 5), min_size=1, max_size=6),
    temperature=st.floats(0.01, 20),
    seed=st.integers(0, 1000),
)
@pytest.mark.parametrize("entropy", [shannon, tsallis])
def test_no_policy_has_more_return_and_entropy(returns, temperature, seed, entropy):
    returns = np.array(returns)
    p = policy(returns, temperature, entropy)
    assert p.sum() == pytest.approx(1)
    assert (p >= 0).all()
    best = p @ returns + temperature * entropy(p)
    rng = np.random.default_rng(seed)
    others = [*rng.dirichlet(np.full(len(p), 0.5), 20), *rng.dirichlet(10 * p + 1e-3, 20)]
    for other in [*others, *np.eye(len(p))]:
        assert other @ returns + temperature * entropy(other) <= best + 1e-9


def test_policies_by_hand():
    np.testing.assert_allclose(policy([0, np.log(3)], 1.0, shannon), [0.25, 0.75])
    # Half of the difference is added to a half; what is worse by the temperature has nothing.
    np.testing.assert_allclose(policy([0, 0.5], 1.0, tsallis), [0.25, 0.75])
    np.testing.assert_allclose(policy([0, 1.0], 1.0, tsallis), [0, 1])
    np.testing.assert_allclose(policy([-np.inf, 2, 2], 1.0, tsallis), [0, 0.5, 0.5])


def test_the_priors_share_is_all_at_first_and_fades():
    assert exploration(3, 0, 0.1) == 1.0
    assert exploration(3, 1, 1.0) == 1.0
    assert exploration(4, 99, 0.1) == pytest.approx(0.4 / np.log(100))


def full_tree(models, seed, depth=3, actions=3):
    """A complete tree with rewards on its edges; its leaves end the episode."""
    inner = (actions**depth - 1) // (actions - 1)
    count = inner + actions**depth
    successor = np.zeros((count, actions), int)
    successor[:inner] = np.arange(1, count).reshape(inner, actions)
    reward = np.random.default_rng(seed).integers(-8, 9, (count, actions)) / 8
    return models.TableModel(successor, reward, terminated=range(inner, count))


def exact(model, index, entropy, discount):
    """What the whole tree below a state is worth."""
    if model.over[index]:
        return 0.0
    below = [exact(model, s, entropy, discount) for s in model.successor[index]]
    return value(model.reward[index] + discount * np.array(below), entropy)


def search(planner_class, model, sims, **options):
    settled = {"discount": 0.9, "rollout_depth": 0, "value_scale": "none", "epsilon": 1.0}
    options = {**settled, "policy_temperature": TEMPERATURE, **options}
    planner = planner_class(sims, **options)
    return planner.plan(model, model.state(0), rng=0), planner


@pytest.mark.parametrize(
    ("planner", "entropy"), [(MENTS, shannon), (TENTS, tsallis), (BTS, None), (DENTS, None)]
)
@pytest.mark.parametrize("wave_size", [1, 8])
def test_of_a_tree_that_was_seen_whole_the_values_are_exact(models, planner, entropy, wave_size):
    model = full_tree(models, 1)
    plan, _ = search(planner, model, 600, wave_size=wave_size)
    assert plan.budget.model_steps == 39, "every edge was stepped once"
    assert plan.value == pytest.approx(exact(model, 0, entropy, 0.9), abs=1e-5)
    below = [exact(model, s, entropy, 0.9) for s in model.successor[0]]
    np.testing.assert_allclose(plan.q, model.reward[0] + 0.9 * np.array(below), atol=1e-5)
    assert plan.action == plan.q.argmax()


@pytest.mark.parametrize(("planner", "entropy"), [(MENTS, shannon), (TENTS, tsallis)])
def test_visits_follow_the_policy_and_the_priors_share(models, planner, entropy):
    rewards = np.array([0.0, 0.3, 0.5, -0.6])
    plan, _ = search(planner, models.bandit(rewards), 4000, epsilon=0.05, wave_size=1)
    want = policy(rewards, TEMPERATURE, entropy)
    np.testing.assert_allclose(plan.weights, want, atol=1e-6)
    mixed = want + exploration(4, 4000, 0.05) * (0.25 - want)
    np.testing.assert_allclose(plan.visits / 4000, mixed, atol=1e-3)


def test_temperature_counts_in_units_of_the_spread(models):
    rewards = np.array([0.0, 3.0, 10.0])
    plan, _ = search(MENTS, models.bandit(rewards), 200, value_scale="tree")
    np.testing.assert_allclose(plan.weights, policy(rewards / 10, TEMPERATURE, shannon), atol=1e-6)


def test_bts_is_dents_without_the_weight_of_entropies(models):
    model = models.random_mdp(3)
    bts, _ = search(BTS, model, 300)
    without, _ = search(DENTS, model, 300, entropy_weight=0.0)
    np.testing.assert_array_equal(bts.visits, without.visits)
    np.testing.assert_array_equal(bts.q, without.q)


def test_entropy_draws_visits_to_where_more_can_be_chosen(models):
    # Two ways with the same return: one single path, and one with three actions alike.
    successor = np.array([[1, 2, 2], [3, 3, 3], [4, 5, 6], *[[0, 0, 0]] * 4])
    # In state 1 two actions cost so much that the policy has no use for them.
    reward = np.zeros((7, 3))
    reward[1, 1:] = -50.0
    model = models.TableModel(successor, reward, terminated=[3, 4, 5, 6])
    drawn, _ = search(DENTS, model, 400, entropy_weight=2.0, epsilon=0.1)
    plain, _ = search(DENTS, model, 400, entropy_weight=0.0, epsilon=0.1)
    assert drawn.visits[0] < plain.visits[0]
    assert drawn.value == plain.value == 0.0, "and none of it is in the value"


@pytest.mark.parametrize("target", [0.2, 0.8])
def test_ants_finds_the_temperature_that_has_the_entropy(models, target):
    # Depth 4 has 121 nodes: the temperature was set at 64 last.
    model = full_tree(models, 2, depth=4)
    plan, planner = search(ANTS, model, 64, target_entropy=target, keep_tree=True, wave_size=1)
    tree = planner._kept.search.tree
    soft = planner._kept.search.soft
    assert soft.temperature[0] != TEMPERATURE
    found = mean_entropy(tree, 0, soft, soft.temperature[0])
    assert found == pytest.approx(target, abs=0.05), "one node was added since"
    returns = plan.q[~np.isnan(plan.q)]
    want = value(returns, shannon, soft.temperature[0])
    assert plan.value == pytest.approx(want, abs=1e-5)


@pytest.mark.parametrize("planner", [MENTS, TENTS, BTS, DENTS, ANTS])
def test_a_kept_tree_goes_on_as_if_it_had_been_valued_there(models, planner):
    model = full_tree(models, 5)
    first, used = search(planner, model, 300, keep_tree=True)
    after = int(model.successor[0, first.action])
    steps = model.model_steps
    second = used.plan(model, model.state(after), rng=1)
    assert model.model_steps == steps, "all below is known"
    if planner is not ANTS:  # whose temperature is the old tree's until the new one doubles
        fresh = planner(
            300,
            discount=0.9,
            rollout_depth=0,
            value_scale="none",
            epsilon=1.0,
            policy_temperature=TEMPERATURE,
        ).plan(model, model.state(after), rng=1)
        assert second.value == pytest.approx(fresh.value, abs=1e-6)


@pytest.mark.parametrize("planner", [MENTS, TENTS, BTS, DENTS, ANTS])
def test_a_kept_tree_is_measured_in_returns_without_entropy_move_after_move(models, planner):
    # A line of states that all look alike; 1 pays a little.
    line = np.minimum(np.arange(40) + 1, 39)
    pays = np.tile([0.0, 0.1], (40, 1))
    model = models.TableModel(np.stack([line, line], axis=1), pays)
    options = {"rollout_depth": 0, "discount": 0.9}
    if planner is not ANTS:
        options["policy_temperature"] = 1.0
    kept = planner(200, keep_tree=True, **options)
    values = [kept.plan(model, model.state(t), rng=0).value for t in range(12)]
    # No search of so many nodes values a state higher than one of many more.
    most = planner(4000, **options).plan(model, model.state(0), rng=0).value
    assert max(values) < 1.15 * most


@pytest.mark.parametrize("planner", [MENTS, TENTS, BTS, DENTS, ANTS])
def test_visits_are_no_policy_to_learn(models, planner):
    plan, _ = search(planner, full_tree(models, 0), 50)
    assert not plan.chosen_by_visits


@pytest.mark.parametrize("planner", [MENTS, TENTS, BTS, DENTS, ANTS])
def test_the_largest_temperature_gives_numbers(models, planner):
    plan, _ = search(planner, full_tree(models, 0), 50, policy_temperature=1e6)
    assert np.isfinite(plan.value)
    assert plan.weights.sum() == pytest.approx(1)


def test_a_search_knows_its_own_temperatures(models):
    """Threads that share a planner plan in turns: here a plan is made within another's steps."""
    model, other = full_tree(models, 0), full_tree(models, 1)
    alone, planner = search(ANTS, model, 100)
    step = model.step_batch

    def stepped(actions, states):
        model.step_batch = step
        planner.plan(other, other.state(0), rng=1)
        out = step(actions, states)
        model.step_batch = stepped
        return out

    model.step_batch = stepped
    beside = planner.plan(model, model.state(0), rng=0)
    assert beside.weights.tobytes() == alone.weights.tobytes()
    assert beside.value == alone.value


def test_options_are_checked():
    with pytest.raises(UnknownName, match="value_scale must be one of tree, none; got 'siblings'"):
        MENTS(8, value_scale="siblings")
    with pytest.raises(InvalidOption, match="policy_temperature"):
        TENTS(8, policy_temperature=0)
    for planner in (MENTS, TENTS, BTS, DENTS, ANTS):
        with pytest.raises(InvalidOption, match=r"policy_temperature .*1000000.0\]; got 1e\+38"):
            planner(8, policy_temperature=1e38)
    with pytest.raises(InvalidOption, match="target_entropy"):
        ANTS(8, target_entropy=1.0)
    assert BTS.rule == DENTS.rule == LARGEST


@pytest.mark.parametrize("planner", [MENTS, TENTS])
@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_the_spread_is_that_of_returns_without_entropy(models, planner, temperature):
    # One with it would grow with the temperature that it is the unit of, and so on.
    wrong = 0
    for seed in range(12):
        model = full_tree(models, seed, depth=4)
        options = {"value_scale": "tree", "policy_temperature": temperature, "epsilon": 0.2}
        plan, _ = search(planner, model, 400, **options)
        below = [exact(model, s, None, 0.9) for s in model.successor[0]]
        best = model.reward[0] + 0.9 * np.array(below)
        # Rewards are of [-1, 1]: so far apart may returns be, and four policies have entropy.
        most = sum(0.9**k for k in range(4))
        assert abs(plan.value) <= most * (1 + temperature * 2 * most * np.log(3))
        wrong += best[plan.action] < best.max()
    # Of values with entropy another action may be the best.
    assert wrong <= (2 if temperature < 1 else 6)
