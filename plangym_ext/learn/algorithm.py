"""The interface of algorithms: what turns collected play into a better network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from plangym_ext.learn.sampling.collected import Collected, Progress


class Algorithm(Protocol):
    """Learns from what samplers collect; the run calls `take` and `train` once a round.

    Attributes:
        updates: of the weights, since the beginning: their version.
    """

    updates: int

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
            What to log, by name, as "train/loss"; empty while there is too little to learn
            from.

        Raises:
            LossNotFinite: a loss was not finite.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return all there is to save between two rounds; "trainer" holds the weights."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` returned, bit for bit."""
