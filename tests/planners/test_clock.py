"""Compiling is announced, counted apart, and never part of a time limit."""

from __future__ import annotations

import gc
import io
import json
import logging
import os
import subprocess
import sys
import threading
import time
import types

import numba
import numpy as np
import pytest

from plangym_ext.core.compiling import progress as progress_module
from plangym_ext.core.compiling.progress import LOGGER, compile_seconds
from plangym_ext.native.compiled import build
from plangym_ext.planners import CEM, MCTS, Budget, RolloutIW
from plangym_ext.planners import clock as clock_module
from plangym_ext.planners.clock import Clock
from plangym_ext.run.cli import compiling_shown, main
from plangym_ext.run.progress import ProgressLine

LIMIT = 0.3


def new_function(lines=12):
    """A function that numba has never seen, and takes a while to compile."""
    body = "\n".join(f"    x += {k}.5 if x > {k} else -1.5" for k in range(lines))
    scope = {}
    exec(f"def fresh(x):\n{body}\n    return x", scope)
    return numba.njit(scope["fresh"])


class Compiling:
    """A model that compiles something the first time it is stepped.

    Attributes:
        seconds: how long this thread computed for that. Not the wall time: on a busy machine
            others may run between the call and the compiler, which is no compiling.
    """

    def __init__(self, model):
        self._model, self._function = model, new_function()
        self.action_space, self.seconds, self.first = model.action_space, 0.0, None

    def _compile(self):
        if self.first is None:
            # Not for what tests before have left: to go through all of that is no compiling.
            gc.disable()
            start = time.thread_time()
            self._function(1.0)
            self.seconds = time.thread_time() - start
            gc.enable()

    def step_batch(self, actions, states):
        self._compile()
        out = self._model.step_batch(actions, states)
        self.first = self.first or self._model.model_steps
        return out

    def rollout_batch(self, actions, states):
        self._compile()
        out = self._model.rollout_batch(actions, states)
        self.first = self.first or self._model.model_steps
        return out


@pytest.fixture
def time_of_this_thread(monkeypatch):
    """Count the time of a plan as its thread computes: a busy machine may give it none for long."""
    for module in (clock_module, progress_module):
        monkeypatch.setattr(module, "time", types.SimpleNamespace(perf_counter=time.thread_time))


@pytest.mark.parametrize("make", [MCTS, RolloutIW, CEM])
def test_what_compiles_within_a_plan_is_no_part_of_it(make, models, time_of_this_thread):
    if make is CEM:
        inner = models.Integrator()
        state, obs = inner.state(0.5), np.zeros((1, 1))
    else:
        # A world without an end: only the clock stops the search.
        inner = models.TableModel(
            np.arange(1, 100_001)[:, None] % 100_000 * [1, 1], np.zeros((100_000, 2))
        )
        state, obs = inner.state(0), np.zeros((1, 1), np.float32)
    model = Compiling(inner)
    start = time.thread_time()
    (plan,) = make(max_seconds=LIMIT).plan_batch(
        model, state[None], rngs=[np.random.default_rng(0)], obs=obs
    )
    wall = time.thread_time() - start
    budget = plan.budget
    assert model.seconds > 0.05
    # All that numba did was counted, and the search went on after it.
    assert budget.compile_seconds > 0.8 * model.seconds
    assert budget.seconds + budget.compile_seconds <= wall
    assert budget.seconds >= min(LIMIT, 0.5 * (wall - budget.compile_seconds))
    assert budget.model_steps > model.first


def test_budgets_add_what_compiling_took():
    total = Budget(seconds=1.0, compile_seconds=2.0) + Budget(seconds=0.25, compile_seconds=0.5)
    assert (total.seconds, total.compile_seconds) == (1.25, 2.5)


def test_a_batch_shares_what_compiling_took(models):
    model = Compiling(models.bandit([1.0, 0.0]))
    states = np.stack([model._model.state(0)] * 4)
    plans = MCTS(8).plan_batch(model, states, rngs=np.random.default_rng(0).spawn(4))
    shares = {plan.budget.compile_seconds for plan in plans}
    assert len(shares) == 1
    assert 4 * shares.pop() > 0.8 * model.seconds


