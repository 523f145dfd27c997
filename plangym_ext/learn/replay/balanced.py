"""BalancedReplay: replay buffer with equal draws from each group of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from plangym_ext.core.numbers import at_least
from plangym_ext.errors import InvalidSamples
from plangym_ext.learn.replay.base import Batch, Replay, Samples
from plangym_ext.learn.replay.uniform import Ring, joined, mapped

Group = tuple[int, ...]


class _Bucket(NamedTuple):
    """The rows of one group."""

    ring: Ring
    ages: npt.NDArray[np.int64]  # [capacity] number of each row among all that were added


@final
class BalancedReplay(Replay):
    """Rows in groups (such as solved or unsolved episodes), with equal draws from each group.

    A group is drawn uniformly among those that there are, then one of its rows. Groups of
    several levels (`[N, L]`) are drawn level by level. The rows of a batch lie group by
    group. Its indices are the group's number, in the order in which groups first came,
    times the capacity, plus the row's position.

    Args:
        capacity: rows kept of every group, at least 1: a rare group keeps its rows,
            however many come of the others.
        seed: of the sampling.

    Source: Alpacka's hierarchical replay buffer.
    """

    def __init__(self, capacity: int, *, seed: int) -> None:
        super().__init__(capacity, seed=seed)
        self._buckets: dict[Group, _Bucket] = {}
        self._added = 0  # rows, ever

    def add(self, samples: Samples, groups: npt.ArrayLike | None = None) -> None:
        """Copy N rows in; see `Replay.add`.

        Args:
            samples: arrays `[N, ...]` by name.
            groups: `[N]` or `[N, L]` ints or bools, always of as many levels; required.
        """
        ring = next((bucket.ring for bucket in self._buckets.values()), self._new_ring())
        levels = self._checked(groups, ring.check(samples))
        for group in dict.fromkeys(map(tuple, levels.tolist())):
            if group not in self._buckets:
                ages = np.zeros(self.capacity, np.int64)
                self._buckets[group] = _Bucket(self._new_ring(), ages)
            ring, ages = self._buckets[group]
            rows = np.flatnonzero((levels == group).all(axis=1))
            places = ring.add(mapped(samples, lambda array, rows=rows: array[rows]))  # type: ignore[misc]
            # Of more rows than a ring has room for, the last ones are there.
            ages[places] = self._added + rows[len(rows) - len(places) :]
        self._added += len(levels)

    def sample(self, batch_size: int) -> Batch:
        """Draw rows; see `Replay.sample`."""
        at_least(f"{self._name}: batch_size", batch_size, 1)
        rings = self._filled()
        # In order, so that a group is one piece of the batch.
        numbers = np.sort(self._rng.choice(len(rings), size=batch_size, p=self._shares()))
        places = self._rng.integers(np.array([len(ring) for ring in rings])[numbers])
        drawn = [rings[number].take(places[numbers == number]) for number in np.unique(numbers)]
        # One number for ring and place; no ring has more than `capacity` places.
        indices = numbers * self.capacity + places
        return Batch(joined(drawn), indices, np.ones(batch_size, np.float32))

    def all(self) -> dict[str, Any]:
        """Return copies of all rows; see `Replay.all`."""
        together = joined([ring.take(ring.by_age) for ring in self._filled()])
        ages = [bucket.ages[bucket.ring.by_age] for bucket in self._buckets.values()]
        # Each ring is in its own order; ages count over all of them.
        order = np.argsort(np.concatenate(ages))
        return mapped(together, lambda array: array[order])

    def __len__(self) -> int:
        return sum(len(bucket.ring) for bucket in self._buckets.values())

    def _new_ring(self) -> Ring:
        return Ring(self.capacity, self._name)

    def _filled(self) -> list[Ring]:
        """Return the rings, at least one."""
        if not self._buckets:
            self._new_ring().check_filled()
        return [bucket.ring for bucket in self._buckets.values()]

    def _shares(self) -> list[float]:
        """Return the probability of each group: alike for the branches of every level."""
        shares = []
        for group in self._buckets:
            share = 1.0
            for level in range(len(group)):
                beside = {other[level] for other in self._buckets if other[:level] == group[:level]}
                share /= len(beside)
            shares.append(share)
        return shares

    def _checked(self, groups: npt.ArrayLike | None, count: int) -> npt.NDArray[np.int64]:
        """Return the groups as `[N, L]`."""
        given = np.asarray(groups)
        levels = given[:, None] if given.ndim == 1 else given
        # The first rows decide how many levels there are.
        depth = len(next(iter(self._buckets), range(levels.shape[-1] if levels.ndim else 0)))
        if given.dtype.kind not in "biu" or depth < 1 or levels.shape != (count, depth):
            raise InvalidSamples(
                f"{self._name}: groups must be ints or bools, one per row, [{count}] or "
                f"[{count}, {depth or 'L'}]; got {given.dtype} {given.shape}. Pass an attribute "
                f"of the episode for each of its steps."
            )
        return levels.astype(np.int64)

    def _contents(self) -> dict[str, Any]:
        buckets = enumerate(self._buckets.values())
        return {
            "groups": np.array(list(self._buckets), np.int64),
            "buckets": {
                str(number): {
                    **bucket.ring.state_dict(),
                    "ages": bucket.ages[: len(bucket.ring)].copy(),
                }
                for number, bucket in buckets
            },
            "added": self._added,
        }

    def _restore(self, state: Mapping[str, Any]) -> None:
        buckets: dict[Group, _Bucket] = {}
        for number, group in enumerate(np.asarray(state["groups"]).tolist()):
            saved = state["buckets"][str(number)]
            ring = Ring.from_state(saved, self.capacity, self._name)
            ages = np.zeros(self.capacity, np.int64)
            ages[: len(ring)] = saved["ages"]
            buckets[tuple(group)] = _Bucket(ring, ages)
        self._buckets, self._added = buckets, int(state["added"])
