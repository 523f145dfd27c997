"""Rollout-IW, IW(1) and their features."""

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.errors import InvalidAnswer, InvalidOption, UnknownName
from plangym_ext.planners import IW, RolloutIW, base
from plangym_ext.planners.novelty.features import (
    FEATURES,
    TOLD_APART,
    byte_features,
    default_features,
    number_features,
    tile_features,
    whole_features,
)
from plangym_ext.planners.novelty.novelty import (
    NEVER,
    STOPPED,
    Walks,
    best_returns,
    draw_below,
    drawn_action,
    new_novelty,
    see,
    walk_down,
)
from plangym_ext.planners.trees.tree import OPEN, ROOT, UNVISITED, allocate, new_tree

WALKS = Walks(10, -np.inf, 0.0, 0.0, False)


def both(kernel):
    return pytest.mark.parametrize("run", [kernel, kernel.py_func], ids=["jit", "python"])


@pytest.fixture
def tree():
    return new_tree(1, 4, 2)


@both(see)
def test_a_feature_is_new_at_its_least_depth(run, tree):
    novelty = new_novelty(1, 4, 2)
    novelty.features[0] = [[3, 4], [4, -1], [4, 5], [2**20 + 3, 4]]
    novelty.depth[0] = [1, 1, 2, 0]
    assert run(tree, novelty, 0, 0, 0)
    assert not run(tree, novelty, 0, 1, 0)
    # Its own earlier visit does not make a node old.
    assert run(tree, novelty, 0, 1, 1)
    # Depth 2: 4 is old, 5 is new.
    assert run(tree, novelty, 0, 2, 0)
    assert not run(tree, novelty, 0, 2, 0)
    # Told apart by the last 20 bits: it is feature 3, now at depth 0.
    assert run(tree, novelty, 0, 3, 0)
    assert list(novelty.table[0, [3, 4, 5, 6]]) == [0, 0, 2, NEVER]


@both(walk_down)
@pytest.mark.parametrize("met", [False, True])
def test_a_kept_node_that_this_search_has_not_met_is_judged_like_a_new_one(run, tree, met):
    # Two children of the root at depth 1 show the same. Of the second one, the table says
    # that it is new no more, unless it was the second one itself that wrote that.
    novelty = new_novelty(1, 4, 1)
    novelty.features[0, :3, 0] = [3, 4, 4]
    for action in (0, 1):
        node = allocate(tree, 0, ROOT, action)
        tree.kind[0, node], novelty.depth[0, node] = OPEN, 1
    for node in (ROOT, 1):
        assert see(tree, novelty, 0, node, 0)
    novelty.met[0, 2], novelty.solved[0, 1] = met, True
    found = run(tree, novelty, WALKS, 0, ROOT, 0.0, np.zeros((1, 4)))
    # It goes on below node 2, or node 2 and with it the root are solved.
    assert found == (3 if met else STOPPED)
    assert novelty.solved[0, :3].tolist() == [not met, True, not met]
    assert novelty.met[0, :3].tolist() == [True, True, True]


@both(walk_down)
def test_a_node_that_has_become_old_is_solved_and_its_rewards_count(run, tree):
    # Node 1 at depth 1 was new; its child, node 2, earned 3. Then the same feature was seen
    # at depth 0, so a walk that comes by node 1 again ends there.
    novelty = new_novelty(1, 4, 1)
    novelty.features[0, :3, 0] = [3, 4, 5]
    for parent, depth in ((ROOT, 1), (1, 2)):
        node = allocate(tree, 0, parent, 0)
        tree.kind[0, node], novelty.depth[0, node] = OPEN, depth
        assert see(tree, novelty, 0, node, 0)
    tree.legal[0, :, 1] = False
    tree.reward[0, 2] = 3.0
    # The tie with its own earlier visit does not end it: it goes on to a child of node 2.
    assert run(tree, novelty, WALKS, 0, ROOT, 0.0, np.zeros((1, 4))) == 3
    novelty.table[0, 4] = 0
    tree.kind[0, 3] = OPEN
    assert run(tree, novelty, WALKS, 0, ROOT, 0.0, np.zeros((1, 4))) == STOPPED
    # Node 1 is solved, and with it the root, whose only action leads there.
    assert novelty.solved[0].tolist() == [True, True, False, False]
    returns, counts = np.zeros((1, 4)), np.zeros((1, 4), np.int64)
    best_returns(tree, np.zeros((1, 4)), 0.5, 1.0, returns, counts)
    # 3 at the second step, discounted once: 0 + 0.5 * 3.
    np.testing.assert_array_equal(returns[0], [1.5, 1.5, 3.0, 0.0])