def test_only_the_thread_that_compiles_counts_it():
    clock, function, other = Clock(None), new_function(), []

    def compile_there():
        before = compile_seconds()
        function(1.0)
        other.append(compile_seconds() - before)

    thread = threading.Thread(target=compile_there)
    thread.start()
    thread.join()
    assert other[0] > 0.05
    assert clock.compile_seconds == 0.0
    assert clock.seconds > other[0]


def test_compiling_is_logged_once_for_all_of_its_parts(caplog):
    inner = new_function()
    outer = numba.njit(lambda x: inner(x) + 1.0)
    with caplog.at_level(logging.INFO, logger=LOGGER.name):
        outer(1.0)
        outer(2.0)
    said = [record.getMessage() for record in caplog.records if record.name == LOGGER.name]
    assert len(said) == 2
    assert said[0].startswith("compiling ")
    assert "<lambda>" in said[0]
    assert said[1] == "compiled"


def test_a_line_that_was_wiped_does_not_hold_back_the_next(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    line = ProgressLine(stream)
    with compiling_shown(line):
        for function in (new_function(2), new_function()):
            function(1.0)
    assert stream.getvalue().count("compiling ") == 2


def test_a_kernel_is_announced_by_its_name_where_it_is_not_kept(caplog, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    said = []
    for _ in range(2):
        scope = {}
        exec("def double(x):\n    return 2 * x", scope)
        scope["double"].__module__ = __name__
        caplog.clear()
        with caplog.at_level(logging.INFO, logger=LOGGER.name):
            assert build("the test", scope["double"], (1.0,))(3.0) == 6.0
        said.append([record.getMessage() for record in caplog.records])
    assert said == [["compiling the kernel of the test", "compiled"], []]


def test_the_command_line_shows_what_is_compiled_and_nothing_else(tmp_path, capsys):
    stream, function = io.StringIO(), new_function()
    with compiling_shown(ProgressLine(stream)):
        function(1.0)
    assert "compiling " in stream.getvalue()
    assert "fresh (once" in stream.getvalue()
    stream = io.StringIO()
    with compiling_shown(ProgressLine(stream)):
        function(1.0)
    assert stream.getvalue() == ""
    arguments = ["CartPole-v1", "--planner", "shooting", "--max-steps", "2", "--n-workers", "0"]
    arguments += ["--overwrite"]
    for _ in range(2):
        assert main(["plan", *arguments, "--out", str(tmp_path)]) == 0
        shown = capsys.readouterr()
    assert "compil" not in shown.err + shown.out
    episode = json.loads((tmp_path / "episode.json").read_text())
    assert episode["compile_seconds"] < 0.1
    # Nothing is shown outside of the command line.
    new_function()(1.0)
    shown = capsys.readouterr()
    assert shown.err + shown.out == ""


PROGRAM = """
import json, sys
import plangym_ext
from plangym_ext.planners import load_planner

found = []
with plangym_ext.make("ALE/Pong-v5", obs_type="ram") as env:
    state, obs, _ = env.reset(seed=0)
    for _ in range(2):
        planner = load_planner(sys.argv[1])(max_seconds=1.0)
        budget = planner.plan(env, state, rng=0, obs=obs).budget
        found.append((budget.model_steps, budget.seconds, budget.compile_seconds))
print(json.dumps(found))
"""


@pytest.mark.skipif(not os.environ.get("PYTEST_LONG"), reason="compiles all: tox -e long")
@pytest.mark.parametrize("name", ["mcts", "sts", "open-loop", "rollout-iw", "iw"])
@pytest.mark.timeout(600)
def test_the_first_plan_on_empty_caches_does_as_much_as_the_second(name, tmp_path):
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, name],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=500,
        check=True,
    )
    assert done.stderr == ""
    (steps, seconds, compiling), (steps_again, seconds_again, _) = json.loads(done.stdout)
    assert compiling > 1.0
    # A wave that has begun is ended; IW's are whole layers, of some seconds.
    assert seconds < 2 * max(1.0, seconds_again)
    assert steps > steps_again / 2
