"""Replays with uniform sampling: ring, ReplayBuffer, BalancedReplay; helpers for nested rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import nested
from plangym_ext.core.numbers import at_least
from plangym_ext.errors import InvalidSamples, ReplayEmpty
from plangym_ext.learn.replay.base import Batch, Replay, Samples

Positions = npt.NDArray[np.int64]


class Ring:
    """At most `capacity` rows, each at a position that it keeps until it is overwritten.

    Args:
        capacity: rows.
        where: begins the messages.
    """

    def __init__(self, capacity: int, where: str) -> None:
        self.capacity, self._where = capacity, where
        self._rows: dict[str, Any] | None = None
        self._cursor = 0  # position of the next row
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def stored(self) -> dict[str, Any]:
        """The arrays `[capacity, ...]` of all rows, by name."""
        assert self._rows is not None
        return self._rows

    @property
    def by_age(self) -> Positions:
        """`[len]` positions, the oldest row first."""
        # numpy's remainder has the sign of the capacity, so places before the cursor wrap to the
        # end.
        return (self._cursor - self._size + np.arange(self._size)) % self.capacity

    def counted_back(self, back: Positions) -> Positions:
        """Return the positions `[N]` of rows by how new they are: 1 is the newest."""
        return (self._cursor - back) % self.capacity

    def check(self, samples: Mapping[str, Any]) -> int:
        """Return the number of rows in `samples`; raise if they cannot be added."""
        arrays = dict(leaves(samples))
        # -1: a number without an axis has no rows.
        lengths = {name: len(array) if array.ndim else -1 for name, array in arrays.items()}
        if len(set(lengths.values())) != 1 or -1 in lengths.values():
            raise InvalidSamples(
                f"{self._where}: samples must be arrays [N, ...] with one N; got "
                f"{lengths or 'none'}. Add one row for every step."
            )
        if self._rows is not None:
            # Before a row is written: samples that do not fit leave the ring as it was.
            self._compare({name: _form(array[:0]) for name, array in arrays.items()})
        return next(iter(lengths.values()))

    def _compare(self, given: dict[str, tuple[tuple[int, ...], str]]) -> None:
        assert self._rows is not None
        kept = {name: _form(array) for name, array in leaves(self._rows)}
        if given != kept:
            names = sorted({*given, *kept})
            odd = [name for name in names if given.get(name) != kept.get(name)]
            raise InvalidSamples(
                f"{self._where}: a row must be what the first ones were, by name, shape and dtype; "
                + "; ".join(f"{n} was {kept.get(n)}, got {given.get(n)}" for n in odd)
                + ". Convert it, or begin a new buffer."
            )

    def add(self, samples: Mapping[str, Any]) -> Positions:
        """Copy N rows in, which `check` has passed; return the positions `[min(N, capacity)]`."""
        count = len(next(leaves(samples))[1])
        if self._rows is None:
            self._rows = self._room_for(samples)
        # As many as fit, at the places where they would be had they come one by one.
        kept = min(count, self.capacity)
        places = (self._cursor + np.arange(count - kept, count)) % self.capacity
        for (_, target), (_, array) in zip(leaves(self._rows), leaves(samples), strict=True):
            target[places] = array[count - kept :]
        self._cursor = (self._cursor + count) % self.capacity
        self._size = min(self._size + count, self.capacity)
        return places

    def _room_for(self, samples: Mapping[str, Any]) -> dict[str, Any]:
        odd = [f"{name} {array.dtype}" for name, array in leaves(samples) if not _is_number(array)]
        if odd:
            raise InvalidSamples(
                f"{self._where}: samples must be arrays of numbers; got {', '.join(odd)}."
            )
        # As zeros, of which the system gives memory when they are first written.
        return mapped(samples, lambda a: np.zeros((self.capacity, *a.shape[1:]), a.dtype))

    def check_filled(self) -> None:
        """Raise if there are no rows to draw."""
        if not self._size:
            raise ReplayEmpty(
                f"{self._where}: there must be rows to draw from; none were added. Collect first."
            )

    def take(self, places: Positions, names: Sequence[str] = ()) -> dict[str, Any]:
        """Return copies of some rows `[N, ...]` by name; without names all arrays of them."""
        self.check_filled()
        assert self._rows is not None
        chosen = {name: self._rows[name] for name in names} or self._rows
        return mapped(chosen, lambda leaf: leaf[places])

    def replace(self, places: Positions, samples: Mapping[str, Any]) -> None:
        """Overwrite some arrays of some rows, `[N, ...]` by name, not nested."""
        assert self._rows is not None
        for name, array in samples.items():
            self._rows[name][places] = array

    def state_dict(self) -> dict[str, Any]:
        """Return copies of the rows by position, and where the next one goes."""
        # Positions 0 to size - 1 are filled even before the ring is full: the cursor begins at 0.
        rows = self.take(np.arange(self._size)) if self._size else {}
        return {"rows": rows, "cursor": self._cursor}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], capacity: int, where: str) -> Ring:
        """Return the ring that was saved."""
        ring = cls(capacity, where)
        if state["rows"]:
            ring.check(state["rows"])
            ring.add(state["rows"])
        # `add` has put it after the rows, where it was only if the ring was not full yet.
        ring._cursor = int(state["cursor"])
        return ring


class RowReplay(Replay):
    """Abstract base of replays whose rows lie in one ring, and have an index each."""

    _ring: Ring

    def rows(self, indices: Positions, names: Sequence[str] = ()) -> dict[str, Any]:
        """Return copies of arrays `[N, ...]` of some rows by name.

        Args:
            indices: `[N]` int64, or of more axes, of a `Batch` or of `counted_back`; those that
                follow one, modulo the rows that are there, are of the rows added after it.
            names: of the arrays; none: all of them.
        """
        return self._ring.take(indices, names)

    def replace(self, indices: Positions, samples: Samples) -> None:
        """Overwrite some arrays of some rows, such as improved targets.

        Args:
            indices: `[N]` int64 of a `Batch`, or of `counted_back`.
            samples: arrays `[N, ...]` by name, of those that were added; not nested.
        """
        self._ring.check_filled()
        self._ring.replace(indices, samples)

    def counted_back(self, back: Positions) -> Positions:
        """Return the indices of the rows of given ages, a fresh array.

        Args:
            back: `[N]` int64 from 1, the newest row, to `len`, the oldest one.
        """
        return self._ring.counted_back(back)

    def sample(self, batch_size: int) -> Batch:
        at_least(f"{self._name}: batch_size", batch_size, 1)
        self._ring.check_filled()
        places = self._rng.integers(len(self._ring), size=batch_size)
        return Batch(self._ring.take(places), places, np.ones(batch_size, np.float32))

    def all(self) -> dict[str, Any]:
        return self._ring.take(self._ring.by_age)

    def __len__(self) -> int:
        return len(self._ring)


@final
class ReplayBuffer(RowReplay):
    """The newest `capacity` rows, sampled uniformly.

    Args:
        capacity: rows, at least 1. Memory is taken as rows come.
        seed: of the sampling.
    """

    def __init__(self, capacity: int, *, seed: int) -> None:
        super().__init__(capacity, seed=seed)
        self._ring = Ring(self.capacity, self._name)

    def add(self, samples: Samples) -> None:
        self._ring.check(samples)
        self._ring.add(samples)

    def _contents(self) -> dict[str, Any]:
        return self._ring.state_dict()

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._ring = Ring.from_state(state, self.capacity, self._name)


def _form(array: npt.NDArray[Any]) -> tuple[tuple[int, ...], str]:
    """Return the shape of one row and dtype."""
    return array.shape[1:], str(array.dtype)


def _is_number(array: npt.NDArray[Any]) -> bool:
    return array.dtype.kind in "biufc"


Ndarray = npt.NDArray[Any]


def leaves(samples: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Ndarray]]:
    """Yield (dotted name, array) for every array, in order."""
    for name, value in samples.items():
        # As `nested.mapped` goes through them.
        if isinstance(value, tuple):
            yield from leaves({str(i): part for i, part in enumerate(value)}, f"{prefix}{name}.")
        elif isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", np.asarray(value)


def mapped(samples: Mapping[str, Any], change: Callable[[Ndarray], Any]) -> dict[str, Any]:
    """Apply `change` to every array; return an equally nested value."""
    found: dict[str, Any] = nested.mapped(lambda value: change(np.asarray(value)), samples)
    return found


def joined(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the rows of all parts one after the other."""
    found: dict[str, Any] = nested.mapped(lambda *rows: np.concatenate(rows), *parts)
    return found


