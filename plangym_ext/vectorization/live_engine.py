"""Rows that are envs of their own, played in place: in this process, or many in each worker."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.vectorization.live_rows import Played
from plangym_ext.vectorization.obs_board import ObsBoard, board_bytes, layout_of
from plangym_ext.vectorization.row_engine import (
    PlayedLater,
    ResultsLater,
    RowEngine,
    RowsDescription,
)
from plangym_ext.vectorization.row_hosts import HostedRows, LocalHost, RowHost, WorkerHost
from plangym_ext.vectorization.row_lane import RowLane, finish_all


class LiveEngine(RowEngine):
    """Moves live envs; see `RowEngine`.

    Args:
        makes: constructor of each row's env.
        n_workers: processes to share them, at most one for each row; None for this one.
        settings: for `LiveRows`: how states are captured.
    """

    def __init__(
        self,
        makes: Sequence[Callable[[], Any]],
        n_workers: int | None,
        settings: dict[str, Any],
    ) -> None:
        self._ranges = _shares(len(makes), n_workers or 1)
        self._hosts: list[RowHost] = []
        self._block: SharedBlock | None = None
        try:
            for index, rows in enumerate(self._ranges):
                hosted = HostedRows(makes[rows.start : rows.stop], rows.start, settings)
                host = LocalHost(hosted) if n_workers is None else WorkerHost(hosted, index)
                self._hosts.append(host)
            # All workers start before any is waited for.
            self._described = [host.describe() for host in self._hosts]
        except BaseException:
            self.close()
            raise
        self._lanes = [
            RowLane(host, rows, all(found["captures"]))
            for host, rows, found in zip(self._hosts, self._ranges, self._described, strict=True)
        ]

    @property
    def backend(self) -> str:
        """See `RowEngine`."""
        return "process" if isinstance(self._hosts[0], WorkerHost) else "serial"

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """See `RowEngine`."""
        workers = [host.worker for host in self._hosts if isinstance(host, WorkerHost)]
        return tuple(worker.process.pid for worker in workers)

    @property
    def description(self) -> RowsDescription:
        """See `RowEngine`."""
        first = self._described[0]
        return RowsDescription(
            first["name"],
            [space for found in self._described for space in found["observation_spaces"]],
            [space for found in self._described for space in found["action_spaces"]],
            first["metadata"],
            first["render_mode"],
        )

    @property
    def lost(self) -> bool:
        """See `RowEngine`."""
        return any(lane.lost for lane in self._lanes)

    def use(self, space: spaces.Space[Any]) -> None:
        """See `RowEngine`."""
        num_rows = self._ranges[-1].stop
        layout, memory = layout_of(space), None
        if layout is not None and self.worker_pids:
            self._block = SharedBlock.create(board_bytes(layout, num_rows))
            memory = self._block.ndarray((self._block.nbytes,), np.uint8)
        self.board = ObsBoard(space, num_rows, memory)
        for host in self._hosts:
            host.use(self.board, self._block)

    # Playing ------------------------------------------------------------------------

    def begin_reset(
        self, rows: Sequence[int], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> PlayedLater:
        """See `RowEngine`."""

        def arguments(chosen: _Chosen) -> tuple[Any, ...]:
            return chosen.inside, chosen.of(seeds), options

        return functools.partial(self._played, self._begin("reset", rows, arguments))

    def begin_step(
        self,
        rows: Sequence[int],
        actions: Sequence[Any] | np.ndarray,
        resets: Sequence[bool],
        same_step: bool,
    ) -> PlayedLater:
        """See `RowEngine`."""

        def arguments(chosen: _Chosen) -> tuple[Any, ...]:
            return chosen.inside, chosen.of(actions), chosen.of(resets), same_step

        return functools.partial(self._played, self._begin("step", rows, arguments))

    def _played(self, pending: _Pending, timeout: float | None) -> Played:
        results: list[Played] = pending.wait(timeout)
        if not self.board.is_array:
            for chosen, found in zip(pending.chosen, results, strict=True):
                for row, obs in zip(chosen.rows, found.obs or (), strict=True):
                    self.board.put(row, obs)
        return _merged(pending, results)

    # Everything else ----------------------------------------------------------------

    def begin_call(
        self, rows: Sequence[int], name: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> ResultsLater:
        """See `RowEngine`."""
        return self._begin("call", rows, lambda c: (c.inside, name, args, kwargs)).in_order

    def set_attr(self, rows: Sequence[int], name: str, values: Sequence[Any]) -> None:
        """See `RowEngine`."""
        self._begin("set_attr", rows, lambda c: (c.inside, name, c.of(values))).wait(None)

    def get_states(self, rows: Sequence[int]) -> list[np.ndarray]:
        """See `RowEngine`."""
        return self._begin("get_states", rows, lambda c: (c.inside,)).in_order(None)

    def set_states(
        self, rows: Sequence[int], states: Sequence[np.ndarray], observations: Any
    ) -> None:
        """See `RowEngine`."""

        def arguments(chosen: _Chosen) -> tuple[Any, ...]:
            shown = None if observations is None else chosen.of(observations)
            return chosen.inside, chosen.of(states), shown

        self._begin("set_states", rows, arguments).wait(None)
        if observations is not None and not self.board.is_array:
            for row, obs in zip(rows, observations, strict=True):
                self.board.put(row, obs)

    def _begin(
        self, name: str, rows: Sequence[int], arguments: Callable[[_Chosen], tuple[Any, ...]]
    ) -> _Pending:
        """Begin a method of `LiveRows` wherever it concerns a row."""
        pending = _Pending(len(rows), [], [])
        try:
            for lane in self._lanes:
                chosen = _chosen(rows, lane.rows)
                if chosen.rows:
                    pending.lanes.append(lane)
                    pending.chosen.append(chosen)
                    lane.begin(name, *arguments(chosen))
        except BaseException:
            for lane in pending.lanes:
                lane.undo(hurry=True)
            raise
        return pending

    def close(self) -> None:
        """See `RowEngine`."""
        for host in self._hosts:
            host.begin_close()
        for host in self._hosts:
            host.close()
        if self._block is not None:
            self._block.close()  # observations that callers hold stay valid
            self._block = None
            del self.board  # its memory is a descriptor, too


class _Chosen:
    """The rows of a call that one lane has.

    Attributes:
        rows: their numbers in the vector env.
        inside: their numbers in the lane.
        places: where they stand in the call, as an index: a slice, or a list.
        numbers: the same one by one.
    """

    def __init__(self, rows: Sequence[int], first: int, places: slice | list[int]) -> None:
        self.rows, self.places = rows, places
        self.numbers: Sequence[int] = (
            range(places.start, places.stop) if isinstance(places, slice) else places
        )
        self.inside = [row - first for row in rows]

    def of(self, values: Any) -> Any:
        """What belongs to these rows, nobody else's: it may be played again later."""
        if isinstance(values, np.ndarray):
            return values[self.places].copy()
        if isinstance(self.places, slice):
            return list(values[self.places])
        return [values[k] for k in self.places]