@both(draw_below)
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_draws_are_even(run):
    novelty = new_novelty(1, 1, 1)
    novelty.chance[0] = 12345
    drawn = np.bincount([run(novelty, 0, 3) for _ in range(3000)], minlength=3)
    # Four standard deviations of a count.
    assert (abs(drawn - 1000) < 4 * np.sqrt(3000 * 2 / 9)).all()


def test_features_by_hand():
    assert byte_features(np.uint8([[7, 1]])).tolist() == [[7, 257]]
    assert default_features(np.uint8([[7, 1]])).tolist() == [[7, 257]]
    screen = np.zeros((2, 30, 20), np.uint8)
    screen[1, 0, 19] = 9
    # Four tiles; the second screen's top right one has two colours.
    assert tile_features(screen).tolist() == [[0, 256, 512, 768, -1], [0, 256, 265, 512, 768]]
    rgb = np.zeros((1, 15, 10, 3), np.uint8)
    rgb[0, 0, 0] = 255, 32, 64
    # 111 001 01.
    assert default_features(rgb).tolist() == [[0, 0b11100101]]
    near = number_features(np.array([[0.1, -0.1], [0.2, 0.3]]))
    assert (near[0] == near[1]).tolist() == [True, False]


@pytest.mark.parametrize("cls", [RolloutIW, IW])
def test_a_long_path_is_walked_to_its_end(models, cls):
    # 12 cells of which every one is new: random rollouts do not get there.
    model = models.narrow_path(12)
    plan = cls(60).plan(model, model.state(0), rng=0, obs=np.zeros(1, np.float32))
    assert plan.action == 1
    assert plan.q[1] == pytest.approx(0.99**11)
    # Once all there is has been seen, the search ends: 12 cells of three actions. The
    # ways off the path are all one state, of which the first one is new.
    assert plan.budget.model_steps == model.model_steps == 36
    assert plan.visits.sum() == 36


@pytest.mark.parametrize("cls", [RolloutIW, IW])
def test_what_shows_nothing_new_is_not_gone_into(models, cls):
    # States 1 and 2 look alike, and only 2 leads to the reward.
    model = models.TableModel(
        [[1, 2], [1, 1], [3, 3], [3, 3]], [[0, 0], [0, 0], [5, 5], [0, 0]], terminated=[3]
    )
    alike = lambda obs: np.minimum(obs, 1)[:, :1].astype(int)  # noqa: E731
    found = set()
    for seed in range(10):
        planner = cls(50, features=alike)
        plan = planner.plan(model, model.state(0), rng=seed, obs=np.zeros(1, np.float32))
        found.add(round(plan.value, 6))
    # Whichever is seen first is gone into.
    assert found == {0.0, 4.95}


