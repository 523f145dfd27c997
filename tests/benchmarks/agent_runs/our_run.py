"""One run of ours, in a process of its own: settings on standard input, results into a file."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from agent_runs.curve import Curve
from plangym_ext.learn.repeatable import fix_threads
from plangym_ext.run.files import write_json
from plangym_ext.run.settings.config import RunConfig
from plangym_ext.run.settings.settings import build
from plangym_ext.run.training.callbacks import Callback
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.trained import Trained
from plangym_ext.run.training.versions import versions


class _Watch(Callback):
    def __init__(self, curve: Curve) -> None:
        self.curve = curve

    def on_round(self, runner: Runner, values: Any) -> None:
        if values["episodes"]:
            self.curve.add(runner.steps, values["episodes"], values["return"])


def main() -> None:
    """Train, then play episodes as `plangym-ext eval` does."""
    request = json.load(sys.stdin)
    config: RunConfig = build(RunConfig, request["settings"])
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        curve = Curve(config.rounds * config.steps_per_round)
        with Runner(config, folder, callbacks=[_Watch(curve)]) as runner:
            runner.run()
            seconds, steps = time.perf_counter() - began, runner.steps
        fix_threads(config.threads)
        returns = []
        if request["episodes"]:
            with Trained(folder) as trained:
                returns = [episode.return_ for episode in trained.play(request["episodes"])]
    found = {
        "steps": steps,
        "seconds": seconds,
        "training": curve.last_tenth(),
        "evaluation": returns,
        "curve": curve.points(),
        "versions": versions(),
    }
    write_json(Path(request["out"]), found)


if __name__ == "__main__":
    main()
