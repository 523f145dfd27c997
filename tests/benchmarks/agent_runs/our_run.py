"""One run of ours, in a process of its own: settings on standard input, results into a file.

A run that was killed goes on from its last checkpoint, where its settings write any.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path

from agent_runs.curve import Curve
from agent_runs.gpu import gpu_of
from plangym_ext.learn.repeatable import fix_threads
from plangym_ext.run.files import versions, write_json
from plangym_ext.run.logs.runs import read_columns
from plangym_ext.run.settings.config import RunConfig
from plangym_ext.run.settings.settings import build
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.training.trained import Trained


def main() -> None:
    """Train, then play episodes as `plangym-ext eval` does."""
    request = json.load(sys.stdin)
    config: RunConfig = build(RunConfig, request["settings"])
    out = Path(request["out"])
    # A run of another length, as with `--quick`, is not gone on with.
    folder = out.with_suffix(f".{config.rounds}-rounds")
    began = time.perf_counter()
    with Runner(config, folder, resume=True, show=False) as runner:
        runner.run()
        seconds, steps = time.perf_counter() - began, runner.steps
    curve = curve_of(folder, steps)
    fix_threads(config.threads)
    returns = []
    if request["episodes"]:
        with Trained(folder) as trained:
            returns = [episode.return_ for episode in trained.play(request["episodes"])]
    found = {
        "steps": steps,
        # The log counts those of a run that went on, too, but not the making of the envs.
        "seconds": max([seconds, *read_columns(folder / "timings.csv")["seconds"]]),
        "training": curve.last_tenth(),
        "evaluation": returns,
        "curve": curve.points(),
        "versions": {**versions(), **gpu_of(config.device)},
    }
    write_json(out, found)
    shutil.rmtree(folder)


def curve_of(folder: Path, steps: int) -> Curve:
    """Return the curve of a run of so many steps from its log."""
    curve = Curve(steps)
    played, timed = (read_columns(folder / name) for name in ("progress.csv", "timings.csv"))
    rows = zip(
        *(played[name] for name in ("step", "episodes", "return")), timed["seconds"], strict=True
    )
    for step, episodes, mean, seconds in rows:
        if episodes:
            curve.add(int(step), int(episodes), float(mean), float(seconds))
    return curve


if __name__ == "__main__":
    main()