@pytest.mark.parametrize("cls", [RolloutIW, IW])
@pytest.mark.parametrize("options", [{"keep_tree": False}, {}, {"count_bonus": 0.3}])
def test_rows_planned_together_equal_rows_planned_alone(models, cls, options):
    model = models.random_mdp(3)
    planner = cls(20, **options)
    at = [0, 5, 9]
    alone = [cls(20, **options) for _ in at]
    for move in range(3):
        states = np.stack([model.state(i) for i in at])
        obs = np.array(at, np.float32)[:, None]
        rngs = [np.random.default_rng([move, i]) for i in range(len(at))]
        plans = planner.plan_batch(model, states, rngs=rngs, obs=obs)
        for i, plan in enumerate(plans):
            rng = np.random.default_rng([move, i])
            other = alone[i].plan(model, states[i], rng=rng, obs=obs[i])
            np.testing.assert_array_equal(plan.visits, other.visits)
            np.testing.assert_array_equal(plan.q, other.q)
            assert plan.budget.model_steps == other.budget.model_steps
            # Action 0 never ends an episode here.
        at = [int(model.successor[i, 0]) for i in at]


@pytest.mark.parametrize("cls", [RolloutIW, IW])
def test_a_kept_branch_costs_no_steps(models, cls):
    model = models.chain(50)
    planner = cls(5)
    first = planner.plan(model, model.state(0), rng=0, obs=np.zeros(1, np.float32))
    second = planner.plan(model, model.state(1), rng=1, obs=np.ones(1, np.float32))
    assert (first.visits[0], second.visits[0]) == (5, 4 + 5)
    assert model.model_steps == 10


@pytest.mark.parametrize("cls", [RolloutIW, IW])
@pytest.mark.parametrize("most", [1, 7, 20])
def test_steps_are_never_exceeded(models, cls, most):
    model = models.random_mdp(3, states=400)
    plan = cls(max_model_steps=most).plan(model, model.state(0), rng=0, obs=np.zeros(1))
    assert plan.budget.model_steps == model.model_steps == most


@pytest.mark.parametrize("cls", [RolloutIW, IW])
@pytest.mark.parametrize("most", [1, 4])
def test_nothing_lies_below_the_greatest_depth(models, cls, most):
    model = models.chain(50)
    plan = cls(40, max_depth=most, return_tree=True).plan(
        model, model.state(0), rng=0, obs=np.zeros(1, np.float32)
    )
    depth = np.zeros(len(plan.tree.parent), int)
    for node, parent in enumerate(plan.tree.parent[1:], start=1):
        depth[node] = depth[parent] + 1
    assert depth.max() == most


@pytest.mark.parametrize("greed", [0.0, 0.8])
def test_below_a_step_that_earns_too_little_nothing_is_looked_for(models, greed):
    # Action 1 costs 10 and leads to a chain that pays 1 a step; action 0 goes on for nothing.
    ways = [[1, 5], [2, 5], [3, 5], [4, 5], [4, 5], [6, 6], [7, 7], [7, 7]]
    pays = [[0.0, -10.0]] * 5 + [[1.0, 1.0]] * 3
    model = models.TableModel(ways, pays)

    def steps_beyond(ends_below, at=0):
        planner = RolloutIW(
            40,
            features="whole",
            greed=greed,
            max_depth=6,
            ends_below=ends_below,
            discount=1.0,
            return_tree=True,
        )
        plan = planner.plan(model, model.state(at), rng=0, obs=np.full(1, at, np.float32))
        below = plan.tree.parent[1:]
        return plan, int((plan.tree.reward[below] == -10.0).sum())

    plan, beyond = steps_beyond(None)
    assert beyond > 0
    plan, beyond = steps_beyond(-10.0)  # less than this: -10 is not
    assert beyond > 0
    plan, beyond = steps_beyond(-9.0)
    assert beyond == 0
    # The loss itself counts.
    assert plan.action == 0
    assert plan.q[1] == -10.0


def test_a_game_goes_on_after_a_loss(models):
    # The root is the node that was lost at: kept from the last move, it is not an end.
    model = models.TableModel([[1, 1], [2, 2], [3, 3], [3, 3]], [[-10.0, -10.0]] + [[1.0, 1.0]] * 3)
    planner = RolloutIW(20, features="whole", ends_below=-1.0, wave_size=1)
    planner.plan(model, model.state(0), rng=0, obs=np.zeros(1, np.float32))
    plan = planner.plan(model, model.state(1), rng=1, obs=np.ones(1, np.float32))
    assert plan.value > 1.0


