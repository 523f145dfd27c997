from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.planners.trees.rules import SCALE_NONE, SCALE_SIBLINGS, SCALE_TREE, puct_action
from plangym_ext.planners.trees.selection import (
    BLOCKED,
    FULL,
    PUCT,
    Selection,
    descend,
    select_wave,
)
from plangym_ext.planners.trees.tree import (
    NO_ACTION,
    OPEN,
    PENDING,
    ROOT,
    TERMINATED,
    allocate,
    backup,
    new_tree,
)

RULE = Selection(PUCT, 1.0, SCALE_TREE, 0.0, 50.0, 1.0)


def both(kernel):
    return pytest.mark.parametrize("run", [kernel, kernel.py_func], ids=["jit", "python"])


def one_level(visits, q, unobserved=None):
    """A root with one open child per action, 0 visits meaning none."""
    tree = new_tree(1, 16, len(visits))
    for action, count in enumerate(visits):
        if count:
            slot = allocate.py_func(tree, 0, ROOT, action)
            tree.kind[0, slot], tree.visits[0, slot] = OPEN, count
            tree.q[0, slot] = q[action]
            if unobserved is not None:
                tree.unobserved[0, slot] = unobserved[action]
    tree.visits[0, ROOT] = sum(visits)
    tree.unobserved[0, ROOT] = 0 if unobserved is None else sum(unobserved)
    tree.q_low[0], tree.q_high[0] = np.min(q), np.max(q)
    return tree


@both(puct_action)
def test_score_is_q_plus_prior_bonus(run):
    # n = 9: bonus = c / 2 * 3 / (1 + n_a). Scores at c = 1: .3 + 1.5 / 9 and .5 + 1.5 / 2.
    tree = one_level([8, 1], [0.3, 0.5])
    assert run(tree, 0, ROOT, 1.0, SCALE_NONE, 0.0) == 1
    # With q 1.2 for the first: 1.3667 against 1.25 at c = 1, but 1.7 against 2.75 at c = 3.
    tree = one_level([8, 1], [1.2, 0.5])
    assert run(tree, 0, ROOT, 1.0, SCALE_NONE, 0.0) == 0
    assert run(tree, 0, ROOT, 3.0, SCALE_NONE, 0.0) == 1


@both(puct_action)
def test_unobserved_simulations_lower_the_bonus(run):
    # Equal but for 3 simulations in flight through action 0.
    tree = one_level([2, 2], [1.0, 1.0], unobserved=[3, 0])
    assert run(tree, 0, ROOT, 1.0, SCALE_TREE, 0.0) == 1
    tree = one_level([2, 2], [1.0, 1.0], unobserved=[0, 3])
    assert run(tree, 0, ROOT, 1.0, SCALE_TREE, 0.0) == 0


@both(puct_action)
@pytest.mark.parametrize("scale", [SCALE_TREE, SCALE_SIBLINGS])
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_scaled_choice_does_not_depend_on_the_unit_of_reward(run, scale, unit):
    # norm(q) is 1, 0 and (untried, the mean (8 * 4 + 0) / 9) 8 / 9; n = 9, P = 1/3.
    # c = 1: 1 + 1/9, 0 + 1/2, 8/9 + 1 = 1.89. c = 0: action 0.
    tree = one_level([8, 1, 0], [4 * unit, 0.0, 0.0])
    assert run(tree, 0, ROOT, 1.0, scale, 0.0) == 2
    assert run(tree, 0, ROOT, 0.0, scale, 0.0) == 0
    assert run(tree, 0, ROOT, 1.0, scale, 2.0) == 0
    assert run(tree, 0, ROOT, 0.0, scale, -10.0) == 2


@both(puct_action)
def test_tree_scale_looks_beyond_the_siblings(run):
    # Siblings differ by 1 where the tree spans 100: the bonus decides. Among
    # siblings alone the difference is everything there is.
    tree = one_level([3, 1], [1.0, 0.0])
    tree.q_low[0], tree.q_high[0] = 0.0, 100.0
    assert run(tree, 0, ROOT, 1.0, SCALE_TREE, 0.0) == 1
    assert run(tree, 0, ROOT, 1.0, SCALE_SIBLINGS, 0.0) == 0


@both(puct_action)
def test_without_returns_the_prior_decides_and_ties_follow_the_order(run):
    tree = new_tree(1, 2, 3)
    tree.order[0] = [2, 0, 1]
    assert run(tree, 0, ROOT, 1.0, SCALE_TREE, 0.0) == 2
    tree.prior[0, ROOT] = [0.3, 0.5, 0.2]
    assert run(tree, 0, ROOT, 1.0, SCALE_TREE, 0.0) == 1


