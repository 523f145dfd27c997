"""Interfaces of samplers and algorithms, and a sampler's result (Collected). Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from plangym_ext.planners.plans import Budget

#: Called while something takes long, with how many steps of all envs are done.
Progress = Callable[[int], None]


class Collected(NamedTuple):
    """The result of one call of `Sampler.collect`.

    Attributes:
        data: what an algorithm takes: the records of the episodes that ended, or a tree of
            arrays `[T, B, ...]`. Who lends the arrays of a tree says how long they hold.
        episodes: arrays `[E]` by name, a row for every episode that ended, in the order of
            (step, env): at least "return" float64, "length" int64 and "terminated" bool; no
            rows where none ended. All of them are logged as means.
        cost: model steps (steps of the env: steps played, and steps of searches and branches), rows
            that the evaluator or the agent evaluated, and so on.
        version: of the weights that played. Where actors may play older ones, `data` says
            which version played which rows, and this is the newest.
        forks: branches from states that were visited; see `ForkingSampler`. None: there are none.
        again: what a planner says of older states by now; see `ExpertSampler`. None: none teaches.
        played: steps that were played, in all envs; None: all of `cost`.
    """

    data: Any
    episodes: Mapping[str, npt.NDArray[Any]]
    cost: Budget
    version: int
    forks: Any = None
    again: Any = None
    played: int | None = None

    @property
    def steps(self) -> int:
        """Number of steps played in all envs, without those of searches and branches."""
        return self.cost.model_steps if self.played is None else self.played


class Sampler(Protocol):
    """Protocol of samplers: plays several envs side by side, continuing between calls."""

    def collect(self, n: int, version: int = 0, progress: Progress | None = None) -> Collected:
        """Play n steps in every env.

        Args:
            n: how many.
            version: of the weights; where weights have to travel, they do so if it changed.
            progress: called now and then.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return the complete state between two calls of `collect`."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`, bit for bit."""

    def close(self) -> None:
        """Close envs and workers; safe to call twice."""


def episode_rows(
    returns: Any, lengths: Any, terminated: Any, /, **own: Any
) -> dict[str, npt.NDArray[Any]]:
    """Return `Collected.episodes` of sequences with E elements each; `own` are further columns."""
    found = {
        "return": np.asarray(returns, np.float64),
        "length": np.asarray(lengths, np.int64),
        "terminated": np.asarray(terminated, np.bool_),
    }
    return found | {name: np.asarray(column) for name, column in own.items()}


class Algorithm(Protocol):
    """Protocol of learning algorithms; the run calls `take` and `train` once a round."""

    @property
    def updates(self) -> int:
        """Number of weight updates so far, which is the version of the weights."""

    def prepare(self, agent: Any) -> None:
        """Set the agent's exploration, before each call of `collect`.

        Args:
            agent: plays the network; what is set, such as the epsilon of a `QAgent`, follows
                from counters that are saved, such as the steps that were taken in.
        """

    def take(self, collected: Collected) -> None:
        """Receive collected experience; a rollout algorithm keeps it until `train`.

        Args:
            collected: of a sampler; its arrays may be overwritten by the next `collect`.
        """

    def train(self, progress: Progress | None = None) -> dict[str, float]:
        """Make the updates of a round.

        Args:
            progress: called after each update, with how many have been made in this call.

        Returns:
            What to log, by name: counts, and means such as "train/loss" once something is
            learned.

        Raises:
            LossNotFinite: a loss was not finite.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return the complete state between two rounds; "trainer" holds the weights."""

    def trainer_dict(self) -> dict[str, Any]:
        """Return the "trainer" entry of `state_dict`, without reading the replay."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`, bit for bit."""