def test_greedy_walks_make_the_best_branch_longer(models):
    # Action 0 pays 1 and goes on; action 1 ends it.
    ways = [[i + 1, 60] for i in range(60)] + [[60, 60]]
    model = models.TableModel(ways, [[1.0, 0.0]] * 60 + [[0.0, 0.0]], terminated=[60])
    for seed in range(5):
        found = [
            RolloutIW(30, greed=greed, wave_size=1, discount=1.0)
            .plan(model, model.state(0), rng=seed, obs=np.zeros(1, np.float32))
            .value
            for greed in (0.0, 0.9)
        ]
        assert found[0] < found[1] <= 30
    with pytest.raises(InvalidOption, match=r"greed must be .* \[0.0, 1.0\]; got 2"):
        RolloutIW(greed=2)


@both(walk_down)
def test_a_persistent_walk_goes_straight_on(run):
    # Below a first step by action 1 all is new, and a walk that repeats each action stays with it.
    tree, novelty = new_tree(1, 8, 2), new_novelty(1, 8, 1)
    novelty.features[0, :, 0] = range(8)
    assert see(tree, novelty, 0, ROOT, 0)
    node = allocate(tree, 0, ROOT, 1)
    novelty.depth[0, node] = 1
    for _ in range(6):
        tree.kind[0, node] = OPEN
        assert see(tree, novelty, 0, node, 0)
        node = run(tree, novelty, WALKS, 0, node, 1.0, np.zeros((1, 8)))
        assert tree.action[0, node] == 1
    # Where that leads nowhere another one is drawn.
    tree.legal[0, 1, 1] = False
    tree.children[0, 1, 1] = UNVISITED
    tree.size[0] = 7
    found = run(tree, novelty, WALKS, 0, 1, 1.0, np.zeros((1, 8)))
    assert tree.action[0, found] == 0


def test_some_walks_go_far_if_they_may_be_persistent(models):
    # A line of 81 places, from the middle on; what is seen is the step, so that all is new.
    ways = [[max(i - 1, 0), min(i + 1, 80)] for i in range(81)]
    model = models.TableModel(ways, np.zeros((81, 2)))

    def farthest(persistence, seed):
        reached = []

        def features(obs):
            reached.extend(obs[:, 0].tolist())
            return np.arange(len(reached) - len(obs), len(reached))[:, None]

        planner = RolloutIW(60, persistence=persistence, max_depth=20, features=features)
        planner.plan(model, model.state(40), rng=seed, obs=np.full(1, 40, np.float32))
        return max(abs(place - 40) for place in reached)

    without, along = (np.mean([farthest(p, seed) for seed in range(10)]) for p in (0.0, 1.0))
    assert along > without + 2
    with pytest.raises(InvalidOption, match=r"persistence must be .* \[0.0, 1.0\]; got 2"):
        RolloutIW(persistence=2)


def test_what_comes_to_the_same_is_known_by_its_whole():
    seen = np.array([[0, 1], [1, 0], [0, 1]], np.uint8)
    first, second, third = whole_features(seen).tolist()
    assert first == third != second
    assert whole_features(seen[:0]).shape == (0, 1)


def test_losses_weigh_by_risk_aversion(models):
    # Action 0 pays -1 and then 2; action 1 pays nothing.
    model = models.TableModel([[1, 2], [2, 2], [2, 2]], [[-1.0, 0], [2, 2], [0, 0]], terminated=[2])
    for risk, action in ((1.0, 0), (10.0, 1)):
        planner = RolloutIW(30, risk_aversion=risk, discount=1.0)
        plan = planner.plan(model, model.state(0), rng=0, obs=np.zeros(1, np.float32))
        assert plan.action == action


