"""Display, messages and files of the `plan` command: progress, results, `episode.json`."""

from __future__ import annotations

import argparse
import time
from typing import Any

from plangym_ext.arrays.nested import mapped
from plangym_ext.errors import ForeignCheckpoint, MissingExtra
from plangym_ext.run.arguments import as_typed, env_arguments
from plangym_ext.run.files import write_json
from plangym_ext.run.progress import ProgressLine
from plangym_ext.run.training.interrupts import Interrupts
from plangym_ext.run.video import first_frame


def tell_tuned(env: str, planner: str, chosen: dict[str, Any]) -> None:
    """Print the options that were tuned for the env."""
    from plangym_ext.planners.options import tuned_options

    tuned = tuned_options(env, planner)
    # Those that hold: what was typed counts before them.
    held = [f"{name} {value}" for name, value in tuned.items() if chosen[name] == value]
    if held:
        print(f"{planner}: options tuned for {env}: {', '.join(held)}")


def tell_trained(options: argparse.Namespace) -> None:
    """Warn if the network was trained in another env or with another frameskip.

    Raises:
        ForeignCheckpoint: its env was made by a function, and the command names the env id that
            the settings have in its place.
    """
    from plangym_ext.run.training.trained import settings_of

    config, made_by = settings_of(options.network)
    own = config.env
    if made_by and options.env == own.id:
        raise ForeignCheckpoint(
            f"{options.network}: it was trained in an env made by {made_by}, not in {own.id} of "
            f"its settings. Register that env, and name its id."
        )
    if made_by:
        print(f"{options.network}: trained in an env made by {made_by}; this is {options.env}")
        return
    # What else an env is made with may be for training alone, such as an end at a lost life.
    for name, typed, learned in (
        ("ENV_ID", options.env, own.id),
        ("--frameskip", options.frameskip, own.frameskip),
    ):
        if typed != learned:
            then, now = ("the env's own" if value is None else value for value in (learned, typed))
            print(f"{options.network}: trained with {name} {then}; this is with {now}")


def tell_played(options: argparse.Namespace, shown: Shown, seconds: float) -> None:
    """Print the result of the episode and the files written."""
    if shown.interrupted:
        print(f"interrupted after {shown.moves} moves, which are kept")
    compiling = f", {shown.compile_seconds:.1f} s of it compiling, or loading what was compiled"
    # Said where it explains the time; a second run loads what this one has compiled, which the
    # clock counts too.
    if shown.compile_seconds < 0.1 * seconds:
        compiling = ""
    print(
        f"{options.env}: return {shown.return_:g} in {shown.moves} moves, "
        f"{shown.model_steps} model steps, {seconds:.1f} s{compiling}"
    )
    if shown.scores is not None:
        print(f"score of player 0: {shown.scores[0]:g}, of player 1: {shown.scores[1]:g}")
    if shown.full_moves:
        print(
            f"the tree was full at {shown.full_moves} of {shown.moves} moves, for which there "
            f"were fewer simulations than asked for; raise --capacity"
        )
    print(f"wrote {as_typed(options.out / 'episode.json')}")
    if options.video:
        print(f"wrote {as_typed(options.out / 'episode.mp4')}")
    if options.tree:
        print(f"wrote {as_typed(options.tree)}")


def write_episode(
    options: argparse.Namespace, chosen: dict[str, Any], planner: Any, shown: Shown, seconds: float
) -> None:
    """Write `episode.json`."""
    import numpy as np

    import plangym_ext

    write_json(
        options.out / "episode.json",
        {
            "env": options.env,
            "env_arguments": env_arguments(options),
            "frameskip": options.frameskip,
            "planner": options.planner,
            "num_simulations": planner.num_simulations,
            "options": chosen,
            "network": str(as_typed(options.network)) if options.network else None,
            "opponent": options.opponent,
            "seed": options.seed,
            "return": shown.return_,
            **({} if shown.scores is None else {"scores": shown.scores}),
            "length": shown.moves,
            # JSON knows no numbers of numpy, which actions are.
            "actions": [
                mapped(lambda leaf: np.asarray(leaf).tolist(), action) for action in shown.actions
            ],
            "terminated": shown.terminated,
            "truncated": shown.truncated,
            "interrupted": shown.interrupted,
            "model_steps": shown.model_steps,
            "full_moves": shown.full_moves,
            "seconds": round(seconds, 3),
            "compile_seconds": round(shown.compile_seconds, 3),
            "version": plangym_ext.__version__,
        },
    )


# Raised by the callback: `play` has no other way to end before the episode does.
class Stopped(Exception):
    """Raised at the end of the move in which Ctrl-C was pressed."""


class Shown:
    """Displays each move: the progress line and the page of trees.

    Args:
        options: of the command line.
        line: where progress is shown.
        env: that the episode is played in.
        page: of trees, to which moves are added; None: none is made.
        interrupts: where Ctrl-C is seen.

    Attributes:
        moves: played so far.
        return_: of them; of two players that of player 0.
        scores: of two players; None: there is one.
        actions: that were played.
        model_steps: that all plans took.
        compile_seconds: of all plans.
        full_moves: whose tree ran out of room.
        terminated: whether the env ended the episode.
        truncated: whether a limit cut it.
        interrupted: whether Ctrl-C ended it.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        line: ProgressLine,
        env: Any,
        page: Any,
        interrupts: Interrupts,
    ) -> None:
        self._options, self._line, self._env = options, line, env
        self._page, self._interrupts = page, interrupts
        # The picture of a move was drawn after the move before it.
        self._draws = page is not None and "rgb_array" in env.metadata.get("render_modes", ())
        self._frame = self._first_frame() if self._draws else None
        self._started = time.monotonic()
        self.moves, self.return_, self.model_steps = 0, 0.0, 0
        self.compile_seconds = 0.0
        self.scores: tuple[float, float] | None = None
        self.actions: list[Any] = []
        self.terminated = self.truncated = self.interrupted = False
        self.full_moves = 0

    def step(self, move: Any) -> None:
        """Take one played move.

        Raises:
            Stopped: Ctrl-C was pressed before the move was over.
        """
        self.moves, self.return_ = move.step + 1, move.total
        self.actions.append(move.action)
        if move.player is not None:
            # What one of them earns is the other's loss.
            self.scores = (move.total, -move.total)
        self.terminated, self.truncated = bool(move.terminated), bool(move.truncated)
        self.model_steps += move.plan.budget.model_steps
        self.compile_seconds += move.plan.budget.compile_seconds
        self.full_moves += move.plan.full
        self._line.update(self.text(time.monotonic() - self._started))
        if self._page is not None:
            self._page.add(move, self._frame)
            self._frame = self._env.render() if self._draws else None
        # An episode that has just ended is whole: nothing of it was interrupted.
        if self._interrupts.seen and not (self.terminated or self.truncated):
            self.interrupted = True
            raise Stopped

    def _first_frame(self) -> Any:
        """Return the page's first frame; None without a rendering package."""
        try:
            # Its reset changes nothing: `play` resets with the same seed again.
            return first_frame(self._env, self._options.seed)
        except MissingExtra as error:
            self._draws = False
            self._line.above(f"the page of trees has no pictures: {error}")
            return None

    def text(self, seconds: float) -> str:
        """Return the progress line."""
        rate = self.model_steps / max(seconds, 1e-9)
        return (
            f"step {self.moves}/{self._options.max_steps}  return {self.return_:g}  "
            f"{rate:,.0f} model steps/s"
        )
