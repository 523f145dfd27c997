"""What can be hung into a training run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plangym_ext.learn.records import EpisodeRecord
from plangym_ext.planners.episode import Episode


class Callback:
    """Called at the joints of a run; derive and override what you want.

    A callback may look at anything of the `Runner`, and end the run with `runner.stop`.
    What it changes is no part of a checkpoint.
    """

    def on_start(self, runner: Any) -> None:
        """Run before the first round, or the first after resuming."""

    def on_episodes(self, runner: Any, records: list[EpisodeRecord]) -> None:
        """Run after collecting, before anything is learned from the episodes.

        In a run with an agent, `records` is the tree `[T, B]` of the sampler, which the next
        round overwrites.
        """

    def on_evaluation(self, runner: Any, episodes: list[Episode]) -> None:
        """Run after an evaluation."""

    def on_round(self, runner: Any, values: Mapping[str, float]) -> None:
        """Run at the end of a round, with its row of the log."""

    def on_checkpoint(self, runner: Any, path: Path) -> None:
        """Run after a checkpoint has been written."""

    def on_end(self, runner: Any) -> None:
        """Run when training is over, completed or stopped, but not after an error."""


class StopAt(Callback):
    """End the run once the evaluation's mean return is high enough.

    Args:
        mean_return: how high.
    """

    def __init__(self, mean_return: float) -> None:
        self.mean_return = mean_return

    def on_evaluation(self, runner: Any, episodes: list[Episode]) -> None:
        """Stop the run if the mean return is high enough."""
        mean = sum(episode.return_ for episode in episodes) / len(episodes)
        if mean >= self.mean_return:
            runner.stop(f"the evaluation's mean return is {mean:g}")
