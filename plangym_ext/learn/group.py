"""LearnerGroup: interface of data-parallel learners (averaged gradients). Imports no torch."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from plangym_ext.learn.transforms.moments import Moments

Ndarray = npt.NDArray[np.float64]


class LearnerGroup(ABC):
    """Abstract; one learner's access to all learners of a run.

    All learners call the same methods in the same order, and wait in each for the others. All
    of them then have the same numbers, to the last bit.

    Attributes:
        rank: number of this learner.
        size: how many there are.
    """

    rank: int
    size: int

    @abstractmethod
    def average(self, vectors: Sequence[Any]) -> None:
        """Average tensors over the learners, in place."""

    @abstractmethod
    def share(self, tensors: Iterable[Any]) -> None:
        """Copy the tensors of learner 0, in place."""

    @abstractmethod
    def rows(self, mine: Ndarray) -> Ndarray:
        """Return `[size, K]` float64, the rows `[K]` of all learners."""

    @abstractmethod
    def gathered(self, mine: Any) -> list[Any]:
        """Return the values of all learners in order, sent by pickle."""

    @final
    def means(self, mine: Mapping[str, float], weight: float = 1.0) -> dict[str, float]:
        """Return the mean of each number over the learners; all have the same names.

        Args:
            mine: the numbers of this learner.
            weight: what they count; 0 if they say nothing, and may be anything.
        """
        if self.size == 1 or not mine:
            return dict(mine)
        # All numbers in one exchange, and in float64.
        found = self.rows(np.array([weight, *mine.values()], np.float64))
        weights, rows = found[:, 0], found[:, 1:]
        if (weights == weights[0]).all():
            mean = rows.mean(axis=0)
        else:
            counted = weights > 0
            mean = weights[counted] @ rows[counted] / weights.sum()
        return dict(zip(mine, mean.tolist(), strict=True))

    @final
    def part_of(self, count: float) -> float:
        """Return the weight of this learner's mean in the mean over all learners.

        Times that, the mean of the means is the mean of all rows. It is 1 if all learners have
        as many.
        """
        counts = self.rows(np.array([count], np.float64))
        total = counts.sum()
        return float(count * self.size / total) if total else 1.0

    @final
    def merged(self, mine: Sequence[Moments]) -> list[Moments]:
        """Return the moments of the rows of all learners, merged in their order."""
        if self.size == 1 or not mine:
            return list(mine)
        packed = self.rows(np.concatenate([_packed(one) for one in mine]))
        by_learner = [_unpacked(one, mine) for one in packed]
        # In the order of learners: merging in another one would round otherwise.
        return [
            functools.reduce(Moments.merged, of_all) for of_all in zip(*by_learner, strict=True)
        ]


@final
class Alone(LearnerGroup):
    """A group of a single learner."""

    rank, size = 0, 1

    def average(self, vectors: Sequence[Any]) -> None:
        """Leave them as they are."""

    def share(self, tensors: Iterable[Any]) -> None:
        """Leave them as they are."""

    def rows(self, mine: Ndarray) -> Ndarray:
        """Return its own."""
        return mine[None]

    def gathered(self, mine: Any) -> list[Any]:
        """Return its own."""
        return [mine]


#: What learns by itself.
ALONE = Alone()


def learner_seed(seed: int, rank: int) -> int:
    """Return the training seed of learner `rank`; for learner 0, the run's."""
    # A run of one learner, and the first of several, draw alike.
    if rank == 0:
        return seed
    sequence = np.random.SeedSequence(seed, spawn_key=(rank,))
    return int(sequence.generate_state(1, np.uint32)[0])


def _packed(moments: Moments) -> Ndarray:
    return np.concatenate([[moments.num_rows], moments.mean.ravel(), moments.squares.ravel()])


def _unpacked(packed: Ndarray, like: Sequence[Moments]) -> list[Moments]:
    found, begin = [], 0
    for one in like:
        size = one.mean.size
        # After the count come the means and then the squares, as many as the part has numbers.
        mean, squares = np.split(packed[begin + 1 : begin + 1 + 2 * size], 2)
        shape = one.mean.shape
        found.append(Moments(float(packed[begin]), mean.reshape(shape), squares.reshape(shape)))
        begin += 1 + 2 * size
    return found