@pytest.mark.parametrize(("looks", "steps"), [(1, 64), (2, 128), (9, 300)])
def test_a_clock_ends_breadth_first_search_within_a_layer(models, monkeypatch, looks, steps):
    # One layer of 300 children, in parts of 64; time is up at the given look.
    class Clock:
        compile_seconds = seconds = 0.0
        limited = True
        left = looks

        def __init__(self, max_seconds):
            assert max_seconds == 5.0

        @property
        def over(self):
            self.left -= 1
            return self.left == 0

    monkeypatch.setattr(base, "Clock", Clock)
    model = models.TableModel([range(1, 301), *([[0] * 300] * 300)], np.zeros((301, 300)))
    plans = []
    for most in (5.0, None):
        if most is None:
            monkeypatch.undo()
        planner = IW(300, max_seconds=most, max_depth=1)
        plans.append(planner.plan(model, model.state(0), rng=0, obs=np.zeros(1, np.float32)))
    assert plans[0].budget.model_steps == steps
    assert plans[1].budget.model_steps == 300
    # What was seen in time is what the whole layer begins with.
    seen = plans[0].visits > 0
    np.testing.assert_array_equal(plans[0].visits[seen], plans[1].visits[seen])
    assert max(model.waves[:-1]) <= 64
    assert model.waves[-1] == 300


def test_bad_features_are_named(models):
    model = models.chain(5)
    planner = RolloutIW(5, features=lambda obs: obs)
    with pytest.raises(InvalidAnswer, match=r"^RolloutIW: features must return .* \[1, F\]; got"):
        planner.plan(model, model.state(0), rng=0, obs=np.zeros(1))
    with pytest.raises(InvalidOption, match="features must be a function"):
        IW(features=3)
    with pytest.raises(UnknownName, match=r"features must be one of .*; got 'byte'.*'bytes'"):
        IW(features="byte")
    with pytest.raises(ValueError, match="needs obs"):
        IW(5).plan(model, model.state(0), rng=0)


def test_walks_follow_a_policy(models):
    # 30 cells, of which each has one way on among three: it is walked to its end at once only by
    # a policy that knows it.
    model = models.narrow_path(30, right=2)
    obs = np.zeros(1, np.float32)

    def found(action):
        rows = []

        def policy(obs):
            rows.extend(obs)
            return np.tile(np.eye(3)[action], (len(obs), 1))

        planner = RolloutIW(30, rollout_policy=policy, discount=1.0, wave_size=1)
        plan = planner.plan(model, model.state(0), rng=0, obs=obs)
        assert plan.budget.evaluator_rows == len(rows)
        return plan.value

    assert RolloutIW(30, discount=1.0).plan(model, model.state(0), rng=0, obs=obs).value == 0.0
    assert found(2) == 1.0
    assert found(0) == 0.0
    # What a policy leaves out is tried when nothing else is left.
    planner = RolloutIW(200, rollout_policy=lambda obs: np.tile([1.0, 0, 0], (len(obs), 1)))
    assert planner.plan(model, model.state(0), rng=0, obs=obs).value > 0


@both(drawn_action)
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_actions_are_drawn_by_the_prior_of_those_that_lead_on(run):
    tree, novelty = new_tree(1, 4, 4), new_novelty(1, 4, 1)
    novelty.chance[0] = 12345
    tree.prior[0, ROOT] = [0.2, 0.5, 0.0, 0.3]
    # The second one is solved: it is 0.2 against 0.3.
    novelty.solved[0, allocate(tree, 0, ROOT, 1)] = True
    drawn = np.bincount([run(tree, novelty, 0, ROOT, True) for _ in range(3000)], minlength=4)
    assert drawn[[1, 2]].tolist() == [0, 0]
    # Four standard deviations of a count.
    assert abs(drawn[0] - 1200) < 4 * np.sqrt(3000 * 0.4 * 0.6)
    drawn = np.bincount([run(tree, novelty, 0, ROOT, False) for _ in range(3000)], minlength=4)
    assert drawn[1] == 0
    assert (abs(drawn[[0, 2, 3]] - 1000) < 4 * np.sqrt(3000 * 2 / 9)).all()


