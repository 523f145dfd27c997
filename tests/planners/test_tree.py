from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.planners.trees.tree import (
    NO_ACTION,
    NO_PARENT,
    OPEN,
    PENDING,
    ROOT,
    TERMINATED,
    TRUNCATED,
    UNVISITED,
    NewNodes,
    allocate,
    backup,
    deepest,
    expand,
    new_tree,
    reroot,
    restart,
    summarize,
)


def both(kernel):
    return pytest.mark.parametrize("run", [kernel, kernel.py_func], ids=["jit", "python"])


def grow(tree, b, edges):
    """Add open nodes `(parent, action, reward, discount, value)` to tree b."""
    for parent, action, reward, discount, value in edges:
        slot = allocate.py_func(tree, b, parent, action)
        tree.kind[b, slot] = OPEN
        tree.reward[b, slot], tree.discount[b, slot] = reward, discount
        tree.value[b, slot] = value


def simulate(tree, b, leaf, run=backup.py_func):
    """Count a simulation on its way down, then back it up."""
    node = leaf
    while node != NO_PARENT:
        tree.unobserved[b, node] += 1
        node = tree.parent[b, node]
    run(tree, np.array([b]), np.array([leaf]))


def chain(rewards, discounts, value):
    tree = new_tree(1, len(rewards) + 1, 1)
    grow(
        tree,
        0,
        [(i, 0, r, d, 0.0) for i, (r, d) in enumerate(zip(rewards, discounts, strict=True))],
    )
    tree.value[0, len(rewards)] = value
    return tree


@both(backup)
def test_terminal_edge_hides_the_leaf_value(run):
    # Edges pay 1, 2, 4; the last one terminates, so the value must not count.
    tree = chain([1, 2, 4], [0.5, 0.5, 0.0], value=100.0)
    simulate(tree, 0, 3, run)
    # By hand: q3 = 4, q2 = 2 + 0.5 * 4 = 4, q1 = 1 + 0.5 * 4 = 3, root the same.
    np.testing.assert_array_equal(tree.q[0], [3, 3, 4, 4])
    np.testing.assert_array_equal(tree.visits[0], [1, 1, 1, 1])
    np.testing.assert_array_equal(tree.unobserved[0], [0, 0, 0, 0])
    assert (tree.q_low[0], tree.q_high[0]) == (3, 4)


@both(backup)
def test_truncated_edge_bootstraps(run):
    # The same, but the last edge is cut, not ended: 4 + 0.5 * 100 = 54, 29, 15.5.
    tree = chain([1, 2, 4], [0.5, 0.5, 0.5], value=100.0)
    simulate(tree, 0, 3, run)
    np.testing.assert_array_equal(tree.q[0], [15.5, 15.5, 29, 54])


@both(backup)
def test_a_new_child_is_credited_with_its_own_value_once(run):
    # Alpacka's open-loop search took one step too many and counted r twice:
    # r = 1, V = 0, gamma = 0.5 gave the child 1 + 0.5 * 1 = 1.5 instead of 1.
    tree = chain([1], [0.5], value=0.0)
    simulate(tree, 0, 1, run)
    assert tree.q[0, 1] == 1.0


@both(backup)
def test_root_receives_reward_plus_discounted_leaf_value(run):
    # Alpacka's closed-loop search: V = 10 * depth, r = 1, gamma = 0.5. The leaf's
    # value was backed up as its child's and the root got 4; by hand 1 + 0.5 * 10 = 6.
    tree = chain([1], [0.5], value=10.0)
    simulate(tree, 0, 1, run)
    assert tree.q[0, ROOT] == 6.0


@both(backup)
def test_means_average_returns_and_siblings_stay_apart(run):
    # Root -0-> 1 -0-> 2 and root -1-> 3; gamma 0.5.
    tree = new_tree(1, 4, 2)
    grow(tree, 0, [(0, 0, 1, 0.5, 2), (1, 0, 2, 0.5, 4), (0, 1, -1, 0.5, 0)])
    for leaf in (1, 2, 3, 2):
        simulate(tree, 0, leaf, run)
    # Returns seen by node 1: 1 + .5 * 2 = 2, then 1 + .5 * (2 + .5 * 4) = 3 twice.
    np.testing.assert_array_equal(tree.visits[0], [4, 3, 2, 1])
    np.testing.assert_allclose(tree.q[0], [(2 + 3 - 1 + 3) / 4, 8 / 3, 4, -1], rtol=1e-7)


