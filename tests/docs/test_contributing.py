"""The flows of docs/contributing.md: every hop exists, is called in this order, and is counted."""

from __future__ import annotations

import itertools
import math
import time
from contextlib import ExitStack
from unittest import mock

import numpy as np
import pytest
from counting_env import Counting
from flows import Hop, calls_of, code_lines, read_bounds, read_flows, size_of, source_of, words_of

import plangym_ext

FLOWS = read_flows()


def step_batch(stack: ExitStack):
    env = stack.enter_context(plangym_ext.make("MountainCar-v0", n_workers=2))
    state, _, _ = env.reset(seed=0)
    batch = np.zeros(8, np.int64), np.repeat(state[None], 8, axis=0)
    env.step_batch(*batch)  # starts the workers
    return lambda: env.step_batch(*batch)


def vector_step(stack: ExitStack):
    venv = plangym_ext.make_vec("MountainCar-v0", 8, n_workers=2)
    stack.callback(venv.close)
    venv.reset(seed=0)
    actions = np.zeros(8, np.int64)
    venv.step(actions)
    return lambda: venv.step(actions)


def search(stack: ExitStack):
    from plangym_ext.planners import MCTS

    def evaluator(obs):
        return np.full((len(obs), 2), 0.5, np.float32), np.zeros(len(obs))

    env = stack.enter_context(plangym_ext.make("CartPole-v1", backend="serial"))
    state, obs, _ = env.reset(seed=0)
    planner = MCTS(num_simulations=4, evaluator=evaluator)
    return lambda: planner.plan(env, state, obs=obs, rng=0)


def training_round(stack: ExitStack, folder):
    pytest.importorskip("torch")
    from training_runs import small

    from plangym_ext.run.training.runner import Runner

    # Every round has an episode to learn from, and an evaluation.
    changed = {"env": {"max_steps": 4}, "evaluation": {"every": 1}}
    changed |= {"algorithm": {"updates_per_round": 1}}
    runner = stack.enter_context(Runner(small(changed), folder))
    runner._run_round()  # imports what it needs
    return runner._run_round


def fragment(stack: ExitStack):
    pytest.importorskip("torch")
    from plangym_ext.learn import ActorCriticAgent, SerialSampler, make_agent_network

    venv = plangym_ext.make_vec("CartPole-v1", 4, autoreset_mode="same_step", backend="serial")
    spaces = venv.single_observation_space, venv.single_action_space
    agent = ActorCriticAgent(make_agent_network(*spaces, seed=0))
    sampler = stack.enter_context(SerialSampler(venv, agent, 40))
    sampler.collect()
    return sampler.collect  # of so many random steps some end an episode


@pytest.mark.parametrize("flow", FLOWS)
def test_every_hop_is_a_function_of_the_checkout(flow):
    for hop in FLOWS[flow]:
        source_of(hop)


@pytest.mark.parametrize("flow", FLOWS)
def test_every_hop_is_named_by_another_one(flow):
    # Holds for hops in workers and in compiled code, which are not traced, too.
    hops = FLOWS[flow]
    named = {hop: words_of(hop) for hop in hops}
    for i, hop in enumerate(hops):
        if i and hop.place == hops[i - 1].place:
            *_, owner, name = ("", *hop.name.split("."))
            word = owner if name == "__init__" else name
            others = {other for other in hops if other != hop and word in named[other]}
            assert others, f"{flow}: no other hop calls {hop.file}:{hop.name}"


@pytest.mark.slow
@pytest.mark.parametrize("flow", FLOWS)
def test_hops_are_called_in_this_order_and_by_each_other(flow, tmp_path):
    made = {
        "step_batch": step_batch,
        "vector step": vector_step,
        "search": search,
        "fragment": fragment,
    }
    with ExitStack() as stack:
        if flow == "training round":
            action = training_round(stack, tmp_path / "run")
        else:
            action = made[flow](stack)
        calls = calls_of(action)
    check_order(flow, [hop for hop in FLOWS[flow] if hop.place == "caller"], calls)


def check_order(flow, hops, calls):
    """Compare the hops in the caller's process with the calls that were made there."""
    keys = [(hop.module, hop.name) for hop in hops]
    made = [call.function for call in calls]
    missing = [key for key in keys if key not in made]
    assert not missing, f"{flow}: never called"
    at = 0
    for key in keys:
        assert key in made[at:], f"{flow}: {key} is called before the hop above it"
        at = made.index(key, at)
    callers = {key: {call.caller for call in calls if call.function == key} for key in keys}
    skipped = {key: sorted(callers[key]) for key in keys[1:] if not callers[key] & {*keys}}
    assert not skipped, f"{flow}: called by no other hop, but by these"


# What runs -------------------------------------------------------------------

BOUNDS = read_bounds()


def steady(call, *args):
    """Return a call that has been made three times."""
    for _ in range(3):
        call(*args)
    return lambda: call(*args)


class Sleeping(Counting):
    """Sleeps in each step, so that both workers get rows, however busy the machine is."""

    def step(self, action):
        time.sleep(1e-3)
        return super().step(action)


