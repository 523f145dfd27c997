"""BestReplay: the rows of the highest priorities, sampled uniformly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import InvalidSamples
from plangym_ext.learn.replay.base import Samples
from plangym_ext.learn.replay.uniform import Ring, RowReplay, leaves, mapped


@final
class BestReplay(RowReplay):
    """The `capacity` rows of the highest priorities, the older of equal ones; sampled uniformly.

    Args:
        capacity: rows, at least 1.
        seed: of the sampling.
    """

    def __init__(self, capacity: int, *, seed: int) -> None:
        super().__init__(capacity, seed=seed)
        self._ring = Ring(self.capacity, self._name)
        self._priorities = np.zeros(0)
        #: Numbers of the rows in the order in which they came.
        self._came = np.zeros(0, np.int64)

    @property
    def priorities(self) -> npt.NDArray[np.float64]:
        """`[len]` float64 by index, a copy."""
        return self._priorities.copy()

    def add(self, samples: Samples, priorities: npt.ArrayLike = ()) -> None:
        """Copy rows in where there is room, or in place of rows with lower priorities.

        Args:
            samples: see `Replay.add`.
            priorities: `[N]` numbers.

        Raises:
            InvalidSamples: the samples do not fit, or there is not one finite priority for each.
        """
        count, given = self._ring.check(samples), np.asarray(priorities, np.float64)
        if given.shape != (count,) or not np.isfinite(given).all():
            raise InvalidSamples(
                f"{self._name}: priorities must be {count} finite numbers, one for each row; got "
                f"{given.shape} {given}."
            )
        room = min(count, self.capacity - len(self._ring))
        self._ring.add(mapped(samples, lambda leaf: leaf[:room]))
        came = self._came.max(initial=-1) + 1 + np.arange(count)
        self._priorities = np.append(self._priorities, given[:room])
        self._came = np.append(self._came, came[:room])
        # The highest first, of equal ones the oldest.
        ages = np.append(self._came, came[room:])
        order = np.lexsort((ages, -np.append(self._priorities, given[room:])))
        size = len(self._priorities)
        kept, left = order[:size], order[size:]
        places, new = np.sort(left[left < size]), np.sort(kept[kept >= size]) - size
        rows = self._ring.stored
        for (_, target), (_, source) in zip(leaves(rows), leaves(samples), strict=True):
            target[places] = source[room:][new]
        self._priorities[places], self._came[places] = given[room:][new], came[room:][new]

    def _contents(self) -> dict[str, Any]:
        return {**self._ring.state_dict(), "priorities": self.priorities, "came": self._came.copy()}

    def _restore(self, state: Mapping[str, Any]) -> None:
        rest = {name: part for name, part in state.items() if name not in ("priorities", "came")}
        ring = Ring.from_state(rest, self.capacity, self._name)
        priorities = np.array(state["priorities"], np.float64)
        came = np.array(state["came"], np.int64)
        self._ring, self._priorities, self._came = ring, priorities, came
