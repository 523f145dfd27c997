"""Models that are wrong about a few steps: corrections, repaired trees, true first steps."""

from __future__ import annotations

import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import InvalidOption
from plangym_ext.learn import LatentModel, ModelPlanner
from plangym_ext.planners import MCTS, STS, play
from tests.tabular_models import exact_network, table_of

TABLE = table_of("FrozenLake-v1", is_slippery=False)
#: What the model takes for true: to the right is down there and the other way round, and a wrong
#: reward on the second row. (Down from 4 leads to 8.)
WRONG = [list(row) for row in TABLE]
WRONG[0][2], WRONG[0][1] = TABLE[0][1], TABLE[0][2]
WRONG[4][1] = (8, 0.5, False)
VALUE = np.linspace(-0.5, 0.75, 16)


@pytest.fixture(scope="module")
def lake():
    with plangym_ext.make("FrozenLake-v1", is_slippery=False) as env:
        yield env


def planner_in(table, cls=MCTS, **options):
    search = cls(60, keep_tree=True, rollout_depth=0, return_tree=True, evaluator=rated, **options)
    return search, LatentModel(exact_network(table))


def rated(latents):
    return None, latents @ VALUE.astype(np.float32)


def nodes_of(tree, b=0):
    """Return what a kept tree holds, as dicts by (parent, action)."""
    found = []
    for n in range(tree.size[b]):
        one = {k: getattr(tree, k)[b, n].item() for k in ("parent", "action", "visits", "q")}
        one |= {k: getattr(tree, k)[b, n].item() for k in ("reward", "discount", "value")}
        found.append(one | {"below": []})
        if n:
            found[one["parent"]]["below"].append(n)
    return found


def built_anew(nodes, states, wrong):
    """Return the actions, counts and means of a tree without its wrong edges, by recursion."""

    def build(n, path):
        node = nodes[n]
        own = node["visits"] - sum(nodes[k]["visits"] for k in node["below"])
        total, count, told = own * node["value"], own, {}
        for k in node["below"]:
            if wrong(states[n], nodes[k]["action"]):
                continue
            visits, q, deeper = build(k, (*path, nodes[k]["action"]))
            total, count, told = total + visits * q, count + visits, told | deeper
        mean = total / count if count else 0.0
        q = node["reward"] + node["discount"] * mean if n else mean
        return count, q, {path: (count, q), **told}

    return build(0, ())[2]


def cells(search, model, b=0):
    states = search.states.get(np.full(search.tree.size[b], b), np.arange(search.tree.size[b]))
    return model.obs_of(states).argmax(axis=1).tolist()


def test_a_model_that_is_right_loses_nothing(lake):
    for options in ({}, {"compiled": False}, {"wave_size": 1}):
        episodes = []
        for correct in (False, True):
            search, model = planner_in(TABLE, **options)
            player = ModelPlanner(planner=search, model=model, correct=correct)
            told = []
            play(lake, player, seed=0, max_steps=8, callback=told.append)
            episodes.append(told)
        assert len(episodes[0]) == len(episodes[1]) > 1
        for mine, theirs in zip(*episodes, strict=True):
            assert mine.action == theirs.action
            assert mine.plan.budget.dropped == theirs.plan.budget.dropped == 0
            for name in ("visits", "q", "weights"):
                found = getattr(mine.plan, name), getattr(theirs.plan, name)
                np.testing.assert_array_equal(*found)
            for found in zip(mine.plan.tree, theirs.plan.tree, strict=True):
                np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("action", [1, 2])
def test_a_tree_is_repaired_where_the_real_step_was_another_one(action, lake):
    search, model = planner_in(WRONG)
    player = ModelPlanner(planner=search, model=model, correct=True)
    state, obs, _ = lake.reset(seed=0)
    player.plan(lake, state, rng=0, obs=obs)
    kept = search._kept.search
    nodes, where = nodes_of(kept.tree), cells(kept, model)
    player._last[1][0] = action  # played, whatever was planned
    out = lake.step_batch(np.array([action]), state[None])
    player.take_rewards(out.rewards)
    wanted = built_anew(nodes, where, lambda cell, a: (cell, a) == (0, action))
    states = model.states_of(np.array([[0], out.obs]).reshape(2))
    dropped = search.cut_wrong(model, 0, states[0], action, (states[1], 0.0))
    tree = kept.tree
    assert dropped == len(nodes) - tree.size[0] > 5
    found, paths = {}, {0: ()}
    for n, node in enumerate(nodes_of(tree)):
        paths[n] = (*paths[node["parent"]], node["action"]) if n else ()
        found[paths[n]] = node["visits"], node["q"]
    assert found.keys() == wanted.keys()
    for path, (visits, q) in wanted.items():
        assert found[path][0] == visits
        assert found[path][1] == pytest.approx(q, abs=1e-6)
    # The other action was taken for this one: what is below it is true, and is gone on with.
    plan = player.plan(lake, out.states[0], rng=1, obs=out.obs[0])
    assert len(kept.kept[0]) > 3
    assert plan.visits.sum() > 60


