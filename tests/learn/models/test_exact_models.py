"""A model that is exactly right: every planner returns the plans of the true env."""

from __future__ import annotations

import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import ForeignState, InvalidOption, ResetNeeded
from plangym_ext.learn import (
    LatentModel,
    ModelEnv,
    ModelPlanner,
    NetworkEvaluator,
    OfLatents,
    model_planner,
)
from plangym_ext.planners import MCTS, PLANNERS, load_planner, options_of
from tests.tabular_models import exact_network, table_of

TABLE = table_of("FrozenLake-v1", is_slippery=False)
VALUE = np.linspace(-0.5, 0.75, 16)
#: Planners of continuous actions, and one whose walkers measure distances between observations,
#: which are numbers there and latents here.
OTHERS = {"random-shooting", "predictive-sampling", "cem", "icem", "mppi", "dial", "fractal"}


@pytest.fixture(scope="module")
def lake():
    with plangym_ext.make("FrozenLake-v1", is_slippery=False) as env:
        yield env


def same(mine, theirs):
    parts = ("action", "value", "visits", "q", "weights")
    return all(
        np.array_equal(*(np.array(getattr(p, n), float) for p in (mine, theirs)), True)
        for n in parts
    )


def test_the_list_of_other_planners_is_short():
    assert set(PLANNERS) > OTHERS
    assert len(PLANNERS) - len(OTHERS) >= 15


@pytest.mark.parametrize("name", sorted(set(PLANNERS) - OTHERS))
def test_plans_are_those_of_the_true_env(name, lake):
    cls = load_planner(name)
    options = {"num_simulations": 24}
    # Rows of the true env also count the steps of its limit.
    if any(option.name == "state_key" for option in options_of(cls)):
        options["state_key"] = "obs"
    state, obs, _ = lake.reset(seed=0)
    for action in (None, 2, 2):  # from the first state, and from later ones
        if action is not None:
            state, obs, *_ = lake.step(action, return_state=True)
        true = cls(**options).plan(lake, state, rng=3, obs=obs)
        model = LatentModel(exact_network(TABLE))
        learned = ModelPlanner(planner=cls(**options), model=model)
        found = learned.plan(lake, state, rng=3, obs=obs)
        assert same(found, true), (found, true)
        assert found.budget.model_steps == true.budget.model_steps > 0


@pytest.mark.parametrize(
    "options",
    [{}, {"selection": "gumbel"}, {"waves_in_flight": 2}, {"slots": True}, {"keep_tree": True}],
)
def test_plans_with_values_are_those_of_the_true_env(options, lake):
    network = exact_network(TABLE, VALUE)

    def of_numbers(obs):
        return np.full((len(obs), 4), 0.25, np.float32), np.float32(VALUE)[obs]

    state, obs, _ = lake.reset(seed=0)
    states, seen = np.repeat(state[None], 5, 0), np.repeat(obs, 5)
    true = MCTS(30, evaluator=of_numbers, **options)
    learned = model_planner(network, lambda asked: MCTS(30, evaluator=asked, **options))
    for move in range(2):
        told = [
            p.plan_batch(
                lake, states, rngs=[np.random.default_rng(9 + i) for i in range(5)], obs=seen
            )
            for p in (true, learned)
        ]
        assert all(map(same, *told)), (move, told)
        steps = lake.step_batch(np.array([plan.action for plan in told[0]]), states)
        states, seen = steps.states, steps.obs


def test_rows_of_a_model_are_those_of_the_table():
    model = LatentModel(exact_network(TABLE))
    at = np.arange(16).repeat(4)
    actions = np.tile(np.arange(4), 16)
    found = model.step_batch(actions, model.states_of(at))
    rows = [TABLE[state][action] for state, action in zip(at, actions, strict=True)]
    following, rewards, over = map(np.array, zip(*rows, strict=True))
    np.testing.assert_array_equal(found.obs, np.eye(16, dtype=np.float32)[following])
    np.testing.assert_array_equal(found.rewards, rewards)
    np.testing.assert_array_equal(found.terminateds, over)
    assert not found.truncateds.any()
    assert model.exact
    # What a model of one's own remembers beside its states is not seen.
    assert ModelEnv.exactness.exact is None
    # By itself a row is what it is among others: these numbers have no last bits to differ in.
    assert "last bits" in model.exactness.notes[0]
    for i in (0, 7, 63):
        state = model.states_of(at[i : i + 1])
        before = state.copy()
        one = model.step_batch(actions[i : i + 1], state)
        np.testing.assert_array_equal(state, before)
        np.testing.assert_array_equal(one.states[0], found.states[i])


def test_a_sequence_stops_at_an_ending():
    model = LatentModel(exact_network(TABLE))
    # Right, right, down, down: row 1 falls into a hole at once.
    actions = np.array([[2, 2, 1, 1], [1, 2, 1, 1]])
    found = model.rollout_batch(actions, model.states_of(np.array([0, 0])))
    state, rewards = [0, 0], np.zeros((2, 4))
    steps = np.zeros(2, int)
    for row in range(2):
        for h, action in enumerate(actions[row]):
            state[row], rewards[row, h], over = TABLE[state[row]][action]
            steps[row] += 1
            if over:
                break
    np.testing.assert_array_equal(found.obs.argmax(1), state)
    np.testing.assert_array_equal(found.rewards, rewards)
    np.testing.assert_array_equal(found.steps, steps)
    assert steps[1] < 4
    held = model.step_batch(np.array([2]), model.states_of(np.array([0])), dt=2)
    assert held.obs.argmax() == 2
    assert held.infos["n_step"].tolist() == [2]


def test_a_model_is_played_from_its_starts():
    model = LatentModel(exact_network(TABLE), starts=np.array([4, 8]))
    state, obs, _ = model.reset(seed=1)
    assert obs.argmax() in (4, 8)
    np.testing.assert_array_equal(model.get_state(), state)
    # Without states, row i goes on by itself.
    model.set_state(model.states_of(np.array([0]))[0])
    assert model.step_batch(np.array([2, 1])).obs.argmax(1).tolist() == [1, 4]
    assert model.step_batch(np.array([2, 1])).obs.argmax(1).tolist() == [2, 8]
    assert model.step(2).obs.argmax() == 1
    assert model.step(2).obs.argmax() == 2
    other = model.clone()
    with pytest.raises(ResetNeeded):
        other.get_state()
    with pytest.raises(ResetNeeded, match="starts"):
        LatentModel(exact_network(TABLE)).reset()


def test_states_of_other_envs_are_refused(lake):
    model = LatentModel(exact_network(TABLE))
    state, _, _ = lake.reset(seed=0)
    with pytest.raises(ValueError, match=r"bytes wide|another env"):
        model.step_batch(np.array([0]), state[None])
    small = LatentModel(exact_network([[(0, 0.0, False)] * 2] * 16))
    with pytest.raises(ForeignState):
        model.step_batch(np.array([0]), small.states_of(np.array([0])))
    with pytest.raises(InvalidOption, match="obs"):
        ModelPlanner(planner=MCTS(4), model=model).plan(lake, state, rng=0)


def test_an_evaluator_sees_latents():
    network = exact_network(TABLE, VALUE)
    model = LatentModel(network)
    evaluator = NetworkEvaluator(OfLatents(network))
    states = model.states_of(np.arange(16))
    prior, value = evaluator(model.obs_of(states))
    np.testing.assert_array_equal(value, VALUE.astype(np.float32))
    np.testing.assert_array_equal(prior, np.full((16, 4), 0.25))
