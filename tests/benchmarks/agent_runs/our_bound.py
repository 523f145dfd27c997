"""Ours until it reaches a return, in a process of its own: settings on standard input."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

# Before the clock starts, as the peer's program has it: a run imports it when it is made.
import torch  # noqa: F401

from agent_runs.stop_clock import StopClock
from plangym_ext.run.files import versions, write_json
from plangym_ext.run.settings.config import RunConfig
from plangym_ext.run.settings.settings import build
from plangym_ext.run.training.callbacks import Callback
from plangym_ext.run.training.runner import Runner


class _Reach(Callback):
    """Plays the best actions now and then, the clock stopped, and ends the run."""

    def __init__(self, clock: StopClock, request: dict[str, Any]) -> None:
        self._clock, self._request = clock, request
        self.evaluations: list[dict[str, float]] = []

    def on_round(self, runner: Runner, values: Any) -> None:
        if runner.steps % self._request["every"]:
            return
        with self._clock.stopped():
            returns = [episode.return_ for episode in runner.evaluation.episodes()]
            mean = sum(returns) / len(returns)
        self.evaluations.append({"steps": runner.steps, "return": mean, **self._clock.read()})
        if mean >= self._request["reached"]:
            runner.stop("reached")


def main() -> None:
    """Train until the return is reached, or the run is over."""
    request = json.load(sys.stdin)
    asked = {"episodes": request["episodes"], "seed": request["seed"]}
    evaluation = request["settings"]["evaluation"] | asked
    config: RunConfig = build(RunConfig, request["settings"] | {"evaluation": evaluation})
    with tempfile.TemporaryDirectory() as folder:
        clock = StopClock()
        reach = _Reach(clock, request)
        with Runner(config, folder, callbacks=[reach], show=False) as runner:
            runner.run()
    found = {"evaluations": reach.evaluations, "versions": versions()}
    write_json(Path(request["out"]), found)


if __name__ == "__main__":
    main()
