"""Whole simulations in compiled code are those of the batches, bit for bit."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from compiled_moves import assert_equal_moves
from counting_env import counting

import plangym_ext
from plangym_ext.errors import DamagedState, EnvClosed, InvalidObservation, InvalidOption
from plangym_ext.native.compiled import SharingThreads
from plangym_ext.planners import MCTS, STS, OpenLoopMCTS
from plangym_ext.planners.compiled import search
from plangym_ext.planners.evaluators import from_code, from_value

pytestmark = pytest.mark.slow  # loops are compiled, or loaded


def upright(obs):
    return 1.0 - abs(obs[2])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"wave_size": 1, "selection": "uct"},
        {"selection": "gumbel", "root_noise": 0.2},
        {"rollout_depth": 0, "keep_tree": True},
        {"num_rollouts": 3, "keep_tree": True, "value_scale": "siblings"},
        {"num_simulations": None, "max_model_steps": 300, "temperature": 1.0},
        {"capacity": 12},
        {"evaluator": from_code(upright), "rollout_depth": 0},
        {"evaluator": from_code(upright), "rollout_depth": 5, "num_rollouts": 2},
    ],
    ids=lambda options: "-".join(options) or "default",
)
def test_mcts_on_cartpole(options):
    assert_equal_moves("CartPole-v1", MCTS, **{"num_simulations": 40, **options})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rollout_depth": 0, "intermediate_backups": True, "keep_tree": True},
        {"num_expansions": 1, "wave_size": 1},
        {"num_expansions": 3, "intermediate_backups": True, "num_rollouts": 2},
        {"capacity": 30},
        {"num_simulations": None, "max_model_steps": 900},
        {"evaluator": from_code(upright)},
    ],
    ids=lambda options: "-".join(options) or "default",
)
def test_sts_on_cartpole(options):
    assert_equal_moves("CartPole-v1", STS, **{"num_simulations": 12, **options})


SOKOBAN = ("plangym_ext/Sokoban-v0", {"dim": (6, 6), "num_boxes": 1})
MASKED = ("Taxi-v4", {"fickle_passenger": True})


@pytest.mark.parametrize(
    ("cls", "name", "make"),
    [
        (MCTS, *SOKOBAN),
        (MCTS, "plangym_ext/NarrowPath-v0", {}),
        (MCTS, "FrozenLake-v1", {}),
        (MCTS, "Acrobot-v1", {"frameskip": 2}),
        (MCTS, *MASKED),
        (STS, *SOKOBAN),
        (STS, *MASKED),
    ],
)
def test_other_kernels(cls, name, make):
    options = {"num_simulations": 20, "rollout_depth": 7, "keep_tree": True, "make": make}
    assert_equal_moves(name, cls, max_steps=5, **options)


@pytest.mark.parametrize(
    ("cls", "name", "make"), [(MCTS, "CartPole-v1", {}), (MCTS, *MASKED), (STS, *MASKED)]
)
def test_trees_are_shared_among_threads(cls, name, make, monkeypatch):
    shared = []
    run = SharingThreads.run

    def counted(threads, function, shares):
        shared.append([share[5:8] for share in shares])  # first tree, end, lane
        return run(threads, function, shares)

    monkeypatch.setattr(SharingThreads, "run", counted)
    monkeypatch.setattr(search, "_WORK_PER_THREAD", 1)
    options = {"num_simulations": 20, "rollout_depth": 7, "make": {"threads": 3, **make}}
    assert_equal_moves(name, cls, max_steps=3, num_episodes=5, **options)
    # Batches that are not compiled are shared too, of rows instead of trees.
    assert [(0, 1, 0), (1, 3, 1), (3, 5, 2)] in shared


@pytest.mark.parametrize(
    ("trees", "simulations", "threads"), [(1, 9999, 1), (4, 8, 1), (4, 999, 2)]
)
def test_threads_are_woken_where_that_pays(trees, simulations, threads, monkeypatch):
    shared = []
    run = SharingThreads.run

    def counted(self, function, shares):
        shared.append(len(shares))
        return run(self, function, shares)

    with plangym_ext.make("CartPole-v1", threads=2) as env:
        state, _, _ = env.reset(seed=0)
        env.warm_up()  # steps batches
        monkeypatch.setattr(SharingThreads, "run", counted)
        planner = MCTS(simulations, rollout_depth=0, capacity=100)
        rngs = np.random.default_rng(0).spawn(trees)
        planner.plan_batch(env, np.repeat(state[None], trees, axis=0), rngs=rngs)
    assert max(shared) == threads


@pytest.mark.parametrize(("cls", "steps"), [(MCTS, 8), (STS, 4)])
@pytest.mark.parametrize(("name", "make"), [("CartPole-v1", {}), SOKOBAN])
def test_nothing_returns_to_python_between_simulations(name, make, cls, steps):
    def calls_of(simulations):
        planner, calls = cls(simulations, rollout_depth=steps, capacity=4000), []
        with plangym_ext.make(name, **make) as env:
            state, _, _ = env.reset(seed=0)
            planner.plan(env, state, rng=0)  # compiles, or loads
            sys.setprofile(lambda _frame, event, _: calls.append(event == "call"))
            try:
                plan = planner.plan(env, state, rng=0)
            finally:
                sys.setprofile(None)
        assert plan.budget.expansions >= simulations
        return sum(calls)

    # Whatever Python does once per simulation or per wave would be there thirty times more.
    few, many = calls_of(8), calls_of(248)
    assert many <= few + 20


@pytest.mark.parametrize("cls", [MCTS, STS])
def test_another_process_loads_what_this_one_compiled(cls):
    with plangym_ext.make("CartPole-v1") as env:
        cls(4).plan(env, env.reset(seed=0)[0], rng=0)
    script = (
        "import plangym_ext\n"
        "from plangym_ext.core.compiling.kernel_cache import KernelCache\n"
        f"from plangym_ext.planners import {cls.__name__}\n"
        "KernelCache.save_overload = lambda cache, *_: print(cache._name, 'was compiled')\n"
        "with plangym_ext.make('CartPole-v1') as env:\n"
        f"    {cls.__name__}(4).plan(env, env.reset(seed=0)[0], rng=0)\n"
    )
    command = [sys.executable, "-P", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout == ""


def test_near_endings_and_time_limits():
    make = {"max_episode_steps": 12}
    options = {"num_simulations": 60, "rollout_depth": 6, "wave_size": 4, "make": make}
    moves, _ = assert_equal_moves("CartPole-v1", MCTS, max_steps=20, num_episodes=3, **options)
    assert sum(move.truncated for move in moves) == 3


def test_rows_that_end_early_draw_for_themselves():
    # Simulations on ice end early, in one tree more than in another, and `max_model_steps`
    # then pays for more of them than at first: a tree must not read another's numbers.
    options = {"num_simulations": 50, "max_model_steps": 200, "num_rollouts": 2, "wave_size": 5}
    assert_equal_moves("FrozenLake-v1", MCTS, num_episodes=3, **options)


def test_generators_are_where_they_would_have_been():
    with plangym_ext.make("CartPole-v1") as env:
        state, _, _ = env.reset(seed=0)
        after = []
        for compiled in (True, False):
            rng = np.random.default_rng(5)
            MCTS(30, rollout_depth=9, compiled=compiled).plan(env, state, rng=rng)
            after.append((rng.random(), rng.integers(7)))
    assert after[0] == after[1]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(
    # STS steps both actions in each of five nodes.
    ("cls", "rollout_depth", "cost"),
    [(MCTS, 8, 9), (STS, 0, 10), (STS, 2, 30)],
)
def test_steps_that_pay_for_no_simulation_are_refused(cls, rollout_depth, cost, compiled):
    planner = cls(max_model_steps=cost - 1, rollout_depth=rollout_depth, compiled=compiled)
    with plangym_ext.make("CartPole-v1") as env:
        state, _, _ = env.reset(seed=0)
        with pytest.raises(InvalidOption, match=rf"at least {cost}, .*; got {cost - 1}\. Raise"):
            planner.plan(env, state, rng=0)


def test_a_clock_ends_a_compiled_search():
    with plangym_ext.make("CartPole-v1") as env:
        state, _, _ = env.reset(seed=0)
        planner = MCTS(max_seconds=0.05)
        plan = planner.plan(env, state, rng=0)
        assert planner._kept.beside is not None
        assert 0 < plan.budget.expansions < 10_000
        assert plan.budget.seconds >= 0.05 or plan.full


def test_other_evaluators_policies_and_backends_are_not_compiled():
    policy = lambda obs: np.full((len(obs), 2), 0.5)  # noqa: E731
    for options in (
        {"evaluator": from_value(lambda obs: obs[:, 0])},
        {"rollout_policy": policy},
        {"slots": True, "rollout_depth": 0},
    ):
        planner = MCTS(8, **options)
        with plangym_ext.make("CartPole-v1") as env:
            state, obs, _ = env.reset(seed=0)
            planner.plan(env, state, rng=0, obs=obs)
        assert planner._kept.beside is None
    for planner, backend in ((MCTS(8), "serial"), (OpenLoopMCTS(8), "kernel")):
        with plangym_ext.make("CartPole-v1", backend=backend) as env:
            state, obs, _ = env.reset(seed=0)
            planner.plan(env, state, rng=0)
        assert planner._kept.beside is None


def test_a_root_that_is_no_good_is_refused_as_always():
    with plangym_ext.make("CartPole-v1") as env:
        state, _, _ = env.reset(seed=0)
        MCTS(8).plan(env, state, rng=0)
        state[100] ^= 1
        with pytest.raises(DamagedState):
            MCTS(8).plan(env, state, rng=0)
    with pytest.raises(EnvClosed):
        MCTS(8).plan(env, state, rng=0)


@pytest.mark.parametrize(
    "planner", [MCTS(30), STS(9, intermediate_backups=True)], ids=["mcts", "sts"]
)
def test_what_is_no_number_is_left_to_the_batches(planner):
    errors = {"no reward": (ValueError, "reward"), "no obs": (InvalidObservation, "Counting")}
    for broken, (error, message) in errors.items():
        with counting(broken) as env:
            state, _, _ = env.reset(seed=0)
            with pytest.raises(error, match=message):
                planner.plan(env, state, rng=0)
    # An infinity that the space allows is no error: both ways take turns.
    plans = []
    with counting("infinite obs") as env:
        state, _, _ = env.reset(seed=0)
        for compiled in (True, False):
            planner.compiled = compiled
            plans.append(planner.plan(env, state, rng=0))
        planner.compiled = True
    assert plans[0].visits.tobytes() == plans[1].visits.tobytes()
    assert plans[0].q.tobytes() == plans[1].q.tobytes()
    assert plans[0].budget.model_steps == plans[1].budget.model_steps
