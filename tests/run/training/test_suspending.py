"""Planners that suspend: equal to the same planner without yields, in every sampler."""

from __future__ import annotations

import sys
import textwrap

import numpy as np
import pytest
from training_runs import log, small, weights

import plangym_ext
from plangym_ext.errors import InvalidAnswer, InvalidOption
from plangym_ext.planners import AskEvaluator, Plan, StepModel, SuspendingPlanner, play
from plangym_ext.planners.evaluators import from_value
from plangym_ext.planners.plans import Budget

# Each looks ahead for a random number of moves along the best of both actions.
PLANNERS = """
    from dataclasses import dataclass
    from typing import Any

    import numpy as np

    from plangym_ext.planners import AskEvaluator, Plan, Planner, StepModel, SuspendingPlanner
    from plangym_ext.planners.plans import Budget

    ACTIONS = np.arange(2)

    class Waiting(SuspendingPlanner):
        def plan_row(self, root):
            state, action, total = root.state, None, 0.0
            while True:
                out = yield StepModel(np.repeat(state[None], 2, axis=0), ACTIONS)
                _, value = yield AskEvaluator(out.obs)
                # Torch rounds by the size of a batch.
                q = out.rewards + self.discount * value.round(3) * ~out.terminated
                best = int(q.argmax())
                action = best if action is None else action
                if out.terminated[best] or root.rng.random() < 0.4:
                    weights = np.eye(2)[action]
                    return Plan(action, total + q[best], Budget(), q=q, weights=weights)
                total, state = total + out.rewards[best], out.states[best]

    @dataclass(eq=False, kw_only=True)
    class Straight(Planner):
        evaluator: Any = None

        def _plan_batch(self, request):
            return [self._one(request, b) for b in range(request.batch)]

        def _one(self, request, b):
            state, action, total, steps = request.states[b], None, 0.0, 0
            while True:
                out = request.env.step_batch(ACTIONS, states=np.repeat(state[None], 2, axis=0))
                value = np.asarray(self.evaluator(out.obs)[1], np.float64)
                steps += 2
                q = out.rewards + self.discount * value.round(3) * ~out.terminateds
                best = int(q.argmax())
                action = best if action is None else action
                if out.terminateds[best] or request.rngs[b].random() < 0.4:
                    cost = Budget(model_steps=steps, evaluator_rows=steps, restores=steps)
                    weights = np.eye(2)[action]
                    return Plan(action, total + q[best], cost, q=q, weights=weights)
                total, state = total + out.rewards[best], out.states[best]
"""


@pytest.fixture
def planners(tmp_path, monkeypatch):
    (tmp_path / "own_planners.py").write_text(textwrap.dedent(PLANNERS))
    monkeypatch.syspath_prepend(tmp_path)
    import own_planners

    yield own_planners
    sys.modules.pop("own_planners", None)


def evaluator(calls):
    def value(obs):
        calls.append(len(obs))
        return 1.0 - np.abs(obs[:, 2])

    return from_value(value)


def test_one_call_serves_all_games(planners):
    calls, alone = [], []
    with plangym_ext.make("CartPole-v1") as env:
        how = {"seed": 3, "max_steps": 6, "num_episodes": 4}
        found = play(env, planners.Waiting(evaluator=evaluator(calls)), **how)
        wanted = play(env, planners.Straight(evaluator=evaluator(alone)), **how)
    for one, other in zip(found, wanted, strict=True):
        assert one.actions.tobytes() == other.actions.tobytes()
        assert one.budget.model_steps == other.budget.model_steps
        assert one.budget.evaluator_rows == other.budget.evaluator_rows
    assert sum(calls) == sum(alone)
    # The first request of all four games is one call.
    assert (calls[0], max(calls), set(alone)) == (8, 8, {2})


@pytest.mark.slow
def test_runs_of_both_are_equal_in_this_process_and_in_workers(planners, tmp_path):
    pytest.importorskip("torch")
    from plangym_ext.run import Runner

    found = []
    for name, n_workers in (("Waiting", 0), ("Waiting", 2), ("Straight", 0)):
        folder = tmp_path / f"{name}{n_workers}"
        changed = {"rounds": 2, "collector": {"n_workers": n_workers}, "evaluation": {"every": 0}}
        own = {"planner": {"name": f"own_planners:{name}"}}
        with Runner(small(changed, own), folder, show=False) as runner:
            runner.run()
            found.append((weights(runner.network), log(folder)))
    assert found[0] == found[1] == found[2]


class Asking(SuspendingPlanner):
    answer = None

    def plan_row(self, root):
        yield self.answer
        return 0


def test_what_is_no_request_and_no_plan_is_refused():
    with plangym_ext.make("CartPole-v1") as env:
        state, obs, _ = env.reset(seed=0)
        planner = Asking()
        with pytest.raises(InvalidAnswer, match="Asking: plan_row must yield AskEvaluator"):
            planner.plan(env, state, rng=0)
        planner.answer = AskEvaluator(obs[None])
        with pytest.raises(InvalidOption, match=r"Asking: evaluator must be given"):
            planner.plan(env, state, rng=0)
        planner.answer = StepModel(state[None], np.zeros(1, np.int64))
        with pytest.raises(InvalidAnswer, match="plan_row must return a Plan; got 0"):
            planner.plan(env, state, rng=0)
        two = np.repeat(state[None], 2, axis=0)
        # With those of another state there would be as many of both.
        planner.answer = StepModel(two, np.zeros(1, np.int64))
        with pytest.raises(InvalidAnswer, match=r"arrays of equal n; got \[\(1,\), \(2,\)\]"):
            planner.plan(env, state, rng=0)
        planner.answer = StepModel(two, np.zeros(2, np.int64))
        planner.max_model_steps = 1
        with pytest.raises(InvalidAnswer, match="at most max_model_steps=1 steps; got 2"):
            planner.plan(env, state, rng=0)
        planner.plan_row = lambda root: 0
        with pytest.raises(InvalidAnswer, match="plan_row must be a generator; got 0"):
            planner.plan(env, state, rng=0)


def test_nested_observations_and_masks_come_back_by_request():
    class Both(SuspendingPlanner):
        def plan_row(self, root):
            out = yield StepModel(root.state[None], np.zeros(1, np.int64))
            assert out.legal == (None,)
            prior, value = yield AskEvaluator(out.obs)
            return Plan(0, value[0], Budget(), weights=prior[0])

    def asked(obs):
        return np.full((len(obs), 2), 0.5), obs[:, 0]

    with plangym_ext.make("CartPole-v1") as env:
        states, _ = zip(*(env.reset(seed=seed)[:2] for seed in range(3)), strict=True)
        rngs = [np.random.default_rng(0) for _ in states]
        planner = Both(evaluator=asked)
        plans = planner.plan_batch(env, np.stack(states), rngs=rngs)
        wanted = env.step_batch(np.zeros(3, np.int64), states=np.stack(states)).obs[:, 0]
    assert [plan.value for plan in plans] == wanted.tolist()
    assert all(plan.weights.tolist() == [0.5, 0.5] for plan in plans)
    assert plans[0].budget.model_steps == plans[0].budget.evaluator_rows == 1
