"""Steps in compiled code, where the evaluator is not: the plans are those of the batches."""

from __future__ import annotations

import numpy as np
import pytest
from compiled_moves import assert_equal_moves
from counting_env import counting

import plangym_ext
from plangym_ext.errors import DamagedState, InvalidObservation
from plangym_ext.planners import MCTS, STS, RolloutIW
from plangym_ext.planners.lockstep.node_states import ArrayStates
from plangym_ext.planners.lockstep.simulated_states import SimulatedStates

pytestmark = pytest.mark.slow  # loops are compiled, or loaded


def guess(num_actions):
    """Priors and values that differ from one observation to the next."""

    def evaluate(obs):
        rows = np.asarray(obs, np.float64).reshape(len(obs), -1)
        numbers = np.arange(rows.shape[1] * num_actions).reshape(-1, num_actions)
        hidden = np.sin(rows @ np.cos(numbers))
        prior = np.exp(hidden)
        return prior / prior.sum(axis=1, keepdims=True), np.tanh(hidden.sum(axis=1))

    return evaluate


def is_stepped(planner):
    return type(planner._kept.search.states) is SimulatedStates


@pytest.mark.parametrize(
    ("name", "actions", "make"),
    [
        ("CartPole-v1", 2, {}),
        ("CartPole-v1", 2, {"frameskip": 3, "max_episode_steps": 7}),
        ("Taxi-v4", 6, {}),  # numbers are seen, and some actions are not allowed
        ("plangym_ext/Sokoban-v0", 4, {"dim": (6, 6), "num_boxes": 1}),
        ("plangym_ext/TicTacToe-v0", 9, {}),  # two players
    ],
)
@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (MCTS, {"num_simulations": 40}),
        (MCTS, {"num_simulations": 30, "wave_size": 3, "keep_tree": True, "capacity": 50}),
        (STS, {"num_simulations": 8, "num_expansions": 2}),
    ],
)
def test_plans_are_those_of_the_batches(name, actions, make, cls, options):
    asked = {"evaluator": guess(actions), "compiled_as": is_stepped, "make": make}
    assert_equal_moves(name, cls, **options, **asked)


def test_rows_planned_together_are_those_planned_alone():
    with plangym_ext.make("CartPole-v1") as env:
        found = [env.reset(seed=seed) for seed in range(5)]
        states, obs = (np.stack([row[k] for row in found]) for k in (0, 1))
        planner = MCTS(50, evaluator=guess(2))
        plans = planner.plan_batch(env, states, rngs=np.random.default_rng(0).spawn(5), obs=obs)
        for b, rng in enumerate(np.random.default_rng(0).spawn(5)):
            alone = MCTS(50, evaluator=guess(2)).plan(env, states[b], rng=rng, obs=obs[b])
            assert alone.q.tobytes() == plans[b].q.tobytes()


def test_no_batch_is_stepped_and_observations_are_the_evaluators_own(monkeypatch):
    kept = []

    def evaluate(obs):
        kept.append((obs, obs.copy()))
        return guess(2)(obs)

    with plangym_ext.make("CartPole-v1") as env:
        state, obs, _ = env.reset(seed=0)
        MCTS(8, evaluator=evaluate).plan(env, state, rng=0, obs=obs)
        monkeypatch.setattr(env, "step_batch", None)
        MCTS(60, evaluator=evaluate).plan(env, state, rng=0, obs=obs)
    assert len(kept) > 6
    for seen, copied in kept:
        np.testing.assert_array_equal(seen, copied)


@pytest.mark.parametrize(
    "options",
    [
        {"compiled": False},
        {"rollout_depth": 4},  # steps on from copies of the leaves
        {"waves_in_flight": 2},
    ],
)
def test_other_searches_step_batches(options):
    planner = MCTS(20, evaluator=guess(2), **options)
    with plangym_ext.make("CartPole-v1") as env:
        state, obs, _ = env.reset(seed=0)
        planner.plan(env, state, rng=0, obs=obs)
        assert type(planner._kept.search.states) is ArrayStates


def test_searches_without_the_option_are_stepped_too():
    plans = []
    for backend in ("kernel", "serial"):
        planner = RolloutIW(60, features="bytes")
        with plangym_ext.make("CartPole-v1", backend=backend) as env:
            state, obs, _ = env.reset(seed=0)
            plans.append(planner.plan(env, state, rng=0, obs=obs))
            states = planner._kept.search.states
            assert isinstance(states, SimulatedStates) == (backend == "kernel")
    assert plans[0].q.tobytes() == plans[1].q.tobytes()
    assert plans[0].visits.tobytes() == plans[1].visits.tobytes()


def test_damaged_and_foreign_roots_are_refused_in_the_words_of_batches():
    planner = MCTS(8, evaluator=guess(2))
    with plangym_ext.make("CartPole-v1") as env:
        state, obs, _ = env.reset(seed=0)
        planner.plan(env, state, rng=0, obs=obs)
        damaged = state.copy()
        damaged[-1] ^= 1
        for _ in range(2):  # in a new search, and in one that is kept
            with pytest.raises(DamagedState) as found:
                planner.plan(env, damaged, rng=0, obs=obs)
            with pytest.raises(DamagedState) as expected:
                env.step_batch(np.zeros(1, np.int64), states=damaged[None])
            assert str(found.value) == str(expected.value)


def test_what_is_no_number_is_left_to_the_batches():
    def evaluate(obs):
        return None, np.zeros(len(obs))

    errors = {"no reward": (ValueError, "reward"), "no obs": (InvalidObservation, "Counting")}
    for broken, (error, message) in errors.items():
        with counting(broken) as env:
            state, obs, _ = env.reset(seed=0)
            with pytest.raises(error, match=message):
                MCTS(30, evaluator=evaluate).plan(env, state, rng=0, obs=obs)
    plans = []
    with counting("infinite obs") as env:
        state, obs, _ = env.reset(seed=0)
        for compiled in (True, False):
            planner = MCTS(30, evaluator=evaluate, compiled=compiled)
            plans.append(planner.plan(env, state, rng=0, obs=obs))
    assert plans[0].visits.tobytes() == plans[1].visits.tobytes()
    assert plans[0].q.tobytes() == plans[1].q.tobytes()
    assert plans[0].budget.model_steps == plans[1].budget.model_steps


def test_a_model_that_does_not_say_what_is_seen_is_stepped_in_batches():
    class Model:
        def __init__(self, env):
            self.action_space, self.step_batch = env.action_space, env.step_batch
            self.simulator = env.simulator

    with plangym_ext.make("CartPole-v1") as env:
        state, obs, _ = env.reset(seed=0)
        planner = MCTS(20, evaluator=guess(2))
        plan = planner.plan(Model(env), state, rng=0, obs=obs)
        assert type(planner._kept.search.states) is ArrayStates
        same = MCTS(20, evaluator=guess(2)).plan(env, state, rng=0, obs=obs)
    assert plan.q.tobytes() == same.q.tobytes()
