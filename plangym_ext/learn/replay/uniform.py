"""Uniform sampling from a ring of rows."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from plangym_ext.learn.replay.base import Batch, Replay, Samples


class ReplayBuffer(Replay):
    """The newest `capacity` rows; each is drawn with the same probability.

    Args:
        capacity: rows, at least 1. Memory is taken as rows come.
        seed: of the sampling.
    """

    def __init__(self, capacity: int, *, seed: int) -> None:
        raise NotImplementedError

    def add(
        self,
        samples: Samples,
        priorities: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> None:
        """See `Replay.add`."""
        raise NotImplementedError

    def sample(self, batch_size: int) -> Batch:
        """See `Replay.sample`."""
        raise NotImplementedError

    def all(self) -> dict[str, Any]:
        """See `Replay.all`."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """See `Replay.state_dict`."""
        raise NotImplementedError

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `Replay.load_state_dict`."""
        raise NotImplementedError
