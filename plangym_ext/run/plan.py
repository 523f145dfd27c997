"""`plangym-ext plan ENV_ID`: a planner plays one episode.

`plangym-ext plan --planner NAME --help` lists the options of that planner.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plangym_ext.run.arguments import at_least
from plangym_ext.run.files import write_json
from plangym_ext.run.planner_options import add_planner_options, chosen_options
from plangym_ext.run.progress import ProgressLine
from plangym_ext.run.video import recorded


def add_arguments(parser: argparse.ArgumentParser, given: Sequence[str] = ()) -> None:
    """Options of the command.

    Args:
        parser: of this command.
        given: what was typed; the planner named there brings its own options.
    """
    from plangym_ext.planners import PLANNERS

    parser.add_argument("env", metavar="ENV_ID", help="a gymnasium id, such as ALE/MsPacman-v5")
    parser.add_argument(
        "--planner", default="mcts", metavar="NAME", help=f"one of: {', '.join(PLANNERS)}"
    )
    parser.add_argument(
        "--max-steps",
        type=at_least(1),
        default=1000,
        metavar="M",
        help="moves after which to stop",
    )
    parser.add_argument(
        "--n-workers",
        type=at_least(0),
        default=None,
        metavar="W",
        help="worker processes; 0 plans in this process (default: one per processor)",
    )
    parser.add_argument(
        "--seed", type=at_least(0), default=0, help="seed of the env and the planner"
    )
    parser.add_argument(
        "--frameskip", type=at_least(1), default=None, metavar="K", help="env steps per move"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs/plan"), metavar="DIR", help="where to write"
    )
    parser.add_argument("--video", action="store_true", help="also write DIR/episode.mp4")
    add_planner_options(parser, given, default="mcts")


def run(options: argparse.Namespace) -> int:
    """Play, show progress, write `episode.json` and perhaps `episode.mp4`."""
    import numpy as np

    import plangym_ext
    from plangym_ext.planners import load_planner, play

    planner: Any = load_planner(options.planner)
    chosen = chosen_options(options)
    planner = planner(**chosen)
    started = time.monotonic()
    episode: Any = None
    target = options.out / "episode.mp4" if options.video else None
    options.out.mkdir(parents=True, exist_ok=True)
    with _env(options) as env, recorded(target, env, options.seed) as video:
        line = ProgressLine()
        shown = _Shown(options, line, env, video)
        line.update(f"{env.name}: searching the first move", force=True)
        episode = play(
            env, planner, seed=options.seed, max_steps=options.max_steps, callback=shown.step
        )
        line.end(shown.text(time.monotonic() - started))
    seconds = time.monotonic() - started
    write_json(
        options.out / "episode.json",
        {
            "env": options.env,
            "planner": options.planner,
            "num_simulations": planner.num_simulations,
            "options": chosen,
            "seed": options.seed,
            "return": episode.return_,
            "length": episode.length,
            "actions": np.asarray(episode.actions).tolist(),
            "terminated": episode.terminated,
            "truncated": episode.truncated,
            "model_steps": episode.budget.model_steps,
            "seconds": round(seconds, 3),
            "version": plangym_ext.__version__,
        },
    )
    print(
        f"{options.env}: return {episode.return_:g} in {episode.length} moves, "
        f"{episode.budget.model_steps} model steps, {seconds:.1f} s"
    )
    print(f"wrote {options.out / 'episode.json'}")
    if options.video:
        print(f"wrote {options.out / 'episode.mp4'}")
    return 0


class _Shown:
    """What is shown of each move: the progress line, and the frame."""

    def __init__(
        self, options: argparse.Namespace, line: ProgressLine, env: Any, video: Any
    ) -> None:
        self._options, self._line, self._env, self._video = options, line, env, video
        self._started = time.monotonic()
        self._moves, self._return, self._model_steps = 0, 0.0, 0

    def step(self, move: Any) -> None:
        """Take one played move."""
        self._moves, self._return = move.step + 1, move.total
        self._model_steps += move.plan.budget.model_steps
        self._line.update(self.text(time.monotonic() - self._started))
        if self._video is not None:
            self._video.add(self._env.render())

    def text(self, seconds: float) -> str:
        """The progress line."""
        rate = self._model_steps / max(seconds, 1e-9)
        return (
            f"step {self._moves}/{self._options.max_steps}  return {self._return:g}  "
            f"{rate:,.0f} model steps/s"
        )


def _env(options: argparse.Namespace) -> Any:
    import plangym_ext

    arguments: dict[str, Any] = {"frameskip": options.frameskip}
    if options.video:
        arguments["render_mode"] = "rgb_array"
    if options.n_workers == 0:
        return plangym_ext.make(options.env, **arguments)
    return plangym_ext.make(
        options.env, backend="process", n_workers=options.n_workers, **arguments
    )
