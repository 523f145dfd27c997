"""Rows that are envs of their own, played in place: in this process, or many in each worker."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.core.invalid import checked_policy
from plangym_ext.errors import WorkerDied
from plangym_ext.vector.backend import RowsDescription, RowStep, VectorBackend, no_envs
from plangym_ext.vector.checkpoint import Checkpoint, RowCall
from plangym_ext.vector.hosts import HostedRows, LocalHost, RowHost, WorkerHost
from plangym_ext.vector.memory.row_memory import MemoryForm, RowMemory
from plangym_ext.vector.memory.shared_outs import OutLayout, OutShare, SharedOuts
from plangym_ext.vector.replay_log import ReplayLog
from plangym_ext.vector.results import Reply, StepResults
from plangym_ext.vector.row_deaths import FROM_OTHERS
from plangym_ext.vector.row_values import RowValues
from plangym_ext.vector.shared_call import (
    CallWatch,
    Share,
    SharedCall,
    row_ranges,
    shares_of,
    shares_of_all,
)
from plangym_ext.workers.close_errors import warn_of
from plangym_ext.workers.processes.descriptors import check_descriptors
from plangym_ext.workers.protocol import ForgetBlock, ForgetLayout


class EnvBackend(VectorBackend):
    """Moves live envs; see `VectorBackend`.

    Args:
        makes: constructor of each row's env.
        n_workers: processes to share them, at most one for each row; None for this one.
        settings: for `EnvRows`: how states are captured.
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
        self._ranges = row_ranges(len(makes), n_workers or 1)
        self._shares_of_all = shares_of_all(self._ranges)
        self._hosted = [
            HostedRows(makes[r.start : r.stop], r.start, settings) for r in self._ranges
        ]
        self._in_workers, self._timeout = n_workers is not None, timeout
        self._hosts: list[RowHost] = []
        self._memory: RowMemory | None = None
        self._block: SharedBlock | None = None
        self._invalid = checked_policy(invalid, "make_vec")
        self._outs = SharedOuts(self._expire, in_workers=self._in_workers)
        #: Where the calls lead that have succeeded and were not kept yet, by process.
        self._reached: dict[int, Checkpoint] = {}

    def build(self) -> None:
        """See `VectorBackend`."""
        if self._in_workers:
            check_descriptors(len(self._ranges))
        for index, rows in enumerate(self._hosted):
            host = WorkerHost(rows, index) if self._in_workers else LocalHost(rows)
            host.build()
            self._hosts.append(host)
        # All workers start before any is waited for.
        self._described = self._descriptions()
        self.logs = [
            ReplayLog(host, rows, self._timeout, functools.partial(self._show, rows))
            for host, rows in zip(self._hosts, self._ranges, strict=True)
        ]
        self._watch = CallWatch(self.logs)
        checkpoints = tuple(
            Checkpoint((None,) * len(rows), all(found["captures"]))
            for rows, found in zip(self._ranges, self._described, strict=True)
        )
        for log, checkpoint in zip(self.logs, checkpoints, strict=True):
            log.mark_at(checkpoint)
        #: Where the rows of every process should be, and the note that belongs to that: one
        #: object, so that an interrupt finds all of it replaced or nothing.
        self._kept: tuple[tuple[Checkpoint, ...], Any] = checkpoints, None

    def _descriptions(self) -> list[dict[str, Any]]:
        """Return what every host says of its rows, when it has built them.

        Raises:
            Exception: what the constructor of an env raised; others that did have a note each.
        """
        found, errors = [], []
        for index, rows in enumerate(self._hosted):
            try:
                found.append(self._description(index, rows))
            except Exception as error:  # of an env's constructor, or how the worker ended
                errors.append(error)
        if errors:
            raise one_error(errors)
        return found

    def _description(self, index: int, hosted: HostedRows) -> dict[str, Any]:
        """Return what a host says of its rows; build it without states if those kill it.

        An env may end its process in a step that is made only to find how its state is
        captured.
        """
        try:
            return self._hosts[index].describe()
        except WorkerDied as death:
            if hosted.settings["state"] == "off" or death.exit_status in FROM_OTHERS:
                raise
            self._hosts[index].close()
            reason = f"its state cannot be captured: to try it has ended its process: {death}"
            host = WorkerHost(hosted.without_states(reason), index)
            host.build()
            self._hosts[index] = host
            try:
                return host.describe()
            except Exception:  # so it is not the states that it died of
                raise death from None

    @property
    def backend(self) -> str:
        """See `VectorBackend`."""
        return "process" if self._in_workers else "serial"

    @property
    def backend_note(self) -> str:
        """See `VectorBackend`."""
        reasons: dict[str, list[int]] = {}
        notes = [note for found in self._described for note in found["notes"]]
        for row, note in enumerate(notes):
            if note:
                reasons.setdefault(note, []).append(row)
        return "\n".join(f"sub-envs {rows}: {reason}" for reason, rows in reasons.items())

    @property
    def envs(self) -> list[gym.Env[Any, Any]]:
        """See `VectorBackend`."""
        host = self._hosts[0]
        if isinstance(host, LocalHost):
            return host.envs
        raise no_envs(self.backend)

    @property
    def signs(self) -> Sequence[int]:  # type: ignore[override]
        """See `VectorBackend`."""
        return [fd for log in self.logs for fd in log.signs]

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
        for log, checkpoint in zip(self.logs, self._kept[0], strict=True):
            if log.is_lost(checkpoint):
                return True
        return False

    def use(self, space: spaces.Space[Any]) -> None:
        """See `VectorBackend`."""
        strict = self._invalid != "off"
        form = MemoryForm(
            space,
            self._ranges[-1].stop,
            len(self._hosts),
            strict,
            self.description.action_spaces[0],
        )
        if self.backend == "process":
            self._block = SharedBlock.create(form.nbytes)
        self._memory, self._nbytes = form.memory(self._block), form.nbytes
        self.obs = self._memory.obs
        self._values = RowValues(self._invalid, self.obs, self._described[0]["name"])
        for index, host in enumerate(self._hosts):
            host.use(form, self._memory, self._block, index)

    @property
    def nbytes(self) -> int:
        """See `VectorBackend`; shared with the workers if there are some."""
        return self._nbytes

    def _show(self, rows: range, shown: Any) -> None:
        if shown is not None:
            self.obs.give(rows, shown)

    # What is kept -------------------------------------------------------------------

    @property
    def note(self) -> Any:
        """See `VectorBackend`."""
        return self._kept[1]

    def keep(self, note: Any) -> None:
        """See `VectorBackend`."""
        checkpoints, _ = self._kept
        reached = self._reached
        if len(reached) == len(checkpoints):
            checkpoints = tuple(reached.values())  # in their order: the call was of all rows
        elif reached:
            checkpoints = tuple(reached.get(k, one) for k, one in enumerate(checkpoints))
        self._kept = checkpoints, note  # from here on, and not before, the calls have happened
        self._reached = {}

    # Stepping -----------------------------------------------------------------------

    def begin_reset(
        self, rows: Sequence[int], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> SharedCall:
        """See `VectorBackend`."""

        def call_of(share: Share) -> RowCall:
            args = share.inside, share.of(seeds), options
            return RowCall("reset", args, resets_all=share.is_all)

        return self._begin(self._share(rows, call_of))

    def begin_step(self, step: RowStep) -> SharedCall:
        """See `VectorBackend`."""
        flags = step.resets.tolist()
        out = None if step.out is None else self._outs.layout(step.out)

        def call_of(share: Share) -> RowCall:
            args = share.inside, share.of(step.actions), share.of(flags), step.same_step
            return RowCall("step", args, None if out is None else OutShare(out, share.places))

        call = self._share(step.rows, call_of, out, ahead=step.ahead)
        return self._send_ahead(call) if step.ahead else self._begin(call)

    def finish_rows(self, call: SharedCall, timeout: float | None) -> StepResults:
        """See `VectorBackend`."""
        replies: list[Reply] = self._finish(call, timeout)
        if not self.obs.is_array:
            self._put_own(call, replies)
        assert self._memory is not None
        results = self._memory.results(call.rows, call.shares, replies)
        results = self._values.checked(results, call.rows)
        if call.out is not None:
            self._write_rest(call, results)
        self._reach(call, replies)
        return results

    def _write_rest(self, call: SharedCall, results: StepResults) -> None:
        """Write to arrays that no process of the rows has written to."""
        assert call.out is not None
        if call.out.rest.fields:
            shown = self.obs.leaves(slice(None) if isinstance(call.rows, range) else call.rows)
            call.out.rest.write_results(results, shown)

    def _put_own(self, call: SharedCall, replies: Sequence[Reply]) -> None:
        """Keep observations that have no array form, as they came."""
        for share, reply in zip(call.shares, replies, strict=True):
            self._put(share.rows, reply.obs or ())

    def _put(self, rows: Sequence[int], observations: Sequence[Any]) -> None:
        for row, obs in zip(rows, observations, strict=True):
            self.obs.put(row, obs)

    def _expire(self, message: ForgetBlock | ForgetLayout) -> None:
        for host in self._hosts:
            if isinstance(host, WorkerHost):
                host.expire(message)

    # Everything else ----------------------------------------------------------------

    def begin_call(
        self, rows: Sequence[int], name: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> SharedCall:
        """See `VectorBackend`."""

        def call_of(share: Share) -> RowCall:
            return RowCall("call", (share.inside, name, args, kwargs))

        return self._begin(self._share(rows, call_of))

    def finish_call(self, call: SharedCall, timeout: float | None) -> list[Any]:
        """See `VectorBackend`."""
        replies: list[Reply] = self._finish(call, timeout)
        if any(reply.moved for reply in replies):
            self._reach(call, replies)
            self.keep(self.note)
        else:
            for share, log in zip(call.shares, call.logs, strict=False):
                log.mark_at(self._kept[0][share.host])
        return call.in_order([reply.values for reply in replies])

    def set_attr(self, rows: Sequence[int], name: str, values: Sequence[Any]) -> None:
        """See `VectorBackend`."""

        def call_of(share: Share) -> RowCall:
            return RowCall("set_attr", (share.inside, name, share.of(values)))

        call = self._begin(self._share(rows, call_of))
        self._reach(call, self._finish(call, None))
        self.keep(self.note)

    def get_states(self, rows: Sequence[int]) -> list[np.ndarray]:
        """See `VectorBackend`."""
        call = self._share(rows, lambda share: RowCall("get_states", (share.inside,)))
        return call.in_order(self._finish(self._begin(call), None))

    def set_states(
        self, rows: Sequence[int], states: Sequence[np.ndarray], observations: Any
    ) -> None:
        """See `VectorBackend`."""

        def call_of(share: Share) -> RowCall:
            shown = None if observations is None else share.of(observations)
            return RowCall("set_states", (share.inside, share.of(states), shown))

        call = self._begin(self._share(rows, call_of))
        replies = self._finish(call, None)
        if observations is not None and not self.obs.is_array:
            self._put(rows, observations)
        self._reach(call, replies)

    # Calls of all processes ---------------------------------------------------------

    def _share(
        self,
        rows: Sequence[int],
        call_of: Callable[[Share], RowCall],
        out: OutLayout | None = None,
        *,
        ahead: bool = False,
    ) -> SharedCall:
        """Return a call of some rows, shared out; `call_of` makes that of each process."""
        whole = isinstance(rows, range)
        shares = self._shares_of_all if whole else shares_of(rows, self._ranges)
        return SharedCall(rows, shares, [call_of(share) for share in shares], out, ahead, [])

    def _begin(self, call: SharedCall) -> SharedCall:
        """Begin a call, whose turn has come."""
        checkpoints, _ = self._kept
        self._reached = {}
        for share, one in zip(call.shares, call.calls, strict=True):
            log = self.logs[share.host]
            call.logs.append(log)
            log.begin(checkpoints[share.host], one)
        if len(call.shares) < len(checkpoints):
            call.logs.extend(self._bring_back_others(call))
        return call

    def _send_ahead(self, call: SharedCall) -> SharedCall:
        """Have processes begin a call whose turn has not come, as far as they are in order."""
        for share, one in zip(call.shares, call.calls, strict=True):
            self.logs[share.host].send_ahead(self._kept[0][share.host], one)
        return call

    def _bring_back_others(self, call: SharedCall) -> list[ReplayLog]:
        """Begin to bring rows where they should be that a call of some does not concern.

        What they show is part of some results. Returns the logs of those that were elsewhere.
        """
        found = []
        for log, checkpoint in zip(self.logs, self._kept[0], strict=True):
            if log in call.logs:
                continue
            if not call.ahead:  # so what was sent ahead was interrupted, and will not be finished
                log.drop_ahead()
            if log.is_away(checkpoint) and not log.is_lost(checkpoint):
                found.append(log)
                log.begin(checkpoint, None)
        return found

    def _finish(self, call: SharedCall, timeout: float | None) -> list[Any]:
        """Return the reply of each process that the call concerns.

        Raises:
            WorkerTimeout: a worker did not answer in time and was stopped.
            WorkerDied: one died again and again.
            Exception: what an env raised: the first process's of those that failed.
        """
        if not call.logs:
            self._begin(call)
        self._watch.finish(call.logs, timeout)
        errors = [log.error for log in call.logs if log.error is not None]
        if errors:
            raise one_error(errors)
        return [log.reply for log in call.logs[: len(call.shares)]]

    def _reach(self, call: SharedCall, replies: Sequence[Reply]) -> None:
        """Note where rows have come to; `keep` makes that count."""
        for share, log, reply in zip(call.shares, call.logs, replies, strict=False):
            checkpoint = self._kept[0][share.host]
            shown = checkpoint.shown
            if reply.shown is not None:
                shown = reply.shown
            elif reply.states or (checkpoint.captures and not self.obs.is_array):
                shown = self.obs.taken(log.rows)
            reached = checkpoint.after(log.call, reply, shown)
            log.mark_at(reached)
            self._reached[share.host] = reached

    def close(self) -> None:
        """See `VectorBackend`."""
        for host in self._hosts:
            host.begin_close()
        errors = [host.close() for host in self._hosts]
        if self._block is not None:
            self._block.close()  # observations that callers hold stay valid
        if self._memory is not None:
            # The memory under these is a descriptor, too.
            self._block = self._memory = None
            del self.obs, self._values
        warn_of(errors)


def one_error(errors: Sequence[Exception]) -> Exception:
    """Return the first of several errors, with a note on each of the others."""
    first, *others = errors
    for error in others:
        first.add_note(f"another worker failed, too: {type(error).__name__}: {error}")
    return first
