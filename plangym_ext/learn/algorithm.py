"""Algorithm protocol: the interface between a training run and what updates the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from plangym_ext.learn.sampling.collected import Collected, Progress


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
