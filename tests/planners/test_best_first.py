"""Best-first searches: shortest ways, bounds, ways that are played to their end."""

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.errors import InvalidAnswer, InvalidOption, UnknownName
from plangym_ext.planners import PHS, BestFirst, LevinTS, play


def graph(models, seed, states=60, actions=3):
    """A random graph whose last state is a goal, and the steps to it from every state."""
    rng = np.random.default_rng(seed)
    successor = rng.integers(states, size=(states, actions))
    # A way for sure: from each state to the next, by a random action.
    successor[np.arange(states - 1), rng.integers(actions, size=states - 1)] = np.arange(1, states)
    reward = (successor == states - 1).astype(float)
    distance = np.full(states, np.inf)
    distance[-1] = 0
    for _ in range(states):
        distance[:-1] = 1 + distance[successor[:-1]].min(axis=1)
    return models.TableModel(successor, reward, terminated=[states - 1]), distance


def by_table(values):
    return lambda obs: np.asarray(values)[obs[:, 0].astype(int)]


def planned(planner, model, **options):
    obs = np.zeros(1, np.float32)
    return planner.plan(model, model.state(0), rng=0, obs=obs, **options)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("share", [0.0, 0.6, 1.0])
def test_a_star_finds_the_shortest_way(models, seed, share):
    model, distance = graph(models, seed)
    # Never too much, and not consistent: states have to be expanded again on better ways.
    told = distance * np.random.default_rng(seed).choice([share, 0.0], len(distance))
    plan = planned(BestFirst(wave_size=1, heuristic=by_table(told)), model)
    assert len(plan.actions) == distance[0]
    assert plan.value == pytest.approx(0.99 ** (distance[0] - 1))
    assert plan.budget.model_steps <= 3 * 60 * 5


@pytest.mark.parametrize("weight", [1.5, 4.0])
def test_weighted_a_star_is_at_most_so_many_times_longer(models, weight):
    fewer = 0
    for seed in range(12):
        model, distance = graph(models, seed, states=200)
        options = {"wave_size": 1, "heuristic": by_table(0.8 * distance)}
        best = planned(BestFirst(**options), model)
        plan = planned(BestFirst(**options, heuristic_weight=weight), model)
        assert len(plan.actions) <= weight * distance[0]
        fewer += plan.budget.expansions < best.budget.expansions
    assert fewer > 0


def test_greedy_search_with_true_distances_goes_straight(models):
    model, distance = graph(models, 3)
    planner = BestFirst(wave_size=1, path_weight=0.0, heuristic=by_table(distance))
    plan = planned(planner, model)
    assert len(plan.actions) == distance[0]
    assert plan.budget.model_steps == 3 * distance[0]


@pytest.mark.parametrize("seed", range(6))
def test_levin_expands_no_more_than_its_bound(models, seed):
    model, _ = graph(models, seed, states=40)
    policies = np.random.default_rng(seed).dirichlet(np.ones(3), 40)

    def policy(obs):
        return policies[obs[:, 0].astype(int)], np.zeros(len(obs))

    planner = LevinTS(wave_size=1, evaluator=policy)
    plan = planned(planner, model)
    states, likely = [0], 1.0
    for action in plan.actions:
        likely *= policies[states[-1], action]
        states.append(int(model.successor[states[-1], action]))
    assert states[-1] == 39
    assert plan.budget.model_steps / 3 <= len(plan.actions) / likely
    # The likeliest way for its length: no other walk of the table has less steps / probability.
    best, reached = np.inf, {0: 1.0}
    for steps in range(1, 200):
        after = {}
        for state, p in reached.items():
            for action in range(3):
                to = int(model.successor[state, action])
                after[to] = max(after.get(to, 0.0), p * policies[state, action])
        best = min(best, steps / after.pop(39)) if 39 in after else best
        reached = after
    assert len(plan.actions) / likely == pytest.approx(best)


def test_phs_without_a_heuristic_is_levin_and_with_one_needs_less(models):
    model, distance = graph(models, 5, states=200)
    levin, phs = planned(LevinTS(), model), planned(PHS(), model)
    assert levin.budget.model_steps == phs.budget.model_steps
    np.testing.assert_array_equal(levin.actions, phs.actions)
    options = {"wave_size": 1, "heuristic": by_table(distance)}
    assert planned(PHS(**options), model).budget.model_steps == 3 * distance[0]
    assert planned(LevinTS(wave_size=1), model).budget.model_steps > 6 * distance[0]


def test_a_way_is_played_to_its_end_without_another_search(models):
    model, distance = graph(models, 1)
    planner = BestFirst(heuristic=by_table(distance))
    played = play(model, planner, seed=0, max_steps=100)
    assert played.terminated
    assert len(played.actions) == distance[0]
    once = planned(BestFirst(heuristic=by_table(distance)), model)
    assert played.budget.model_steps == once.budget.model_steps


