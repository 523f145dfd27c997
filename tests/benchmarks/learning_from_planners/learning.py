"""A run that is judged until both of its budgets are spent."""

from __future__ import annotations

import os
import tempfile
import time
from typing import Any

import numpy as np

from learning_from_planners.tasks import Task
from plangym_ext import make_vec
from plangym_ext.learn import ActorCriticAgent, EvaluationSampler
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.callbacks import Callback
from plangym_ext.run.training.runner import Runner

#: Judgements in each budget.
_POINTS = 20


def learned(task: Task, kind: str, seed: int, share: float) -> dict[str, Any]:
    """Have one learner learn one task.

    Args:
        task: what is learned.
        kind: name of the learner.
        seed: of everything.
        share: of both budgets.

    Returns:
        "curve": model steps, seconds of the processor and mean return of every judgement; and
        "load" of the machine.
    """
    learner = task.learners[kind]
    config = compose(
        [
            {
                "env": {**task.env, "n_workers": 0},
                "agent": task.agent,
                **{name: value for name, value in learner.items() if name != "moves"},
                "collector": {"num_envs": task.envs, "moves": learner["moves"]},
                "rounds": 1_000_000,
                "checkpoint_every": 0,
                "seed": seed,
            }
        ]
    )
    judged = _Judged(task, share)
    with (
        tempfile.TemporaryDirectory() as folder,
        Runner(config, f"{folder}/run", callbacks=[judged]) as runner,
    ):
        judged.begin(runner)
        runner.run()
    judged.close()
    return {"curve": judged.curve, "load": os.getloadavg()[0]}


class _Judged(Callback):
    """Judges an agent now and then, and ends its run when both budgets are spent.

    Args:
        task: that is learned.
        share: of the budgets.
    """

    def __init__(self, task: Task, share: float) -> None:
        self._task, self._share = task, share
        self.curve: list[list[float]] = []
        self._seconds = 0.0
        self._due = [0.0, 0.0]

    def begin(self, runner: Runner) -> None:
        """Be ready to judge the agent of a run."""
        env = self._task.env
        judge = make_vec(env["id"], 20, autoreset_mode="same_step", **env.get("kwargs", {}))
        most = env["max_steps"]
        agent = ActorCriticAgent(runner.network, sample_in_eval=self._task.drawn)
        self._evaluation = EvaluationSampler(judge, agent, 20, seed=1_000_000, max_steps=most)
        self._began = time.process_time()

    def on_round(self, runner: Runner, values: dict[str, float]) -> None:
        self._seconds += time.process_time() - self._began
        spent = runner.algorithm.steps, self._seconds
        budgets = self._share * self._task.steps, self._share * self._task.seconds
        if any(have >= due for have, due in zip(spent, self._due, strict=True)):
            returns = self._evaluation.evaluate().episodes["return"]
            self.curve.append([float(spent[0]), self._seconds, float(np.mean(returns))])
            self._due = [
                max(due, have + most / _POINTS)
                for due, have, most in zip(self._due, spent, budgets, strict=True)
            ]
        if all(have >= most for have, most in zip(spent, budgets, strict=True)):
            runner.stop("both budgets are spent")
        self._began = time.process_time()

    def close(self) -> None:
        """Close the envs of judgements."""
        self._evaluation.close()