def _chosen(rows: Sequence[int], lane: range) -> _Chosen:
    if isinstance(rows, range):
        # All rows of the vector env, in order.
        return _Chosen(lane, lane.start, slice(lane.start, lane.stop))
    places = [k for k, row in enumerate(rows) if row in lane]
    return _Chosen([rows[k] for k in places], lane.start, places)


class _Pending:
    """A call that some lanes have begun."""

    def __init__(self, num_rows: int, lanes: list[RowLane], chosen: list[_Chosen]) -> None:
        self.num_rows, self.lanes, self.chosen = num_rows, lanes, chosen

    def wait(self, timeout: float | None) -> list[Any]:
        """What each lane returns."""
        return finish_all(self.lanes, timeout)

    def in_order(self, timeout: float | None) -> list[Any]:
        """What each row returns, in the order of the call."""
        found: list[Any] = [None] * self.num_rows
        for chosen, results in zip(self.chosen, self.wait(timeout), strict=True):
            for number, result in zip(chosen.numbers, results, strict=True):
                found[number] = result
        return found


def _shares(num_rows: int, num_hosts: int) -> list[range]:
    """Rows of each host: as even as can be, in order, none without any."""
    num_hosts = min(num_rows, num_hosts)
    ends = [num_rows * k // num_hosts for k in range(num_hosts + 1)]
    return [range(a, b) for a, b in itertools.pairwise(ends)]


def _merged(pending: _Pending, results: list[Played]) -> Played:
    """What came of all rows of a call, in its order."""
    if len(results) == 1 and isinstance(pending.chosen[0].places, slice):
        return results[0]._replace(states=None)
    num = pending.num_rows
    rewards, terminations, truncations = np.zeros(num), np.zeros(num, bool), np.zeros(num, bool)
    infos: list[tuple[int, dict[str, Any]]] = []
    finals: list[tuple[int, Any, dict[str, Any]]] = []
    for chosen, found in zip(pending.chosen, results, strict=True):
        at = chosen.places
        rewards[at], terminations[at] = found.rewards, found.terminations
        truncations[at] = found.truncations
        infos += [(chosen.numbers[k], info) for k, info in found.infos]
        finals += [(chosen.numbers[k], obs, info) for k, obs, info in found.finals]
    infos.sort(key=lambda entry: entry[0])
    finals.sort(key=lambda entry: entry[0])
    return Played(rewards, terminations, truncations, infos, finals, None, None)
