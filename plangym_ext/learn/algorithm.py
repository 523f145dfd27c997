"""Algorithm protocol: the interface between a training run and what updates the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from plangym_ext.learn.sampling.collected import Collected, Progress


class Algorithm(Protocol):
    """Learns from what samplers collect; the run calls `take` and `train` once a round."""

    @property
    def updates(self) -> int:
        """How many updates of the weights were made since the beginning: their version."""

    def prepare(self, agent: Any) -> None:
        """Set how what plays explores, before each call of `collect`.

        Args:
            agent: plays the network; what is set, such as the epsilon of a `QAgent`, follows
                from counters that are saved, such as the steps that were taken in.
        """

    def take(self, collected: Collected) -> None:
        """Take in what was collected; a rollout algorithm keeps it until it is trained on.

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
        """Return all there is to save between two rounds; "trainer" holds the weights."""

    def trainer_dict(self) -> dict[str, Any]:
        """Return what `state_dict` has as "trainer", without a look at the replay."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` returned, bit for bit."""
