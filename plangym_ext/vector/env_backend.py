"""Rows that are envs of their own, played in place: in this process, or many in each worker."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.core.invalid import checked_policy
from plangym_ext.vector.backend import (
    PlayedLater,
    ResultsLater,
    RowsDescription,
    VectorBackend,
)
from plangym_ext.vector.hosts import (
    LINE_WORDS,
    HostedRows,
    LocalHost,
    RowHost,
    RowMemory,
    WorkerHost,
    row_memory,
)
from plangym_ext.vector.obs_buffer import ObsBuffer, board_bytes, layout_of
from plangym_ext.vector.past import Past
from plangym_ext.vector.played import Called, Played
from plangym_ext.vector.replay_log import ReplayLog
from plangym_ext.vector.row_values import RowValues
from plangym_ext.vector.shared_call import (
    ChosenRows,
    LaneWatch,
    SharedCall,
    chosen_rows,
    merged,
    shares,
)
from plangym_ext.workers.close_errors import warn_of
from plangym_ext.workers.descriptors import check_descriptors


class EnvBackend(VectorBackend):
    """Moves live envs; see `VectorBackend`.

    Args:
        makes: constructor of each row's env.
        n_workers: processes to share them, at most one for each row; None for this one.
        settings: for `LiveRows`: how states are captured.
        timeout: seconds that one row may take before its worker counts as hung, or None.
        invalid: what is done about invalid observations and rewards, one of `POLICIES`.
    """

    def __init__(
        self,
        makes: Sequence[Callable[[], Any]],
        n_workers: int | None,
        settings: dict[str, Any],
        *,
        timeout: float | None = None,
        invalid: str = "off",
    ) -> None:
        self._ranges = shares(len(makes), n_workers or 1)
        self._hosts: list[RowHost] = []
        self._memory: RowMemory | None = None
        self._invalid = checked_policy(invalid, "make_vec")
        try:
            if n_workers is not None:
                check_descriptors(len(self._ranges))
            for index, rows in enumerate(self._ranges):
                hosted = HostedRows(makes[rows.start : rows.stop], rows.start, settings)
                host = LocalHost(hosted) if n_workers is None else WorkerHost(hosted, index)
                self._hosts.append(host)
            # All workers start before any is waited for.
            self._described = _descriptions(self._hosts)
        except BaseException:
            self.close()
            raise
        self.lanes = [
            ReplayLog(host, rows, timeout, functools.partial(self._show, rows))
            for host, rows in zip(self._hosts, self._ranges, strict=True)
        ]
        self._watch = LaneWatch(self.lanes)
        pasts = tuple(
            Past((None,) * len(rows), all(found["captures"]))
            for rows, found in zip(self._ranges, self._described, strict=True)
        )
        for lane, past in zip(self.lanes, pasts, strict=True):
            lane.arrived(past)
        #: Where the rows of every lane should be, and the note that belongs to that: one
        #: object, so that an interrupt finds all of it replaced or nothing.
        self._kept: tuple[tuple[Past, ...], Any] = pasts, None
        #: Where the calls lead that have succeeded and were not kept yet.
        self._reached: dict[int, Past] = {}

    @property
    def backend(self) -> str:
        """See `VectorBackend`."""
        return "process" if isinstance(self._hosts[0], WorkerHost) else "serial"

    @property
    def backend_note(self) -> str:
        """See `VectorBackend`."""
        reasons: dict[str, list[int]] = {}
        told = [reason for found in self._described for reason in found["no_states"]]
        for row, reason in enumerate(told):
            if reason:
                reasons.setdefault(reason, []).append(row)
        return "\n".join(f"sub-envs {rows}: {reason}" for reason, rows in reasons.items())

    @property
    def envs(self) -> list[gym.Env[Any, Any]]:
        """See `VectorBackend`."""
        host = self._hosts[0]
        return host.envs if isinstance(host, LocalHost) else super().envs

    @property
    def signs(self) -> Sequence[int]:  # type: ignore[override]
        """See `VectorBackend`."""
        return [fd for host in self._hosts for fd in host.signs]

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """See `VectorBackend`."""
        workers = [host.worker for host in self._hosts if isinstance(host, WorkerHost)]
        return tuple(worker.process.pid for worker in workers)

    @property
    def description(self) -> RowsDescription:
        """See `VectorBackend`."""
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
        """See `VectorBackend`."""
        return any(map(ReplayLog.is_lost, self.lanes, self._kept[0]))

    def use(self, space: spaces.Space[Any]) -> None:
        """See `VectorBackend`."""
        num_rows, num_hosts = self._ranges[-1].stop, len(self._hosts)
        strict, block, memory = self._invalid != "off", None, None
        lines = np.zeros((num_hosts, LINE_WORDS), np.int64)
        if self.backend == "process":
            layout = layout_of(space)
            nbytes = 0 if layout is None else board_bytes(layout, num_rows)
            block = SharedBlock.create(lines.nbytes + max(1, nbytes))
            lines, memory = row_memory(block, num_hosts)
        self.board = ObsBuffer(space, num_rows, memory, strict=strict)
        self._values = RowValues(self._invalid, self.board, self._described[0]["name"])
        self._memory = RowMemory(self.board, block, lines)
        for index, host in enumerate(self._hosts):
            host.use(self._memory, index)

    def _show(self, rows: range, shown: Any) -> None:
        if shown is not None:
            self.board.give(rows, shown)

    # What is kept -------------------------------------------------------------------

    @property
    def note(self) -> Any:
        """See `VectorBackend`."""
        return self._kept[1]

    def keep(self, note: Any) -> None:
        """See `VectorBackend`."""
        pasts, _ = self._kept
        reached = self._reached
        if len(reached) == len(pasts):
            pasts = tuple(reached.values())
        elif reached:
            pasts = tuple(reached.get(k, past) for k, past in enumerate(pasts))
        self._kept = pasts, note  # from here on, and not before, the calls have happened
        self._reached = {}

    # Playing ------------------------------------------------------------------------

    def begin_reset(
        self, rows: Sequence[int], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> PlayedLater:
        """See `VectorBackend`."""

        def arguments(chosen: ChosenRows) -> tuple[Any, ...]:
            return chosen.inside, chosen.of(seeds), options

        return functools.partial(self._played, self._begin("reset", rows, arguments))

    def begin_step(
        self,
        rows: Sequence[int],
        actions: Sequence[Any] | np.ndarray,
        resets: np.ndarray,
        same_step: bool,
    ) -> PlayedLater:
        """See `VectorBackend`."""
        flags = resets.tolist()

        def arguments(chosen: ChosenRows) -> tuple[Any, ...]:
            return chosen.inside, chosen.of(actions), chosen.of(flags), same_step

        return functools.partial(self._played, self._begin("step", rows, arguments))

    def _played(self, pending: SharedCall, timeout: float | None) -> Played:
        results: list[Played] = self._finish(pending, timeout)
        if not self.board.is_array:
            for chosen, found in zip(pending.chosen, results, strict=True):
                for row, obs in zip(chosen.rows, found.obs or (), strict=True):
                    self.board.put(row, obs)
        played = self._values.checked(merged(pending, results), pending.rows)
        self._reach(pending, results)
        return played

    # Everything else ----------------------------------------------------------------

    def begin_call(
        self, rows: Sequence[int], name: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> ResultsLater:
        """See `VectorBackend`."""
        pending = self._begin("call", rows, lambda c: (c.inside, name, args, kwargs))
        return functools.partial(self._called, pending)

    def _called(self, pending: SharedCall, timeout: float | None) -> list[Any]:
        results: list[Called] = self._finish(pending, timeout)
        if any(found.moves for found in results):
            self._reach(pending, results)
            self.keep(self.note)
        else:
            self._stay(pending)
        return pending.in_order([found.results for found in results])

    def set_attr(self, rows: Sequence[int], name: str, values: Sequence[Any]) -> None:
        """See `VectorBackend`."""
        pending = self._begin("set_attr", rows, lambda c: (c.inside, name, c.of(values)))
        self._reach(pending, self._finish(pending, None))
        self.keep(self.note)

    def get_states(self, rows: Sequence[int]) -> list[np.ndarray]:
        """See `VectorBackend`."""
        pending = self._begin("get_states", rows, lambda c: (c.inside,))
        return pending.in_order(self._finish(pending, None))

    def set_states(
        self, rows: Sequence[int], states: Sequence[np.ndarray], observations: Any
    ) -> None:
        """See `VectorBackend`."""

        def arguments(chosen: ChosenRows) -> tuple[Any, ...]:
            shown = None if observations is None else chosen.of(observations)
            return chosen.inside, chosen.of(states), shown

        pending = self._begin("set_states", rows, arguments)
        results = self._finish(pending, None)
        if observations is not None and not self.board.is_array:
            for row, obs in zip(rows, observations, strict=True):
                self.board.put(row, obs)
        self._reach(pending, results)

    # Calls of all lanes -------------------------------------------------------------

    def _begin(
        self, name: str, rows: Sequence[int], arguments: Callable[[ChosenRows], tuple[Any, ...]]
    ) -> SharedCall:
        """Begin a method of `LiveRows` wherever it concerns a row.

        Rows that it does not concern are brought where they should be, too: what they show is
        part of some results.
        """
        pending = SharedCall(rows)
        self._reached = {}
        for k, (lane, past) in enumerate(zip(self.lanes, self._kept[0], strict=True)):
            chosen = chosen_rows(rows, lane.rows)
            if chosen.rows:
                pending.add(k, lane, chosen)
                anew = name == "reset" and len(chosen.rows) == len(lane.rows)
                lane.begin(past, (name, arguments(chosen)), anew=anew)
            elif lane.is_off(past) and not lane.is_lost(past):
                pending.others.append(lane)
                lane.begin(past, None)
        return pending

    def _finish(self, pending: SharedCall, timeout: float | None) -> list[Any]:
        """What the call returns, of each lane that it concerns.

        Raises:
            WorkerTimeout: a worker did not answer in time and was stopped.
            WorkerDied: one died again and again.
            Exception: what an env raised: the first lane's of those that failed.
        """
        lanes = pending.lanes
        if pending.others:
            lanes = [*lanes, *pending.others]
        self._watch.finish(lanes, timeout)
        errors = [lane.error for lane in lanes if lane.error is not None]
        if errors:
            raise one_error(errors)
        return [lane.found for lane in pending.lanes]

    def _reach(self, pending: SharedCall, results: Sequence[Any]) -> None:
        """Note where lanes have come to; `keep` makes that count."""
        for k, lane, call, found in zip(
            pending.places, pending.lanes, pending.calls, results, strict=True
        ):
            past = self._kept[0][k]
            states = found.states
            if states:
                past = past.captured(call, states, self.board.taken(lane.rows))
            elif states is None or not past.captures:
                past = past.after(call, found.seen if isinstance(found, Played) else None)
                if not self.board.is_array and past.captures:
                    past = dataclasses.replace(past, shown=self.board.taken(lane.rows))
            else:
                past = past.given_up(call)
            lane.arrived(past)
            self._reached[k] = past

    def _stay(self, pending: SharedCall) -> None:
        """Note that lanes are where they were: the call has moved nothing."""
        for k, lane in zip(pending.places, pending.lanes, strict=True):
            lane.arrived(self._kept[0][k])

    def close(self) -> None:
        """See `VectorBackend`."""
        for host in self._hosts:
            host.begin_close()
        errors = [host.close() for host in self._hosts]
        if self._memory is not None:
            if self._memory.block is not None:
                self._memory.block.close()  # observations that callers hold stay valid
            # The memory under these is a descriptor, too.
            self._memory = None
            del self.board, self._values
        warn_of(errors)


def _descriptions(hosts: Sequence[RowHost]) -> list[dict[str, Any]]:
    """What every host says of its rows, when it has built them.

    Raises:
        Exception: what the constructor of an env raised; others that did have a note each.
    """
    found, errors = [], []
    for host in hosts:
        try:
            found.append(host.describe())
        except Exception as error:  # of an env's constructor, or how the worker ended
            errors.append(error)
    if errors:
        raise one_error(errors)
    return found


def one_error(errors: Sequence[Exception]) -> Exception:
    """The first of several errors, with a note on each of the others."""
    first, *others = errors
    for error in others:
        first.add_note(f"another worker failed, too: {type(error).__name__}: {error}")
    return first
