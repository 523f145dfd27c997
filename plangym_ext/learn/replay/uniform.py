"""ReplayBuffer: ring buffer with uniform sampling; helpers for nested rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, final

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
        """Return the rows that are there."""
        return self._size

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
        """Refuse to draw from nothing."""
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

    def all(self) -> dict[str, Any]:
        """Return copies of all rows; see `Replay.all`."""
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
        """Copy rows in; see `Replay.add`."""
        self._ring.check(samples)
        self._ring.add(samples)

    def sample(self, batch_size: int) -> Batch:
        """Draw rows; see `Replay.sample`."""
        at_least(f"{self._name}: batch_size", batch_size, 1)
        self._ring.check_filled()
        places = self._rng.integers(len(self._ring), size=batch_size)
        return Batch(self._ring.take(places), places, np.ones(batch_size, np.float32))

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
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", np.asarray(value)


def mapped(samples: Mapping[str, Any], change: Callable[[Ndarray], Any]) -> dict[str, Any]:
    """Apply `change` to every array; return an equally nested value."""
    found: dict[str, Any] = nested.mapped(lambda value: change(np.asarray(value)), samples)
    return found


def joined(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the rows of all parts one after the other."""
    return {
        name: joined([part[name] for part in parts])
        if isinstance(value, Mapping)
        else np.concatenate([part[name] for part in parts])
        for name, value in parts[0].items()
    }
