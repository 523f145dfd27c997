"""EnvBackend: vector-env rows as live envs, in this process or in worker processes."""

from __future__ import annotations

import functools
import select
import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from plangym_ext.core.invalid import checked_policy
from plangym_ext.core.numbers import seconds_or_none
from plangym_ext.vector.backend import RowsDescription, RowStep, VectorBackend
from plangym_ext.vector.memory.row_memory import RowMemory
from plangym_ext.vector.memory.shared_outs import OutLayout, OutShare, SharedOuts
from plangym_ext.vector.results import IN_MEMORY, Reply, StepResults
from plangym_ext.vector.row_values import RowValues
from plangym_ext.vector.shown import ObsBuffer
from plangym_ext.vector.sub_envs.checkpoint import Checkpoint, RowCall
from plangym_ext.vector.sub_envs.host_group import HostGroup, one_error
from plangym_ext.vector.sub_envs.replay_log import SETTLED, ReplayLog
from plangym_ext.vector.sub_envs.shared_call import (
    Share,
    SharedCall,
    own_if_possible,
    shares_of,
    shares_of_all,
)
from plangym_ext.workers.limits import LOOK
from plangym_ext.workers.remote_errors import warn_of


class EnvBackend(VectorBackend):
    """Steps live envs; see `VectorBackend`.

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
        self._timeout = seconds_or_none("make_vec: timeout", timeout)
        self._hosts = HostGroup(makes, n_workers, settings, self._timeout)
        self._shares_of_all = shares_of_all(self._hosts.ranges)
        self._memory: RowMemory | None = None
        self._invalid = checked_policy(invalid, "make_vec")
        self._outs = SharedOuts(self._hosts.expire, in_workers=self._hosts.in_workers)
        #: Where the calls lead that have succeeded and were not kept yet, by process.
        self._reached: dict[int, Checkpoint] = {}

    def build(self) -> None:
        hosts = self._hosts
        hosts.build()
        self.logs = [
            ReplayLog(host, rows, self._timeout, functools.partial(self._show, rows))
            for host, rows in zip(hosts.hosts, hosts.ranges, strict=True)
        ]
        self._watch = CallWatch(self.logs)
        checkpoints = tuple(
            Checkpoint((None,) * len(rows), all(row.captures for row in host.proved))
            for rows, host in zip(hosts.ranges, hosts.hosts, strict=True)
        )
        for log, checkpoint in zip(self.logs, checkpoints, strict=True):
            log.at = checkpoint
        #: Where the rows of every process should be, and the note that belongs to that: one
        #: object, so that an interrupt finds all of it replaced or nothing.
        self._kept: tuple[tuple[Checkpoint, ...], Any] = checkpoints, None

    @property
    def backend(self) -> str:
        return "process" if self._hosts.in_workers else "serial"

    @property
    def backend_note(self) -> str:
        return self._hosts.note

    @property
    def envs(self) -> list[gym.Env[Any, Any]]:
        return self._hosts.envs

    @property
    def signs(self) -> Sequence[int]:  # type: ignore[override]
        """See `VectorBackend`."""
        return [fd for log in self.logs for fd in log.signs]

    @property
    def worker_pids(self) -> tuple[int, ...]:
        return self._hosts.worker_pids

    @property
    def description(self) -> RowsDescription:
        return self._hosts.description

    @property
    def lost(self) -> bool:
        for log, checkpoint in zip(self.logs, self._kept[0], strict=True):
            if log.is_lost(checkpoint):
                return True
        return False

    def use(self, space: spaces.Space[Any]) -> None:
        self._memory = self._hosts.use(space, strict=self._invalid != "off")
        self._values = RowValues(self._invalid, self.obs, self.description.name)

    @property
    def obs(self) -> ObsBuffer:
        assert self._memory is not None
        return self._memory.obs

    @property
    def nbytes(self) -> int:
        """See `VectorBackend`; shared with the workers if there are some."""
        return self._hosts.nbytes

    def _show(self, rows: range, shown: Any) -> None:
        if shown is not None:
            self.obs.give(rows, shown)

    # What is kept -------------------------------------------------------------------

    @property
    def note(self) -> Any:
        return self._kept[1]

    def keep(self, note: Any) -> None:
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
        kept = own_if_possible(options)

        def call_of(share: Share) -> RowCall:
            args = share.inside, share.of(seeds)
            again = None if options is None else (*args, kept)
            return RowCall("reset", (*args, options), resets_all=share.is_all, again=again)

        return self._begin(self._share(rows, call_of))

    def begin_step(self, step: RowStep) -> SharedCall:
        # Plain bools: workers take them apart one by one, and a message packs them.
        flags = step.resets.tolist()
        out = None if step.out is None else self._outs.layout(step.out)

        def call_of(share: Share) -> RowCall:
            args = share.inside, share.of(step.actions), share.of(flags), step.same_step
            return RowCall("step", args, None if out is None else OutShare(out, share.places))

        call = self._share(step.rows, call_of, out, ahead=step.ahead)
        return self._send_ahead(call) if step.ahead else self._begin(call)

    def finish_rows(self, call: SharedCall, timeout: float | None) -> StepResults:
        replies: list[Reply] = self._finish(call, timeout)
        if not self.obs.is_array:
            self._put_own(call, replies)
        results = self._values.checked(self._results(call, replies), call.rows)
        if call.out is not None:
            self._write_rest(call, results)
        self._reach(call, replies)
        return results

    def _results(self, call: SharedCall, replies: Sequence[Reply]) -> StepResults:
        """Return the results of a step or a reset of some rows, in the order of the call."""
        assert self._memory is not None
        steps, last = self._memory.steps, self._memory.finals
        infos: list[tuple[int, dict[str, Any]]] = []
        finals: list[tuple[int, Any, dict[str, Any]]] = []
        for share, reply in zip(call.shares, replies, strict=True):
            places = share.numbers
            infos += [(places[k], info) for k, info in reply.infos]
            for k, obs, info in reply.finals:
                shown = last.rows([call.rows[places[k]]])[0] if obs is IN_MEMORY else obs
                finals.append((places[k], shown, info))
        # Of some rows, processes answer in their own order, which need not be that of the call.
        if not isinstance(call.rows, range):
            infos.sort(key=lambda entry: entry[0])
            finals.sort(key=lambda entry: entry[0])
        return StepResults(*steps.taken(call.rows), infos, finals)

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

    # Everything else ----------------------------------------------------------------

    def begin_call(
        self, rows: Sequence[int], name: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> SharedCall:
        kept = own_if_possible((args, kwargs))

        def call_of(share: Share) -> RowCall:
            again = share.inside, name, *kept
            return RowCall("call", (share.inside, name, args, kwargs), again=again)

        return self._begin(self._share(rows, call_of))

    def finish_call(self, call: SharedCall, timeout: float | None) -> list[Any]:
        try:
            replies: list[Reply] = self._finish(call, timeout)
        finally:
            for share, log in call.unmoved():
                log.at = self._kept[0][share.host]
        if any(reply.moved for reply in replies):
            self._reach(call, replies)
        return call.in_order([reply.values for reply in replies])

    def set_attr(self, rows: Sequence[int], name: str, values: Sequence[Any]) -> None:
        kept = own_if_possible(list(values))

        def call_of(share: Share) -> RowCall:
            again = share.inside, name, share.of(kept)
            return RowCall("set_attr", (share.inside, name, share.of(values)), again=again)

        call = self._begin(self._share(rows, call_of))
        self._reach(call, self._finish(call, None))

    def get_states(self, rows: Sequence[int]) -> list[np.ndarray]:
        call = self._share(rows, lambda share: RowCall("get_states", (share.inside,)))
        return call.in_order(self._finish(self._begin(call), None))

    def set_states(
        self, rows: Sequence[int], states: Sequence[np.ndarray], observations: Any
    ) -> None:

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
        shares = self._shares_of_all if whole else shares_of(rows, self._hosts.ranges)
        return SharedCall(rows, shares, [call_of(share) for share in shares], out, ahead, [])

    def _begin(self, call: SharedCall) -> SharedCall:
        """Begin a call, whose turn has come."""
        checkpoints, _ = self._kept
        # What an interrupted call had reached never happened; `begin` finds those rows elsewhere.
        self._reached = {}
        for share, one in zip(call.shares, call.calls, strict=True):
            log = self.logs[share.host]
            call.logs.append(log)
            log.begin(checkpoints[share.host], one)
        # Even a call of some shows all rows: none may be where a failed call has left it.
        if len(call.shares) < len(checkpoints):
            call.logs.extend(self._bring_back_others(call))
        return call

    def _send_ahead(self, call: SharedCall) -> SharedCall:
        """Begin a later call in processes that are ready for it."""
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
        """Return the reply of each process that the call concerns."""
        if not call.logs:
            self._begin(call)
        self._watch.finish(call.logs, timeout)
        # All have settled: no process is left that still moves rows of a call that has failed.
        errors = [log.error for log in call.logs if log.error is not None]
        if errors:
            raise one_error(errors)
        # Those after them were only brought back.
        return [log.reply for log in call.logs[: len(call.shares)]]

    def _reach(self, call: SharedCall, replies: Sequence[Reply]) -> None:
        """Note where rows have come to; `keep` makes that count."""
        for share, log, one, reply in zip(
            call.shares, call.logs, call.calls, replies, strict=False
        ):
            checkpoint = self._kept[0][share.host]
            shown = checkpoint.shown
            if reply.shown is not None:
                shown = reply.shown
            elif reply.states or (checkpoint.captures and not self.obs.is_array):
                shown = self.obs.taken(log.rows)
            reached = checkpoint.after(one, reply, shown)
            # For the log at once, for the vector env by `keep`: after an interrupt between the two
            # rows are "elsewhere", and the next call brings them back.
            log.at = reached
            self._reached[share.host] = reached

    def kill(self) -> None:
        self._hosts.kill()

    def close(self) -> None:
        errors = self._hosts.close()  # observations that callers hold stay valid
        if self._memory is not None:
            self._memory = None  # a descriptor, as is the memory under these
            del self._values
        warn_of(errors)


class CallWatch:
    """One wait over all processes: their answers, their deaths and the deadline.

    Args:
        logs: of all processes, those that have begun nothing, too.
    """

    def __init__(self, logs: Sequence[ReplayLog]) -> None:
        self._logs = logs
        self._poller = select.poll()
        self._by_fd: dict[int, ReplayLog] = {}

    def finish(self, logs: Sequence[ReplayLog], timeout: float | None) -> None:
        """Wait until calls are complete.

        Args:
            logs: that have begun a call.
            timeout: seconds that a process may take for the call itself, after which it is
                stopped; None for the logs' own limits alone. The time of a new worker's start,
                restore and replay does not count.
        """
        for log in logs:
            log.advance()
        check_at = (began := time.monotonic()) + LOOK
        while waiting := [log for log in logs if log.phase is not SETTLED]:
            self._wait()
            # By the clock: one that goes on sending without ever coming to an end is late, too.
            if time.monotonic() >= check_at:
                check_at = time.monotonic() + LOOK
                for log in waiting:
                    log.check(began, timeout)

    def _wait(self) -> None:
        """Take in what comes, for a short time."""
        # Of all logs, not only of those waited for: the poller is shared by calls in flight.
        if any(log.renewed for log in self._logs):
            self._watch()
        ready = {fd for fd, _ in self._poller.poll(LOOK * 1000)}
        for log in {self._by_fd[fd] for fd in ready}:
            log.receive(ready)

    def _watch(self) -> None:
        """Poll the processes of now: some have been replaced since the last time."""
        poller, by_fd = select.poll(), {}
        for log in self._logs:
            for fd in log.signs:
                poller.register(fd, select.POLLIN)
                by_fd[fd] = log
        self._poller, self._by_fd = poller, by_fd
        # Last: what an interrupt has left undone is done by the next wait.
        for log in self._logs:
            log.renewed = False