def test_from_a_state_that_was_not_to_come_it_searches_anew(models):
    model, distance = graph(models, 1)
    planner = BestFirst(heuristic=by_table(distance))
    first = planned(planner, model)
    on_the_way = int(model.successor[0, first.action])
    other = next(s for s in range(59) if s not in (0, on_the_way))
    steps = model.model_steps
    plan = planner.plan(model, model.state(other), rng=0, obs=np.full(1, other, np.float32))
    assert model.model_steps > steps
    assert len(plan.actions) == distance[other]


def test_without_a_goal_the_way_with_most_reward_is_begun(models):
    # Action 1 pays a little in the end; no ending pays, so there is no goal.
    model = models.narrow_path(4)
    plan = planned(BestFirst(3, goal_reward=5.0, discount=1.0), model)
    assert plan.value == 0.0
    model.reward[0, 2] = 0.25
    model.successor[0, 2], model.successor[1, 0] = 1, 1
    plan = planned(BestFirst(3, goal_reward=5.0, discount=1.0), model)
    assert plan.actions[0] == 2
    assert plan.value == 0.25


@pytest.mark.parametrize("planner", [BestFirst, LevinTS, PHS])
def test_limits_are_kept(models, planner):
    model, _ = graph(models, 2, states=400)
    plan = planned(planner(max_model_steps=20, goal_reward=9.0), model)
    assert plan.budget.model_steps == 18
    plan = planned(planner(7, goal_reward=9.0), model)
    assert plan.budget.model_steps == 21


def test_states_that_look_alike_are_one_by_what_is_seen(models):
    # States 1 and 2 are seen as 1: only one of them is expanded.
    successor = np.array([[1, 2], [3, 3], [3, 3], [0, 0]])
    model = models.TableModel(successor, np.zeros((4, 2)), truncated=[3])
    plain = model._batch

    def alike(index, reward):
        out = plain(index, reward)
        return out._replace(obs=np.minimum(out.obs, 1))

    model._batch = alike
    assert planned(BestFirst(9), model).budget.model_steps == 6
    assert planned(BestFirst(9, state_key="obs"), model).budget.model_steps == 4


def test_wrong_answers_and_options_are_named(models):
    model, _ = graph(models, 2)
    for wrong in (-1.0, np.nan):
        with pytest.raises(InvalidAnswer, match=r"BestFirst: heuristic: must return .* >= 0"):
            planned(BestFirst(heuristic=lambda obs, x=wrong: np.full(len(obs), x)), model)
    with pytest.raises(UnknownName, match="state_key must be one of state, obs"):
        LevinTS(state_key="frames")


def no_steps(obs):
    """Say that every goal is there."""
    return np.zeros(len(obs))


def test_a_heuristic_may_be_named(models):
    model, _ = graph(models, 2)
    named = planned(BestFirst(heuristic=f"{__name__}:no_steps"), model)
    given = planned(BestFirst(heuristic=no_steps), model)
    np.testing.assert_array_equal(named.actions, given.actions)
    assert named.budget.evaluator_rows == given.budget.evaluator_rows > 0
    with pytest.raises(UnknownName, match=r"expected module:function; got 'numpy'\. Name the func"):
        BestFirst(heuristic="numpy")
    with pytest.raises(UnknownName, match=r"heuristic: .*must have a function 'no_stepps'"):
        BestFirst(heuristic=f"{__name__}:no_stepps")


def test_phs_takes_steps_to_go_from_the_values_of_its_evaluator(models):
    model, distance = graph(models, 5, states=200)
    told = by_table(distance)

    def network(obs):
        return None, -told(obs)

    def network_of_half(obs):
        return None, -0.5 * told(obs)

    options = {"wave_size": 1, "value_to_go": True}
    straight = 3 * distance[0]
    assert planned(PHS(evaluator=network, **options), model).budget.model_steps == straight
    # The larger of the two counts, whichever it is.
    both = {**options, "evaluator": network_of_half, "heuristic": told}
    assert planned(PHS(**both), model).budget.model_steps == straight
    both = {**options, "evaluator": network, "heuristic": lambda obs: 0.5 * told(obs)}
    assert planned(PHS(**both), model).budget.model_steps == straight
    with pytest.raises(InvalidOption, match="value_to_go converts an evaluator's values"):
        planned(PHS(**options), model)
    # Values mean nothing unless it is said that they do.
    ignored = planned(PHS(evaluator=network, wave_size=1), model)
    assert ignored.budget.model_steps == planned(PHS(wave_size=1), model).budget.model_steps


