"""Callback: user hooks of a training run (start, episodes, evaluation, round, checkpoint)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from plangym_ext.core.numbers import rounding_of
from plangym_ext.planners.episode import Episode


class Callback:
    """Base class of user hooks in a training run; override any of its methods.

    A callback may look at anything of the `Runner`, and end the run with `runner.stop`.
    What it changes is no part of a checkpoint, but what its `state_dict` returns.
    """

    def state_dict(self) -> dict[str, Any]:
        """Return the callback's state for resuming: plain data, arrays, tensors."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`; called before `on_start`."""

    def on_start(self, runner: Any) -> None:
        """Run before the first round, or the first after resuming."""

    def on_episodes(self, runner: Any, records: Any) -> None:
        """Run after collection, before the update of the network.

        `records` is the tree `[T, B]` of the sampler, which the next round overwrites; of
        `collector.kind` "solutions" it is a list of `EpisodeRecord`.
        """

    def on_evaluation(self, runner: Any, episodes: list[Episode]) -> None:
        """Run after an evaluation."""

    def on_round(self, runner: Any, values: Mapping[str, float]) -> None:
        """Run at the end of a round, with its row of the log."""

    def on_checkpoint(self, runner: Any, path: Path) -> None:
        """Run after a checkpoint has been written."""

    def on_end(self, runner: Any) -> None:
        """Run after training, completed or stopped, but not after an error."""


class StopAt(Callback):
    """Ends the run once the evaluation's mean return reaches a threshold.

    Args:
        mean_return: how high.
    """

    def __init__(self, mean_return: float) -> None:
        self.mean_return = mean_return

    def on_evaluation(self, runner: Any, episodes: list[Episode]) -> None:
        """Stop the run if the mean return has reached the threshold."""
        mean = sum(episode.return_ for episode in episodes) / len(episodes)
        # Ten rewards of 0.1 are 1 - 1e-16.
        if mean >= self.mean_return - rounding_of(self.mean_return):
            runner.stop(f"the evaluation's mean return is {mean:g}")


def saved_callbacks(callbacks: Sequence[Any]) -> dict[str, Any]:
    """Return the states of callbacks that have any, by class and number."""
    found: dict[str, Any] = {
        name: getattr(one, "state_dict", dict)() for name, one in _named(callbacks)
    }
    return {name: state for name, state in found.items() if state}


def load_callbacks(callbacks: Sequence[Any], saved: Mapping[str, Any]) -> None:
    """Load the states of present callbacks; others may be missing."""
    for name, one in _named(callbacks):
        if name in saved:
            one.load_state_dict(saved[name])


def _named(callbacks: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Name each by its class, and its number among those of that class."""
    seen: Counter[str] = Counter()
    for one in callbacks:
        kind = type(one).__qualname__
        yield f"{kind} {seen[kind]}", one
        seen[kind] += 1
