"""SharedCall: one vector-env call, split over the processes of its rows."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.vector.memory.shared_outs import OutLayout
from plangym_ext.vector.sub_envs.checkpoint import RowCall
from plangym_ext.vector.sub_envs.replay_log import ReplayLog


class Share:
    """The rows of a call that lie in one process.

    Attributes:
        host: number of the process.
        rows: their numbers in the vector env.
        inside: their numbers in the process: a range if they adjoin, or a list.
        places: where they stand in the call, as an index: a slice if they adjoin, or a list.
        numbers: the same one by one.
        is_all: whether they are all rows of the process.
    """

    def __init__(
        self, host: int, hosted: range, rows: Sequence[int], places: slice | list[int]
    ) -> None:
        self.host, self.rows, self.places = host, rows, places
        self.numbers: Sequence[int] = (
            range(places.start, places.stop) if isinstance(places, slice) else places
        )
        self.inside = _adjoining([row - hosted.start for row in rows])
        self.is_all = len(rows) == len(hosted)

    def of(self, values: Any) -> Any:
        """Return the arguments of these rows, fresh, for a possible replay."""
        if isinstance(values, np.ndarray):
            return values[self.places].copy()
        if isinstance(self.places, slice):
            return list(values[self.places])
        return [values[k] for k in self.places]


def own_if_possible(values: Any) -> Any:
    """Return a copy of a caller's argument for a replay; the argument if it cannot be copied."""
    try:
        return copy.deepcopy(values)
    except Exception:  # whatever an object's own copying raises
        return values


def shares_of_all(ranges: Sequence[range]) -> list[Share]:
    """Divide all rows of the vector env among their processes, in order."""
    return [Share(k, rows, rows, slice(rows.start, rows.stop)) for k, rows in enumerate(ranges)]


def shares_of(rows: Sequence[int], ranges: Sequence[range]) -> list[Share]:
    """Divide some rows among their processes; a process without rows gets no share."""
    found = []
    for k, hosted in enumerate(ranges):
        places = [place for place, row in enumerate(rows) if row in hosted]
        if places:
            at = _adjoining(places)
            index = slice(at.start, at.stop) if isinstance(at, range) else at
            found.append(Share(k, hosted, [rows[place] for place in places], index))
    return found


def _adjoining(numbers: list[int]) -> range | list[int]:
    """Return numbers that follow each other as a range: arrays give views of those."""
    found = range(numbers[0], numbers[0] + len(numbers))
    return found if numbers == list(found) else numbers


class SharedCall(NamedTuple):
    """A call that was begun.

    Attributes:
        rows: numbers of its rows in the vector env.
        shares: those of each process that it concerns.
        calls: what each of these processes does.
        out: what it is written to, or None.
        ahead: whether it follows calls that were not finished when it was made.
        logs: of these processes, followed by the processes whose rows are only restored; none
            before its turn has come.
    """

    rows: Sequence[int]
    shares: list[Share]
    calls: list[RowCall]
    out: OutLayout | None
    ahead: bool
    logs: list[ReplayLog]

    def unmoved(self) -> Iterator[tuple[Share, ReplayLog]]:
        """Yield shares and logs of processes that have answered without moving their rows.

        The call may have failed in another process.
        """
        for share, log in zip(self.shares, self.logs, strict=False):
            if not getattr(log.reply, "moved", True):
                yield share, log

    def in_order(self, results: Iterable[Sequence[Any]]) -> list[Any]:
        """Return each row's result in the order of the call; `results`: of each share."""
        found: list[Any] = [None] * len(self.rows)
        for share, part in zip(self.shares, results, strict=True):
            for number, result in zip(share.numbers, part, strict=True):
                found[number] = result
        return found