def batch_on(stack, env="CartPole-v1", **options):
    env = stack.enter_context(plangym_ext.make(env, **options))
    state, _, _ = env.reset(seed=0)
    return steady(env.step_batch, np.arange(64) % 2, np.repeat(state[None], 64, axis=0))


def vector_on(stack, **options):
    venv = plangym_ext.make_vec("CartPole-v1", 8, **options)
    stack.callback(venv.close)
    venv.reset(seed=0)
    return steady(venv.step, np.zeros(8, np.int64))


def search_on_kernel(stack):
    from plangym_ext.planners import MCTS

    env = stack.enter_context(plangym_ext.make("CartPole-v1"))
    state, obs, _ = env.reset(seed=0)
    planner = MCTS(num_simulations=4)
    return steady(lambda: planner.plan(env, state, obs=obs, rng=0))


def runner_of(stack, folder, preset, changed):
    pytest.importorskip("torch")
    from plangym_ext.run.settings.compose import compose
    from plangym_ext.run.training.runner import Runner

    common = {
        "collector": {"num_envs": 4, "moves": 12},
        "evaluation": {"every": 0},
        "rounds": 9,
        "checkpoint_every": 0,
    }
    # A row of the table or a move of its bar is due by the clock: a slow round always has one.
    stack.enter_context(mock.patch("plangym_ext.run.logs.table._ROW_SECONDS", math.inf))
    stack.enter_context(mock.patch("plangym_ext.run.progress.ProgressLine.is_due", new=False))
    return stack.enter_context(Runner(compose([preset, common, changed]), folder))


def planner_round(stack, folder):
    learns = {"updates_per_round": 1, "learning_starts": 16, "batch_size": 16}
    changed = {"algorithm": learns, "evaluation": {"stop_at": None}}
    return steady(runner_of(stack, folder, "cartpole", changed)._run_round)


def ppo(stack, folder):
    changed = {"algorithm": {"epochs": 1, "batch_size": 24}}
    runner = runner_of(stack, folder, "ppo_cartpole", changed)
    for _ in range(3):
        runner._run_round()
    return runner.sampler, runner.algorithm


def ppo_fragment(stack, folder):
    sampler, algorithm = ppo(stack, folder)
    return lambda: sampler.collect(12, algorithm.updates)


def ppo_learning(stack, folder):
    sampler, algorithm = ppo(stack, folder)
    found = sampler.collect(12, algorithm.updates)
    return lambda: (algorithm.take(found), algorithm.train())


RUNNING = {
    "step_batch, two workers": lambda stack, _: batch_on(stack, Sleeping, n_workers=2),
    "step_batch, kernel": lambda stack, _: batch_on(stack),
    "make_vec(...).step, two workers": lambda stack, _: vector_on(stack, n_workers=2),
    "make_vec(...).step, kernel": lambda stack, _: vector_on(stack),
    "MCTS.plan with an evaluator": lambda stack, _: steady(search(stack)),
    "MCTS.plan, kernel": lambda stack, _: search_on_kernel(stack),
    "a training round with a planner": planner_round,
    "PPO, one fragment": ppo_fragment,
    "PPO, take and train one epoch": ppo_learning,
}


def test_every_bound_of_the_page_is_of_a_call():
    assert list(BOUNDS) == list(RUNNING)


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNNING)
def test_no_more_runs_in_a_call_than_the_page_says(name, tmp_path):
    most = BOUNDS[name]
    with ExitStack() as stack:
        call = RUNNING[name](stack, tmp_path / "run")
        # A call that waits for a worker longer than usual is not a steady one.
        until = time.monotonic() + 20.0
        for tries in itertools.count(1):
            size = size_of(call)
            within = all(here <= there for here, there in zip(size, most, strict=True))
            if within or (tries >= 10 and time.monotonic() > until):
                break
    assert within, f"{size}, {most}"


# The tools above, on flows that are wrong ------------------------------------


def test_a_hop_that_does_not_exist_is_named():
    with pytest.raises(LookupError, match=r"no Planner\.plam"):
        source_of(Hop("caller", "planners/base.py", "Planner.plam"))
    with pytest.raises(LookupError, match="there is no such file"):
        source_of(Hop("caller", "planners/bass.py", "Planner.plan"))


def test_a_line_that_is_no_hop_is_named(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```hops\nflow\ncaller:\n  somewhere\n```\n")
    with pytest.raises(ValueError, match="'somewhere' is no file:function"):
        read_flows(page)


def test_hops_out_of_order_and_gaps_are_found():
    hops = FLOWS["search"][:3]  # plan, plan_batch, _plan_batch
    with ExitStack() as stack:
        calls = calls_of(search(stack))
    check_order("search", hops, calls)
    with pytest.raises(AssertionError, match="is called before the hop above it"):
        check_order("search", [hops[0], hops[2], hops[1]], calls)
    with pytest.raises(AssertionError, match="called by no other hop"):
        check_order("search", [hops[0], hops[2]], calls)


def test_lines_of_code_are_neither_docstrings_nor_comments():
    source = (
        'def f(x):\n    # Why.\n\n    y = """a\n    b"""\n    return (\n        y,  # what\n    )\n'
    )
    assert code_lines(source) == 6  # def; two of the text; return, y and the parenthesis