def test_a_plan_says_what_a_policy_is_taught(models):
    model = models.bandit([1.0, 3.0, 2.0])

    def weights(cls=RolloutIW, **options):
        plan = cls(20, **options).plan(model, model.state(0), rng=0, obs=np.zeros(1))
        assert plan.action == 1
        return plan.weights

    assert weights().tolist() == [0.0, 1.0, 0.0]
    expected = np.exp([1.0 / 2, 3.0 / 2, 2.0 / 2])
    for cls in (RolloutIW, IW):
        np.testing.assert_allclose(weights(cls, temperature=2.0), expected / expected.sum())
    # Where an action was not tried, nothing is known of it.
    plan = RolloutIW(2, temperature=1.0, wave_size=1).plan(
        model, model.state(0), rng=0, obs=np.zeros(1)
    )
    assert (plan.weights > 0).tolist() == (~np.isnan(plan.q)).tolist()
    assert plan.weights.sum() == pytest.approx(1.0)


def test_bad_policies_are_named(models):
    model = models.bandit([1.0, 3.0])
    planner = RolloutIW(5, rollout_policy=lambda obs: np.ones((len(obs), 2)))
    with pytest.raises(InvalidAnswer, match=r"RolloutIW: rollout_policy: prior must be prob"):
        planner.plan(model, model.state(0), rng=0, obs=np.zeros(1))
    with pytest.raises(InvalidOption, match="rollout_policy must be a function"):
        RolloutIW(rollout_policy=3)


@pytest.mark.parametrize("features", ["numbers", "bytes"])
@pytest.mark.parametrize("places", [16, 17, 40, 5000])
def test_places_far_apart_have_features_of_their_own(features, places):
    kind = np.float32 if features == "numbers" else np.uint8
    found = FEATURES[features](np.eye(places, dtype=kind)) % TOLD_APART
    # Of each row the place of its one is what no other row has.
    assert len(np.unique(np.diagonal(found))) >= places - places // 200
    if places <= 40:
        assert len(np.unique(found)) == 2 * places


@pytest.mark.parametrize("cls", [RolloutIW, IW])
@pytest.mark.parametrize("length", [17, 40])
def test_a_corridor_that_is_seen_in_one_of_many_places_is_walked_to_its_end(models, cls, length):
    model = models.narrow_path(length)
    batch, cells = model._batch, np.eye(length + 2, dtype=np.float32)
    model._batch = lambda index, reward: batch(index, reward)._replace(obs=cells[index])
    planner = cls(500, features="numbers", discount=1.0, max_depth=60)
    assert planner.plan(model, model.state(0), rng=0, obs=cells[0]).value == 1.0


@pytest.mark.parametrize("options", [{}, {"count_bonus": 0.1}, {"keep_tree": False}])
@pytest.mark.parametrize("cls", [IW, RolloutIW])
def test_kept_nodes_have_their_features_where_later_states_have_more(models, cls, options):
    # State i shows 1 + i features, so that tables grow in every search, with values never seen.
    model = models.chain(200)
    features = np.full((201, 201), -1)
    for i in range(201):
        features[i, : 1 + i] = 201 * i + np.arange(1 + i)

    def plans(width):
        def told(obs):
            of = obs[:, 0].astype(int)
            return features[of, : 1 + of.max() if width is None else width]

        also = {"counted": told} if "count_bonus" in options else {}
        planner = cls(20, features=told, **options, **also)
        return [
            planner.plan(model, model.state(i), rng=i, obs=np.full(1, i, np.float32))
            for i in range(6)
        ]

    # The same in tables that are as wide as any from the beginning.
    for found, right in zip(plans(None), plans(201), strict=True):
        assert found.budget.model_steps == right.budget.model_steps > 0
        np.testing.assert_array_equal(found.q, right.q)
        np.testing.assert_array_equal(found.visits, right.visits)
