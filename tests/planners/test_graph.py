"""Graph search: transpositions, loops, dead ends; numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.spaces import Discrete

from plangym_ext.errors import InvalidOption
from plangym_ext.planners import GraphSearch
from plangym_ext.planners.graphs.graph import ENDING, FRONTIER, backup_walk, new_graph, walk_on
from plangym_ext.planners.graphs.walk import GraphWalk


def depth_value(obs):
    return None, 10.0 * obs[:, 0]


def plan_of(model, sims, evaluator=None, start=0, **options):
    options = {"discount": 0.5, "rollout_depth": 0} | options
    planner = GraphSearch(sims, evaluator=evaluator, **options)
    plan = planner.plan(model, model.state(start), rng=0, obs=np.array([start], np.float32))
    return plan, planner._kept.rows[0].graph


@pytest.mark.parametrize("run", [backup_walk, backup_walk.py_func], ids=["jit", "python"])
def test_a_walk_credits_all_but_its_last_node(run):
    graph = new_graph(3, 1, 3)
    graph.edges[:] = range(3)
    graph.reward[:, 0], graph.discount[:, 0] = 1.0, 0.5
    graph.value[:], graph.visits[:] = [0, 10, 20], 1
    run(graph, np.array([0, 1, 2]), np.array([0, 0]), 2, 20.0)
    # 1 + 0.5 * 20 = 11 into node 1, 1 + 0.5 * 11 = 6.5 into node 0.
    np.testing.assert_array_equal(graph.value, [3.25, 10.5, 20])
    np.testing.assert_array_equal(graph.visits, [2, 2, 1])


def test_the_root_receives_six_and_the_expanded_leaf_nothing(models):
    # V = 10 * depth, r = 1, gamma = 0.5. The second walk expands depth 1 and hands its
    # value up: the root averages its own 0 and 1 + 0.5 * 10 = 6. Alpacka stepped on,
    # gave the leaf 6 and the root 4.
    plan, graph = plan_of(models.chain(6), 2, depth_value)
    np.testing.assert_array_equal(graph.value[:3], [3, 10, 20])
    np.testing.assert_array_equal(graph.visits[:3], [2, 1, 1])
    assert plan.q[0] == 1 + 0.5 * 10
    assert plan.budget.model_steps == 2


def test_several_expansions_hand_up_the_last_or_all(models):
    # Expanding the root, depth 1 and depth 2: depth 2's 20 is 11 at depth 1, 6.5 at the root.
    _, graph = plan_of(models.chain(6), 1, depth_value, num_expansions=3)
    np.testing.assert_array_equal(graph.value[:4], [3.25, 10.5, 20, 30])
    np.testing.assert_array_equal(graph.visits[:4], [2, 2, 1, 1])
    _, graph = plan_of(models.chain(6), 1, depth_value, num_expansions=3, intermediate_backups=True)
    # Depth 1's 10 as well, as 6: the root averages 0, 6 and 6.5.
    np.testing.assert_allclose(graph.value[:3], [12.5 / 3, 10.5, 20])


def test_two_ways_to_a_state_share_its_node(models):
    # 0 -> 1 or 2 -> 3: a diamond.
    model = models.TableModel(
        [[1, 2], [3, 3], [3, 3], [4, 4], [4, 4]], np.zeros((5, 2)), terminated=[4]
    )
    plan, graph = plan_of(model, 9, lambda obs: (None, obs[:, 0]), discount=1.0)
    # Walks expand 0, 2 (rated higher) and 3, which leads to the end: the mean of 2 falls
    # to 5 / 6 with its sixth value, and 1 is expanded too. State 3 is one node.
    assert plan.budget.expansions == 4
    assert plan.budget.model_steps == 8
    assert graph.expanded[:5].sum() == 4
    three = graph.child[graph.edges[graph.child[0, 0]], 0]
    assert (graph.child[graph.edges[graph.child[0, :2]], :] == three).all()


def test_a_graph_of_a_tree_is_a_tree(models):
    # Seven states of a binary tree: walks and values as if nodes were never shared.
    successor = [[1, 2], [3, 4], [5, 6], *[[7, 7]] * 4, [7, 7]]
    reward = np.arange(16).reshape(8, 2) / 4
    model = models.TableModel(successor, reward, terminated=[7])
    values = np.array([0.0, 1, 2, -1, 3, 0.5, 1.5, 0])
    plan, _ = plan_of(model, 6, lambda obs: (None, values[obs[:, 0].astype(int)]))

    # The same, one dictionary entry per path.
    order = np.random.default_rng(0).permutation(2)
    mean, count, known = {(): 0.0}, {(): 1}, {(): 0}
    expanded = set()
    for _ in range(6):
        path = ()
        while path in expanded:
            q = [reward[known[path], a] + 0.5 * mean[(*path, a)] for a in range(2)]
            path = (*path, max(order, key=q.__getitem__))
        if known[path] != 7:
            expanded.add(path)
            for a in range(2):
                index = successor[known[path]][a]
                known[(*path, a)], count[(*path, a)] = index, 1
                mean[(*path, a)] = values[index]
        value = mean[path]
        for depth in range(len(path) - 1, -1, -1):
            above = path[:depth]
            value = (
                reward[known[above], path[depth]]
                + (0 if known[path[: depth + 1]] == 7 else 0.5) * value
            )
            count[above] += 1
            mean[above] = float(np.float32(mean[above] + (value - mean[above]) / count[above]))
    assert plan.value == pytest.approx(mean[()], rel=1e-6)
    for a in range(2):
        assert plan.q[a] == pytest.approx(reward[0, a] + 0.5 * mean[(a,)], rel=1e-6)


def test_a_dead_end_is_handed_up_discounted(models):
    # 0 and 1 lead to each other and nowhere else; the walk may not come back.
    model = models.TableModel([[1], [0]], np.zeros((2, 1)))
    _, graph = plan_of(model, 3, dead_end_value=-2.0)
    # Walk 1 expands 0, walk 2 expands 1, walk 3 finds 1 a dead end: it averages 0 and -2;
    # 0 averages 0 (rating), 0 (walk 2) and 0.5 * -2.
    np.testing.assert_allclose(graph.value[:2], [-1 / 3, -1])
    np.testing.assert_array_equal(graph.visits[:2], [3, 2])


def test_an_action_that_stays_is_a_last_resort(models):
    # Action 0 stays and pays 1, action 1 goes on for nothing.
    model = models.TableModel([[0, 1], [1, 1]], [[1.0, 0.0], [0, 0]])
    plan, _ = plan_of(model, 2)
    assert plan.q[0] > plan.q[1]
    assert plan.action == 1
    # Where everything stays (Alpacka returned None), the best of it is played.
    model = models.TableModel([[0, 0]], [[0.0, 1.0]])
    plan, _ = plan_of(model, 3)
    assert plan.action == 1


def test_an_ending_is_worth_nothing_more(models):
    model = models.chain(6, terminated=[2])
    plan, graph = plan_of(model, 4, lambda obs: (None, np.full(len(obs), 8.0)))
    # Depth 2 ends: 0, so depth 1 averages 8 with 1 + 0, twice.
    assert graph.value[2] == 0
    assert plan.budget.model_steps == 2
    np.testing.assert_allclose(graph.value[1], (8 + 1 + 1) / 3, rtol=1e-6)
    cut = models.chain(6, truncated=[2])
    _, graph = plan_of(cut, 2, lambda obs: (None, np.full(len(obs), 8.0)))
    assert graph.value[2] == 8


@pytest.mark.parametrize("seed", range(6))
def test_among_equals_a_walk_goes_on_rather_than_to_an_ending(models, seed):
    # All is worth 0 before the goal is found, falls off the path too: walks went there for ever.
    model = models.narrow_path(6)
    planner = GraphSearch(6, rollout_depth=0, discount=0.5)
    plan = planner.plan(model, model.state(0), rng=seed, obs=np.zeros(1, np.float32))
    # Each walk expands the next state of the path: 3 actions each, and none of them again.
    assert plan.budget.model_steps == 6 * 3
    assert plan.action == 1


def test_the_graph_is_kept_for_the_episode(models):
    model = models.chain(40)
    planner = GraphSearch(3, evaluator=depth_value, rollout_depth=0)
    expanded = []
    for index in range(5):
        obs = np.array([index], np.float32)
        planner.plan(model, model.state(index), rng=0, obs=obs)
        expanded.append(planner._kept.rows[0].graph.expanded.sum())
    # Room for four moves: three new nodes each, none stepped twice. Then anew.
    assert expanded == [3, 6, 9, 12, 3]
    assert model.model_steps == 15
    planner.reset()
    planner.plan(model, model.state(0), rng=0, obs=np.zeros(1))
    assert planner._kept.rows[0].graph.expanded.sum() == 3


@pytest.mark.parametrize("expansions", [1, 3])
def test_graphs_planned_together_equal_graphs_planned_alone(models, expansions):
    model = models.random_mdp(3)
    planner = GraphSearch(12, num_expansions=expansions, rollout_depth=3)
    states = np.stack([model.state(i) for i in (0, 5, 9)])
    together = planner.plan_batch(model, states, rngs=[np.random.default_rng(i) for i in range(3)])
    for i, plan in enumerate(together):
        planner.reset()
        alone = planner.plan(model, states[i], rng=i)
        np.testing.assert_array_equal(plan.q, alone.q)
        assert plan.action == alone.action
        assert plan.budget.model_steps == alone.budget.model_steps


def test_steps_and_room_are_bounded(models):
    model = models.random_mdp(4, states=400)
    plan = GraphSearch(max_model_steps=50, rollout_depth=2).plan(model, model.state(0), rng=0)
    assert 50 - 9 < plan.budget.model_steps == model.model_steps <= 50
    plan = GraphSearch(50, rollout_depth=0, capacity=12).plan(model, model.state(0), rng=0)
    assert plan.full
    with pytest.raises(InvalidOption, match=r"capacity must be at least 4.* got 3"):
        GraphSearch(5, capacity=3).plan(model, model.state(0), rng=0)
    with pytest.raises(InvalidOption, match=r"max_model_steps must be at least 27.* got 26"):
        GraphSearch(max_model_steps=26).plan(model, model.state(0), rng=0)


def test_states_may_be_known_by_what_is_seen(models):
    model = models.chain(6)
    plain = model.step_batch

    def counting(actions, states):
        # The state counts its steps, so that its bytes never come again.
        out = plain(actions, states[:, :8])
        count = states[:, 8:].view(np.int64) + 1
        return out._replace(states=np.concatenate([out.states, count.view(np.uint8)], axis=1))

    model.successor[2] = 0
    model.step_batch = counting
    start = np.concatenate([model.state(0), np.zeros(8, np.uint8)])
    for key, states in (("state", 7), ("obs", 3)):
        planner = GraphSearch(6, state_key=key, rollout_depth=0, capacity=20)
        planner.plan(model, start, rng=0, obs=np.zeros(1, np.float32))
        assert len(planner._kept.rows[0].states) == states


def test_a_board_that_was_seen_at_the_limit_is_played_on_from():
    # A walk in thought meets a board where the episode is cut; then the game itself does.
    walk = GraphWalk(10, 2)
    mask, later, now = np.ones(2, bool), np.full(3, 9, np.uint8), np.full(3, 4, np.uint8)
    walk.start(b"before", np.full(3, 8, np.uint8), mask, np.random.default_rng(0))
    walk.begin(avoid_loops=True)
    node, _ = walk.node_of(b"board", later, mask, ended=True)
    walk.start(b"board", now, np.ones(2, bool), np.random.default_rng(0))
    assert walk.root == node
    assert walk.begin(avoid_loops=True) == FRONTIER
    np.testing.assert_array_equal(walk.states[walk.root], now)


def two_clocks(models):
    """A corridor of two fields and a clock that stops at 2: states are both, obs the field.

    In field 0 action 0 takes both ticks, so that the episode is cut in field 1; action 1
    takes one, and earns 0.25. In field 1 any action earns 1 and ends the episode.
    """
    # State 3 * field + ticks.
    successor = np.array([[5, 4], [5, 5], [2, 2], [8, 8], [8, 8], [5, 5], *[[8, 8]] * 3])
    reward = np.zeros((9, 2))
    reward[0, 1], reward[3:5] = 0.25, 1.0
    model = models.TableModel(successor, reward, terminated=[8], truncated=[2, 5])
    by_state = model._batch

    def batch(index, reward):
        return by_state(index, reward)._replace(obs=(index // 3).astype(np.float32)[:, None])

    model._batch = batch
    return model


@pytest.mark.parametrize("sims", [3, 8])
def test_a_board_that_was_first_met_where_the_episode_was_cut_is_gone_on_from(models, sims):
    by = {}
    for key in ("state", "obs"):
        plan, _ = plan_of(two_clocks(models), sims, state_key=key)
        by[key] = plan
    # Two simulations expand both fields; those after them average 1 into field 1's 0.
    value = (sims - 2) / (sims - 1)
    assert by["state"].q.tolist() == pytest.approx([0.0, 0.25 + 0.5 * value])
    # Known by what is seen, both actions lead to the same field, and a cut bootstraps.
    assert by["obs"].q.tolist() == pytest.approx([0.5 * value, 0.25 + 0.5 * value])


@pytest.mark.parametrize("run", [walk_on, walk_on.py_func], ids=["jit", "python"])
def test_a_walk_ends_with_the_edge_that_terminates(run):
    # The edge 0 -> 1 terminates, though node 1 goes on when it is come to otherwise.
    graph = new_graph(4, 1, 4)
    graph.edges[:] = range(4)
    graph.expanded[:2] = True
    graph.child[0, 0], graph.child[1, 0] = 1, 2
    graph.discount[1, 0] = 0.5
    nodes, actions = np.zeros(5, np.int32), np.zeros(5, np.int32)
    assert run(graph, 1, True, nodes, actions, 0) == (ENDING, 1)
    graph.discount[0, 0] = 0.5
    assert run(graph, 2, True, nodes, actions, 0) == (FRONTIER, 2)


class Corridor:
    """Fields 0, ..., 3 in a row, seen whole; a state counts steps too, of which there are 4.

    Action 0 goes on, action 1 goes back to field 0; field 3 pays 1 and ends the episode.
    """

    action_space = Discrete(2)

    def __init__(self, models):
        self.batch = models.Batch

    def step_batch(self, actions, states):
        at = np.ascontiguousarray(states).view(np.int64).reshape(-1, 2).copy()
        at[:, 0], at[:, 1] = np.where(np.asarray(actions) == 0, at[:, 0] + 1, 0), at[:, 1] + 1
        goal = at[:, 0] == 3
        return self.batch(at.view(np.uint8), at[:, :1] * 1.0, goal * 1.0, goal, at[:, 1] == 4, {})

    def plan(self, planner, field, count):
        state = np.array([field, count]).view(np.uint8)
        return planner.plan(self, state, rng=0, obs=np.full(1, float(field)))


@pytest.mark.parametrize("before", [(0, 3), (1, 2), (1, 3), (0, 2), (2, 3)])
def test_what_was_cut_is_made_anew_for_a_state_with_more_steps_left(models, before):
    # Known by what is seen, fields that were seen near the limit are gone on from.
    model, options = Corridor(models), {"state_key": "obs", "rollout_depth": 0, "discount": 0.9}
    kept = GraphSearch(50, **options)
    model.plan(kept, *before)
    found = model.plan(kept, 0, -10)
    right = model.plan(GraphSearch(50, **options), 0, -10)
    np.testing.assert_allclose(found.q, right.q)
    assert found.q[0] == pytest.approx(0.9**2, abs=0.05)
    # In play time goes on, and what is known is kept: no field is stepped from a second time.
    assert model.plan(kept, 1, -9).budget.model_steps == 0


def test_a_field_met_late_at_first_is_gone_on_from_where_it_is_met_early(models):
    # 0 -> 1 -> 2 -> 3 -> 4 takes too long, 0 -> 5 -> 3 -> 4 does not; the long way is rated higher.
    successor = np.array([[1, 5], [2, 2], [3, 3], [4, 4], [4, 4], [3, 3]])
    model = Corridor(models)

    def step_batch(actions, states):
        at = np.ascontiguousarray(states).view(np.int64).reshape(-1, 2).copy()
        at[:, 0], at[:, 1] = successor[at[:, 0], actions], at[:, 1] + 1
        goal = (at[:, 0] == 4) & (at[:, 1] < 4)
        over, cut = at[:, 0] == 4, (at[:, 1] == 4) & ~goal
        return model.batch(at.view(np.uint8), at[:, :1] * 1.0, goal * 1.0, over & goal, cut, {})

    model.step_batch = step_batch

    def evaluator(obs):
        return None, np.array([0.0, 0.9, 0.9, 0.9, 0.0, 0.1])[obs[:, 0].astype(int)]

    plan = model.plan(GraphSearch(60, state_key="obs", discount=1.0, evaluator=evaluator), 0, 0)
    assert plan.q[1] == pytest.approx(1.0, abs=0.1)