def test_no_node_is_reached_through_what_was_seen_to_be_wrong(lake):
    search, model = planner_in(WRONG)
    player = ModelPlanner(planner=search, model=model, correct=True)
    known, dropped, surprises = [list(row) for row in WRONG], 0, 0
    state, obs, _ = lake.reset(seed=0)
    for action in (2, 0, 1, 3, 1, 1, 2):
        plan = player.plan(lake, state, rng=0, obs=obs)
        dropped += plan.budget.dropped
        kept = search._kept.search
        where, nodes = cells(kept, model), nodes_of(kept.tree)
        assert where[0] == obs
        for n, node in enumerate(nodes[1:], 1):
            following, reward, over = known[where[node["parent"]]][node["action"]]
            assert (where[n], node["reward"], node["discount"] == 0.0) == (following, reward, over)
        player._last[1][0] = action
        surprises += known[obs][action] != TABLE[obs][action]
        known[obs][action] = TABLE[obs][action]
        state, obs, reward, *_ = lake.step(action, state)
        player.take_rewards(np.array([reward]))
    assert surprises == 3
    assert dropped > 10
    player.reset()
    assert not model._known


def test_other_trees_are_dropped_as_a_whole(lake):
    search, model = planner_in(WRONG, STS)
    player = ModelPlanner(planner=search, model=model, correct=True)
    states = np.repeat(lake.reset(seed=0)[0][None], 2, 0)
    rngs = [np.random.default_rng(i) for i in range(2)]
    plans = player.plan_batch(lake, states, rngs=rngs, obs=np.zeros(2, int))
    sizes = [len(plan.tree.parent) for plan in plans]
    player._last[1][:] = [2, 2]
    out = lake.step_batch(np.array([2, 2]), states)
    player.forget_rows(np.array([1]))
    plans = player.plan_batch(lake, out.states, rngs=rngs, obs=out.obs)
    assert [plan.budget.dropped for plan in plans] == [sizes[0] - 1, 0]


@pytest.mark.parametrize("name", ["MCTS", "RolloutIW", "DiscreteShooting"])
@pytest.mark.parametrize("deep", [1, 3, 100])
def test_the_first_steps_are_those_of_the_true_env(name, deep, lake):
    cls, options = getattr(plangym_ext.planners, name), {"num_simulations": 40}
    if name != "MCTS":
        options["features" if name == "RolloutIW" else "rollout_depth"] = (
            (lambda obs: obs.argmax(axis=1)[:, None]) if name == "RolloutIW" else 6
        )
    state, obs, _ = lake.reset(seed=0)
    # In a model that is as the env to this depth, and as the wrong one below.
    model = LatentModel(exact_network(WRONG))
    mixed = ModelPlanner(planner=cls(**options), model=model, true_steps=deep)
    true = ModelPlanner(planner=cls(**options), model=LatentModel(exact_network(TABLE)))
    told = [p.plan(lake, state, rng=0, obs=obs) for p in (mixed, true)]
    if deep == 100:
        np.testing.assert_array_equal(told[0].q, told[1].q)
        np.testing.assert_array_equal(told[0].visits, told[1].visits)
    # Row by row: a sequence of actions comes to where env and model lead, one after the other.
    inner = mixed._mixed
    rows = inner.states_of(np.repeat(state[None], 50, 0))
    actions = np.random.default_rng(0).integers(4, size=(50, 5))
    out = inner.rollout_batch(actions, rows)
    for i, played in enumerate(actions):
        cell, rewards, over = 0, [], False
        for t, action in enumerate(played):
            cell, reward, over = (TABLE if t < deep else WRONG)[cell][action]
            rewards.append(reward)
            if over:
                break
        assert out.steps[i] == len(rewards)
        assert out.rewards[i].tolist() == rewards + [0.0] * (5 - len(rewards))
        assert out.terminateds[i] == over
        if not over:
            assert out.obs[i].argmax() == cell


def test_true_steps_are_not_corrected():
    search, model = planner_in(TABLE)
    with pytest.raises(InvalidOption, match="true_steps must be 0 with correct"):
        ModelPlanner(planner=search, model=model, true_steps=2, correct=True)


@pytest.mark.parametrize("kind", [None, np.int8, np.int32, np.int64])
def test_corrections_are_found_whatever_the_dtype_of_their_actions(kind):
    model = LatentModel(exact_network(TABLE))
    states = model.states_of(np.array([0, 1]))
    actions = [1, 2] if kind is None else np.array([1, 2], kind)
    model.correct(states, actions, states, np.array([5.0, 6.0]))
    found = model.step_batch(np.array([1, 2]), states)
    assert found.rewards.tolist() == [5.0, 6.0]
    np.testing.assert_array_equal(found.states, states)


def test_a_clone_draws_and_learns_by_itself():
    starts = np.arange(16)
    model, alone = (LatentModel(exact_network(TABLE), starts=starts) for _ in range(2))
    for one in (model, alone):
        one.reset(seed=3)
    other = model.clone()
    for _ in range(5):
        other.reset()
    states = model.states_of(np.array([0]))
    other.correct(states, np.array([1]), states, np.array([9.0]))
    assert model.step_batch(np.array([1]), states).rewards[0] != 9.0
    model.correct(states, np.array([1]), states, np.array([8.0]))
    model.forget_corrections()
    assert other.step_batch(np.array([1]), states).rewards[0] == 9.0
    starts[:] = 0  # the caller's own array
    for _ in range(5):
        np.testing.assert_array_equal(model.reset()[0], alone.reset()[0])