# BalancedReplay: replay buffer with equal draws from each group of rows -------


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
        at_least(f"{self._name}: batch_size", batch_size, 1)
        rings = self._filled()
        # In order, so that a group is one piece of the batch.
        numbers = np.sort(self._rng.choice(len(rings), size=batch_size, p=self._shares()))
        places = self._rng.integers(np.array([len(ring) for ring in rings])[numbers])
        drawn = [rings[number].take(places[numbers == number]) for number in np.unique(numbers)]
        # One number for ring and place; no ring has more than `capacity` places.
        indices = numbers * self.capacity + places
        return Batch(joined(drawn), indices, np.ones(batch_size, np.float32))

    @property
    def groups(self) -> list[int]:
        """The groups of one level that have rows, in the order of their first rows."""
        return [group[0] for group in self._buckets]

    def sample_groups(self, groups: Sequence[int], size: int) -> dict[str, Any]:
        """Draw `size` rows of each of some groups; fresh arrays `[G * size, ...]`, by group."""
        rings = [self._buckets[group,].ring for group in groups]
        places = [self._rng.integers(len(ring), size=size) for ring in rings]
        return joined([ring.take(at) for ring, at in zip(rings, places, strict=True)])

    def sample_runs(self, groups: Sequence[int], size: int) -> dict[str, Any]:
        """Draw `size` consecutive rows of each of some groups; fresh arrays as `sample_groups`.

        After the newest row comes the oldest.
        """
        rings, run = [self._buckets[group,].ring for group in groups], np.arange(size)
        places = [(self._rng.integers(len(ring)) + run) % len(ring) for ring in rings]
        return joined([ring.take(at) for ring, at in zip(rings, places, strict=True)])

    def all(self) -> dict[str, Any]:
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