def test_float32_means_drift_less_than_the_stated_bound():
    tree = chain([0], [1.0], value=0.0)
    returns = np.random.default_rng(0).uniform(0.5, 1.0, 10_000)
    for ret in returns:
        tree.value[0, 1] = ret
        tree.unobserved[0, :] += 1
        backup(tree, np.zeros(1, int), np.ones(1, int))
    error = abs(float(tree.q[0, 1]) - returns.mean())
    assert error <= (len(returns) + 1) / 2 * 2.0**-24 * returns.max()
    # What is expected, as opposed to the worst case, with room for bad luck.
    assert error <= 5 * np.sqrt(len(returns)) / 3 * 2.0**-24


@both(allocate)
def test_allocate_clears_a_used_slot(run):
    tree = new_tree(2, 3, 2)
    tree.visits[1, 1], tree.unobserved[1, 1], tree.q[1, 1] = 5, 6, 7
    tree.children[1, 1] = 2
    assert run(tree, 1, 0, 1) == 1
    np.testing.assert_array_equal(tree.children[1, ROOT], [UNVISITED, 1])
    np.testing.assert_array_equal(tree.children[1, 1], [UNVISITED, UNVISITED])
    assert (tree.parent[1, 1], tree.action[1, 1], tree.kind[1, 1]) == (0, 1, PENDING)
    assert (tree.visits[1, 1], tree.unobserved[1, 1], tree.q[1, 1]) == (0, 0, 0)
    np.testing.assert_array_equal(tree.size, [1, 2])


@both(expand)
def test_expand_writes_the_named_nodes_only(run):
    tree = new_tree(2, 3, 2)
    allocate(tree, 0, 0, 0)
    allocate(tree, 1, 0, 1)
    before = [field.copy() for field in tree]
    new = NewNodes(
        rows=np.array([1]),
        nodes=np.array([1]),
        terminated=np.array([False]),
        truncated=np.array([True]),
        reward=np.array([2.0]),
        value=np.array([3.0]),
        prior=np.array([[0.25, 0.75]], np.float32),
        legal=np.array([[True, False]]),
    )
    run(tree, new, 0.5)
    assert tree.kind[1, 1] == TRUNCATED
    assert (tree.reward[1, 1], tree.discount[1, 1], tree.value[1, 1]) == (2, 0.5, 3)
    # The share of what is legal, which is all there is.
    np.testing.assert_array_equal(tree.prior[1, 1], [1.0, 0.0])
    np.testing.assert_array_equal(tree.legal[1, 1], [True, False])
    for name, old, now in zip(tree._fields, before, tree, strict=True):
        if old.ndim >= 2 and name != "order":
            now[1, 1] = old[1, 1]
        np.testing.assert_array_equal(now, old, err_msg=name)


@both(expand)
def test_expand_rates_only_what_was_not_terminated(run):
    tree = new_tree(1, 4, 2)
    for _ in range(3):
        allocate(tree, 0, 0, 0)
    new = NewNodes(
        rows=np.zeros(3, int),
        nodes=np.array([1, 2, 3]),
        terminated=np.array([False, True, False]),
        truncated=np.array([False, False, True]),
        reward=np.array([1.0, 2.0, 3.0]),
        value=np.array([4.0, 5.0]),
        prior=np.zeros((0, 2), np.float32),
        legal=np.zeros((0, 2), np.bool_),
    )
    run(tree, new, 0.5)
    np.testing.assert_array_equal(tree.kind[0, 1:], [OPEN, TERMINATED, TRUNCATED])
    np.testing.assert_array_equal(tree.reward[0, 1:], [1, 2, 3])
    np.testing.assert_array_equal(tree.discount[0, 1:], [0.5, 0, 0.5])
    # Two values for three nodes: the terminated one has none.
    np.testing.assert_array_equal(tree.value[0, 1:], [4, 0, 5])
    # Nothing was said about actions: the prior is uniform, and all are legal.
    np.testing.assert_array_equal(tree.prior[0, 1:], 0.5)
    assert tree.legal[0, 1:].all()


