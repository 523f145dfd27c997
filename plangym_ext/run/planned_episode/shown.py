"""Live display of the `plan` command's episode: progress line, tree page, Ctrl-C."""

from __future__ import annotations

import argparse
import time
from typing import Any

from plangym_ext.errors import MissingExtra
from plangym_ext.run.progress import ProgressLine
from plangym_ext.run.training.interrupts import Interrupts
from plangym_ext.run.video import first_frame


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
        """Return what the page begins with; without a package to draw with it has no pictures."""
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