@both(puct_action)
def test_illegal_and_pending_actions_are_never_chosen(run):
    tree = new_tree(1, 3, 3)
    tree.legal[0, ROOT] = [False, True, True]
    assert run(tree, 0, ROOT, 1.0, SCALE_TREE, 0.0) == 1
    allocate(tree, 0, ROOT, 1)
    assert run(tree, 0, ROOT, 1.0, SCALE_TREE, 0.0) == 2
    allocate(tree, 0, ROOT, 2)
    assert run(tree, 0, ROOT, 1.0, SCALE_TREE, 0.0) == NO_ACTION


@both(puct_action)
def test_an_inner_node_counts_its_own_rating_in_its_mean(run):
    # Node 1 was rated 4 and its action 0 returned 0 once: untried is worth 2.
    tree = one_level([2, 0], [0.0, 0.0])
    tree.value[0, 1] = 4.0
    slot = allocate(tree, 0, 1, 0)
    tree.kind[0, slot], tree.visits[0, slot] = OPEN, 1
    tree.q_low[0], tree.q_high[0] = 0.0, 4.0
    # n = 2 - 1: q 0 + 1 * 0.5 / 2 against 0.5 + 0.5 - reduction.
    assert run(tree, 0, 1, 1.0, SCALE_TREE, 0.0) == 1
    assert run(tree, 0, 1, 1.0, SCALE_TREE, 0.8) == 0


@both(descend)
def test_descend_allocates_or_says_why_not(run):
    tree = new_tree(1, 3, 2)
    assert run(tree, 0, RULE, None) == 1
    assert run(tree, 0, RULE, None) == 2
    assert list(tree.action[0]) == [NO_ACTION, 0, 1]
    assert run(tree, 0, RULE, None) == BLOCKED
    tree.kind[0, 1:] = OPEN
    assert run(tree, 0, RULE, None) == FULL
    tree.kind[0, 1:] = TERMINATED
    assert run(tree, 0, RULE, None) == 1
    assert tree.size[0] == 3


@both(descend)
def test_a_node_without_legal_actions_is_a_leaf(run):
    tree = one_level([1], [0.0])
    tree.legal[0, 1] = False
    assert run(tree, 0, RULE, None) == 1


@both(select_wave)
def test_a_wave_spreads_over_distinct_leaves_and_stops_when_blocked(run):
    tree = new_tree(3, 20, 4)
    rows, leaves = np.full(18, -1, np.int32), np.full(18, -1, np.int32)
    count = run(tree, np.array([3, 0, 6]), RULE, None, rows, leaves)
    # Four actions at the root are all that is known: tree 2 gets 4 of 6.
    assert count == 7
    assert list(rows[:8]) == [0, 0, 0, 2, 2, 2, 2, -1]
    assert list(leaves[:7]) == [1, 2, 3, 1, 2, 3, 4]
    assert list(tree.action[2, 1:5]) == [0, 1, 2, 3]
    assert list(tree.unobserved[:, ROOT]) == [3, 0, 4]
    assert (tree.unobserved[2, 1:5] == 1).all()
    assert (tree.kind[2, 1:5] == PENDING).all()
    assert list(tree.size) == [4, 1, 5]


@both(select_wave)
def test_a_wave_under_equal_values_spreads_over_subtrees(run):
    tree = one_level([1, 1, 1, 1], [0.0] * 4)
    rows, leaves = np.empty(8, np.int32), np.empty(8, np.int32)
    assert run(tree, np.array([8]), RULE, None, rows, leaves) == 8
    assert len(set(leaves)) == 8
    # Two below each of the four children, none of which is better than another.
    assert sorted(tree.parent[0, leaves]) == [1, 1, 2, 2, 3, 3, 4, 4]
    assert list(tree.unobserved[0, :5]) == [8, 2, 2, 2, 2]


def test_an_ended_leaf_can_fill_a_wave_and_backs_up_every_time():
    tree = one_level([1], [2.0])
    tree.kind[0, 1], tree.reward[0, 1], tree.discount[0, 1] = TERMINATED, 2.0, 0.0
    rows, leaves = np.empty(3, np.int32), np.empty(3, np.int32)
    assert select_wave(tree, np.array([3]), RULE, None, rows, leaves) == 3
    assert list(leaves) == [1, 1, 1]
    backup(tree, rows, leaves)
    assert list(tree.visits[0, :2]) == [4, 4]
    assert tree.q[0, 1] == 2.0
    assert (tree.unobserved == 0).all()