@both(expand)
def test_what_follows_is_the_other_players_where_the_other_player_moves(run):
    # Edges 1, 2 and 3 in a row: A moves, then B twice, and B's leaf is rated 8.
    tree = new_tree(1, 4, 2)
    for parent in range(3):
        allocate(tree, 0, parent, 0)
    flags = np.zeros(3, np.bool_)
    new = NewNodes(
        rows=np.zeros(3, int),
        nodes=np.array([1, 2, 3]),
        terminated=flags,
        truncated=flags,
        reward=np.array([1.0, 2.0, 4.0]),
        value=np.array([0.0, 0.0, 8.0]),
        prior=np.zeros((0, 2), np.float32),
        legal=np.zeros((0, 2), np.bool_),
        swaps=np.array([True, False, False]),
    )
    run(tree, new, 0.5)
    np.testing.assert_array_equal(tree.discount[0, 1:], [-0.5, 0.5, 0.5])
    tree.unobserved[0] = 1
    backup(tree, np.array([0]), np.array([3]))
    # For B: 4 + 0.5 * 8 = 8 and 2 + 0.5 * 8 = 6; for A 1 - 0.5 * 6 = -2.
    np.testing.assert_array_equal(tree.q[0], [-2, -2, 6, 8])


@both(summarize)
def test_best_action_has_most_visits_then_q_then_comes_first_in_order(run):
    tree = new_tree(4, 5, 4)
    for b in range(4):
        grow(tree, b, [(0, a, 0, 1, 0) for a in range(4)])
    tree.visits[:, 1:] = [[1, 3, 3, 2], [1, 3, 3, 2], [1, 1, 1, 1], [0, 0, 0, 0]]
    tree.q[:, 1:] = [[9, 1, 2, 9], [9, 2, 2, 9], [0, 0, 0, 0], [1, 1, 1, 1]]
    tree.order[1] = [0, 2, 1, 3]
    tree.order[2] = [3, 2, 1, 0]
    visits, (q, weights) = np.empty((4, 4), np.int64), np.empty((2, 4, 4))
    best, depths = np.empty((2, 4), np.int64)
    run(tree, visits, q, weights, best, depths, np.empty(5, np.int64))
    np.testing.assert_array_equal(depths, 1)
    np.testing.assert_array_equal(best, [2, 2, 3, NO_ACTION])
    np.testing.assert_array_equal(visits, tree.visits[:, 1:])
    np.testing.assert_array_equal(q[:3], tree.q[:3, 1:])
    assert np.isnan(q[3]).all()
    np.testing.assert_array_equal(weights[:3], visits[:3] / visits[:3].sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(weights[3], 0.0)


@both(deepest)
def test_the_depth_is_that_of_the_deepest_node(run):
    # Of the first the last node is not the deepest; the second is a root alone.
    tree = new_tree(2, 8, 2)
    edges = [(0, 0), (0, 1), (2, 0), (3, 1), (1, 0)]
    grow(tree, 0, [(p, a, p + 1, 0.5, 0) for p, a in edges])
    depths = np.empty(2, np.int64)
    run(tree, depths, np.empty(8, np.int64))
    np.testing.assert_array_equal(depths, [3, 0])


@both(reroot)
def test_reroot_keeps_the_subtree_and_its_statistics(run):
    # Children of the root: 1, 2; of 2: 3, 5; of 1: 4; of 5: 6.
    tree = new_tree(2, 8, 2)
    edges = [(0, 0), (0, 1), (2, 0), (1, 0), (2, 1), (5, 1)]
    grow(tree, 1, [(p, a, p + 1, 0.5, 10 * i) for i, (p, a) in enumerate(edges, 1)])
    for leaf in (1, 2, 3, 4, 5, 6, 6):
        simulate(tree, 1, leaf)
    tree.prior[1, 5], tree.legal[1, 5] = [0.25, 0.75], [True, False]
    tree.kind[1, 3] = TERMINATED
    old = [field.copy() for field in tree]
    remap = np.empty(8, np.int32)
    run(tree, 1, 2, np.ones(2, bool), remap)
    np.testing.assert_array_equal(remap, [-1, -1, 0, 1, -1, 2, 3, -1])
    np.testing.assert_array_equal(tree.size, [1, 4])
    np.testing.assert_array_equal(tree.parent[1, :4], [NO_PARENT, 0, 0, 2])
    np.testing.assert_array_equal(tree.action[1, :4], [NO_ACTION, 0, 1, 1])
    np.testing.assert_array_equal(tree.children[1, :4], [[1, 2], [-1, -1], [-1, 3], [-1, -1]])
    kept = [2, 3, 5, 6]
    for name in ("kind", "value", "unobserved", "prior", "legal"):
        was = old[tree._fields.index(name)]
        np.testing.assert_array_equal(getattr(tree, name)[1, :4], was[1, kept], err_msg=name)
    for name in ("reward", "discount", "visits", "q"):
        was = old[tree._fields.index(name)]
        np.testing.assert_array_equal(getattr(tree, name)[1, 1:4], was[1, kept[1:]], err_msg=name)
    # The root counts what went on from it: 1 through node 3 and 3 through node 5.
    # Node 3 returned 3 + .5 * 30 = 18; node 5 28, then twice 3 + .5 * (6 + .5 * 60) = 21.
    assert tree.visits[1, ROOT] == 4
    assert tree.q[1, ROOT] == (18 + 28 + 21 + 21) / 4
    assert (tree.q_low[1], tree.q_high[1]) == (18, 36)
    # Row 0 is another tree.
    for name, was, now in zip(tree._fields, old, tree, strict=True):
        np.testing.assert_array_equal(now[0], was[0], err_msg=name)


@both(reroot)
def test_reroot_drops_what_is_below_an_action_that_is_illegal_now(run):
    # As above: of node 2, action 0 leads to 3, action 1 to 5 and on to 6.
    tree = new_tree(1, 8, 2)
    edges = [(0, 0), (0, 1), (2, 0), (1, 0), (2, 1), (5, 1)]
    grow(tree, 0, [(p, a, p + 1, 0.5, 10 * i) for i, (p, a) in enumerate(edges, 1)])
    for leaf in (1, 2, 3, 4, 5, 6, 6):
        simulate(tree, 0, leaf)
    tree.prior[0, 2] = [0.25, 0.75]
    remap = np.empty(8, np.int32)
    run(tree, 0, 2, np.array([True, False]), remap)
    np.testing.assert_array_equal(remap, [-1, -1, 0, 1, -1, -1, -1, -1])
    assert tree.size[0] == 2
    np.testing.assert_array_equal(tree.children[0, :2], [[1, -1], [-1, -1]])
    np.testing.assert_array_equal(tree.legal[0, ROOT], [True, False])
    np.testing.assert_array_equal(tree.prior[0, ROOT], [1, 0])
    # One simulation went through node 3, which returned 3 + .5 * 30 = 18.
    assert (tree.visits[0, ROOT], tree.q[0, ROOT]) == (1, 18)
    assert (tree.q_low[0], tree.q_high[0]) == (18, 18)


@both(restart)
def test_restart_leaves_an_open_root(run):
    tree, fresh = new_tree(1, 4, 2), new_tree(1, 4, 2)
    grow(tree, 0, [(0, 0, 1, 0.5, 2), (1, 0, 2, 0.5, 4)])
    simulate(tree, 0, 2)
    tree.value[0, ROOT], tree.prior[0, ROOT], tree.legal[0, ROOT] = 5, 0, False
    run(tree, np.array([0]))
    for name, was, now in zip(tree._fields, fresh, tree, strict=True):
        got, want = (now, was) if was.ndim == 1 or name == "order" else (now[:, 0], was[:, 0])
        np.testing.assert_array_equal(got, want, err_msg=name)
