"""What every replay buffer does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy.typing as npt

#: Nested rows: numpy arrays `[N, ...]` by name.
Samples = Mapping[str, Any]


class Batch(NamedTuple):
    """Rows drawn from a replay; fresh arrays that belong to the caller."""

    samples: dict[str, Any]  # [batch, ...] by name, nested as they were added
    indices: npt.NDArray[Any]  # [batch] int64, for `update_priorities`
    weights: npt.NDArray[Any]  # [batch] float32, importance weights; 1 if drawn uniformly


class Replay(ABC):
    """Keeps the newest rows and draws batches of them.

    The first `add` decides on names, shapes and dtypes. The same calls with the same seed
    give the same batches; a state that was saved goes on bit for bit.
    """

    @abstractmethod
    def add(
        self,
        samples: Samples,
        priorities: npt.ArrayLike | None = None,
        groups: npt.ArrayLike | None = None,
    ) -> None:
        """Copy N rows in, in order of age; the oldest ones make room.

        Args:
            samples: arrays `[N, ...]` by name, nested as you like, all with the same N.
            priorities: `[N]`, of a `PrioritizedReplay` only.
            groups: `[N]` or `[N, L]` ints or bools, of a `BalancedReplay` only.

        Raises:
            InvalidSamples: names, shapes or dtypes are not those of the first call, or the
                arrays differ in length. Nothing has been added.
        """

    @abstractmethod
    def sample(self, batch_size: int) -> Batch:
        """Draw rows, with replacement: (samples, indices, weights).

        Raises:
            ReplayEmpty: there are no rows.
        """

    @abstractmethod
    def all(self) -> dict[str, Any]:
        """Return copies of all rows `[len, ...]` by name, the oldest first.

        Raises:
            ReplayEmpty: there are no rows.
        """

    @abstractmethod
    def __len__(self) -> int:
        """Rows that are there."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return all there is to save: nested dicts of numpy arrays, ints, floats and strings.

        The arrays are copies.
        """

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Become what was saved, whatever was here before.

        Raises:
            InvalidSamples: the state is of another kind of replay or another capacity.
        """