def test_heuristics_are_not_asked_about_what_is_known_already(models):
    model, _ = graph(models, 4)
    asked = []

    def heuristic(obs):
        asked.append(len(obs))
        return np.zeros(len(obs))

    plan = planned(BestFirst(heuristic=heuristic, wave_size=1), model)
    assert sum(asked) < 0.8 * plan.budget.model_steps


@pytest.fixture
def submit(models):
    """Six cells in a row; in the last one action 2 hands in, which ends and changes nothing."""

    class Submit(models.TableModel):
        def step_batch(self, actions, states):
            out = super().step_batch(actions, states)
            return out._replace(terminateds=(self.index(states) == 5) & (actions == 2))

    cells = np.arange(6)
    successor = np.stack([np.maximum(cells - 1, 0), np.minimum(cells + 1, 5), cells], axis=1)
    reward = np.zeros((6, 3))
    reward[5, 2] = 1.0
    return Submit(successor, reward)


@pytest.mark.parametrize("planner", [BestFirst, LevinTS, PHS])
@pytest.mark.parametrize("key", ["state", "obs"])
def test_a_goal_may_look_like_the_state_before_it(submit, planner, key):
    plan = planned(planner(wave_size=1, state_key=key), submit)
    assert plan.actions.tolist() == [1, 1, 1, 1, 1, 2]
    assert plan.value == pytest.approx(0.99**5)


@pytest.mark.parametrize("planner", [BestFirst, LevinTS, PHS])
def test_a_way_is_left_where_its_next_action_is_not_allowed(models, planner):
    # Two ways to the goal: by 1 and 3, or by 2 and 3.
    successor = np.array([[1, 2], [0, 3], [3, 3], [3, 4], [4, 4]])
    model = models.TableModel(successor, (successor == 4).astype(float), terminated=[4])
    kept = planner()
    first = planned(kept, model)
    after = int(model.successor[0, first.action])
    legal = np.ones(2, bool)
    legal[first.actions[1]] = False
    state, obs = model.state(after), np.full(1, after, np.float32)
    assert legal[kept.plan(model, state, rng=0, obs=obs, legal=legal).action]


@pytest.mark.parametrize("left", [3, 1])
def test_a_way_is_left_where_there_is_less_time_than_it_takes(models, left):
    # A chain of four steps to the goal; states count what is left, which is not seen.
    def step_batch(actions, states):
        now = np.add(np.ascontiguousarray(states).view(np.int64).reshape(-1, 2), [1, -1])
        goal, cut = now[:, 0] == 4, now[:, 1] == 0
        obs = now[:, :1].astype(np.float32)
        return models.Batch(now.view(np.uint8), obs, goal * 1.0, goal, cut, {})

    model, kept = models.chain(5), BestFirst(state_key="obs")
    model.step_batch = step_batch

    def plan(at, left):
        state = np.array([at, left]).view(np.uint8)
        return kept.plan(model, state, rng=0, obs=np.full(1, at, np.float32))

    assert len(plan(0, 4).actions) == 4
    found = plan(1, left)
    assert len(found.actions) == (3 if left == 3 else 1)
    assert found.budget.model_steps == (0 if left == 3 else 1) * model.action_space.n


@pytest.mark.parametrize("planner", [BestFirst, LevinTS, PHS])
def test_nothing_has_to_be_seen_where_nothing_asks(models, planner):
    model, _ = graph(models, 0)
    plan = planner().plan(model, model.state(0), rng=0)
    np.testing.assert_array_equal(plan.actions, planned(planner(), model).actions)


def test_a_way_with_more_reward_is_kept_when_a_shorter_one_is_found(models):
    # 0 -> 1 -> 2 -> 3 pays 5, 0 -> 4 -> 3 is shorter and pays nothing, 0 -> 4 -> 5 pays 1.
    model = models.TableModel([[1, 4], [2, 2], [3, 3], [3, 3], [3, 5], [5, 5]], np.zeros((6, 2)))
    model.reward[2], model.reward[4, 1] = 5.0, 1.0
    to_go = by_table(np.array([0.0, 0.0, 0.0, 0.0, 9.0, 9.0]))
    for count in (3, 50):
        plan = planned(BestFirst(count, heuristic=to_go, wave_size=1, discount=1.0), model)
        assert plan.value == 5.0
        assert model.successor[0, plan.actions[0]] == 1


@pytest.mark.parametrize("planner", [BestFirst, LevinTS, PHS])
def test_where_nothing_new_can_be_reached_the_best_step_is_played(models, planner):
    # One action ends the episode, two stay, of which one costs less.
    model = models.TableModel([[1, 0, 0], [1, 1, 1]], [[0.0, -2.0, -1.0], [0.0] * 3], [1])
    for seed in range(20):
        plan = planner(50).plan(model, model.state(0), rng=seed, obs=np.zeros(1, np.float32))
        assert (plan.action, plan.value) == (2, -1.0)
