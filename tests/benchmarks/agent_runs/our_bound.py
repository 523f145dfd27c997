"""Ours until it reaches a return, in a process of its own: settings on standard input."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from agent_runs.stop_clock import StopClock
from plangym_ext import make
from plangym_ext.learn.repeatable import fix_threads
from plangym_ext.planners import play
from plangym_ext.run.files import write_json
from plangym_ext.run.settings.config import RunConfig
from plangym_ext.run.settings.settings import build
from plangym_ext.run.training.callbacks import Callback
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.versions import versions


class _Reach(Callback):
    """Plays the best actions now and then, the clock stopped, and ends the run."""

    def __init__(self, clock: StopClock, request: dict[str, Any], env: Any) -> None:
        self._clock, self._request, self._env = clock, request, env
        self.evaluations: list[dict[str, float]] = []

    def on_round(self, runner: Runner, values: Any) -> None:
        if runner.steps % self._request["every"]:
            return
        with self._clock.stopped():
            mean = self._mean(runner)
        self.evaluations.append({"steps": runner.steps, "return": mean, **self._clock.read()})
        if mean >= self._request["reached"]:
            runner.stop("reached")

    def _mean(self, runner: Runner) -> float:
        agent, count = runner.evaluator, self._request["episodes"]
        agent.set_mode("eval")
        limit = runner.config.env.max_steps
        episodes = play(
            self._env,
            agent.as_planner(),
            seed=self._request["seed"],
            max_steps=limit,
            num_episodes=count,
        )
        return sum(episode.return_ for episode in episodes) / count


def main() -> None:
    """Train until the return is reached, or the run is over."""
    request = json.load(sys.stdin)
    config: RunConfig = build(RunConfig, request["settings"])
    fix_threads(config.threads)
    with make(config.env.id) as env, tempfile.TemporaryDirectory() as folder:
        clock = StopClock()
        reach = _Reach(clock, request, env)
        with Runner(config, folder, callbacks=[reach]) as runner:
            runner.run()
    found = {"evaluations": reach.evaluations, "versions": versions()}
    write_json(Path(request["out"]), found)


if __name__ == "__main__":
    main()
