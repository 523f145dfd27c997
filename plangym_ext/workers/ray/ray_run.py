"""RayRun: one batch on Ray actors, from layout to results.

driver                                   actors
load rows into a page
a share to each actor  --- Ray --->      run it: in the page, or on what was sent along
gather the answers     <--- Ray ---      seconds, and what is not in the page
give the page to the caller

If an actor dies, its rows are sent to others, from the caller's states. It may still be writing
to the page, so from then on results are gathered in memory of this process alone.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import pickle
import time
from typing import Any, Protocol

import numpy as np

from plangym_ext.core.pending import Pending
from plangym_ext.core.results import RowResults
from plangym_ext.core.row_request import RowRequest
from plangym_ext.core.rows import RowBatch, RowLayout
from plangym_ext.errors import PoisonState, WorkerDied, WorkerTimeout
from plangym_ext.states.envelope import Envelope, as_wide
from plangym_ext.workers.pages import Pages
from plangym_ext.workers.ray.actors import Actor, ActorPool, Sent
from plangym_ext.workers.ray.cluster import ray_module
from plangym_ext.workers.ray.row_actor import (
    Answer,
    Place,
    Share,
    cut_rows,
    part_of,
    result_names,
)
from plangym_ext.workers.remote_errors import ErrorReport

#: Seconds between two looks at actors that have not answered.
_LOOK = 0.25
#: Actors that one row may kill before it is held to be the cause.
_MAX_KILLS = 2
#: Shares that may be lost, one after the other, without any being answered.
_MAX_LOSSES = 100
#: Parts into which rows are cut whose actor has died, to find out whether one has killed it.
_PARTS = 16
#: Seconds of work for which it is worth asking one more actor: some five times what that costs.
_LEAST_SECONDS = 3e-3
#: What a row step is expected to cost before one was seen.
_USUAL_STEP = 30e-6


class RunOwner(Protocol):
    """Protocol of the env whose batch a run executes.

    Attributes:
        pool: its actors.
        pages: memory that actors on this machine reach.
        row_timeout: seconds after which an actor that says nothing counts as hung.
        runs: batches whose actors have not answered all.
    """

    pool: ActorPool
    runs: set[RayRun]
    pages: Pages
    row_timeout: float | None

    @property
    def layout(self) -> RowLayout:
        """Layout of a row."""

    @property
    def envelope(self) -> Envelope:
        """Seals and checks states."""

    def widen(self, width: int) -> None:
        """Make rows `width` bytes wide."""

    def check_open(self) -> None:
        """Refuse a batch if the env is closed."""


class RayRun:
    """Runs one request on the actors of an env.

    Args:
        owner: whose batch it is.
        request: what to run.

    Attributes:
        outcome: the results or an error, once there is one.
        abandoned: whether the results will not be asked for.
        open: what was sent and not answered, by Ray's reference to the answer.
    """

    def __init__(self, owner: RunOwner, request: RowRequest) -> None:
        self.owner = owner
        self._slots = request.slots
        if self._slots is not None:  # a copy: all rows are read before any slot is written
            states = request.states[self._slots.sources]
            request = dataclasses.replace(request, states=states, slots=None)
        self.request = request
        self.outcome: RowResults | BaseException | None = None
        self.abandoned = False
        self.open: dict[Any, Sent] = {}
        self._place: Place | None = None
        #: The page, once an actor may go on writing to it that is held to be dead.
        self._spoilt: RowBatch | None = None
        self._kills: dict[int, int] = {}
        self._losses = 0
        #: States that are wider than the batch's rows, by the first row of their share.
        self._wide: dict[int, np.ndarray] = {}
        self._failures: list[tuple[int, ErrorReport, str]] = []

    # Sending --------------------------------------------------------------------

    def start(self) -> None:
        """Lay the rows out, cut them by the actors' speeds, and send them."""
        owner, request = self.owner, self.request
        owner.check_open()
        for run in list(owner.runs):
            run.reap()
        ready = owner.pool.ready() if request.num_rows else []
        self._lay_out(shared=any(actor.shares_memory for actor in ready))
        owner.runs.add(self)
        try:
            self._share_out(0, request.num_rows, self._worth_asking(ready))
        except BaseException as error:
            self._end(error)
            raise

    def _lay_out(self, *, shared: bool) -> None:
        """Take a page for the batch, and copy the inputs in."""
        owner, request = self.owner, self.request
        layout, rows, horizon = owner.layout, request.num_rows, request.horizon
        shape = (rows, horizon, layout.state_width)
        self._page = owner.pages.take(shape, lambda: layout.offsets(rows, horizon)[1])
        if shared:
            self._place = Place(
                pickle.dumps(self._page.block),
                *shape,
                request.infos,
                request.wants_states,
                request.unchecked,
                request.single,
                request.reset_first is not None,
            )
        self._batch = RowBatch(layout, rows, horizon, self._page.memory, infos=request.infos)
        self._batch.load(request, states=shared)
        # The caller may write to its actions once the batch has begun.
        self.request = dataclasses.replace(request, actions=self._batch.actions)

    def _worth_asking(self, ready: list[Actor]) -> list[Actor]:
        """Return the actors that the batch is worth sharing among; the least busy first."""
        steps = self.request.num_rows * self.request.horizon
        known = [actor.rate for actor in ready if actor.rate is not None]
        rate = max(known) if known else 1 / _USUAL_STEP
        count = min(len(ready), max(1, math.ceil(steps / rate / _LEAST_SECONDS)))
        if len(known) < len(ready):  # one that was never asked stays unknown
            count = min(len(ready), self.request.num_rows)
        return sorted(ready, key=lambda actor: actor.load / (actor.rate or rate))[:count]

    def _share_out(
        self, first: int, stop: int, actors: list[Actor], *, apart: bool = False
    ) -> None:
        """Send rows to some actors.

        Args:
            first: of the rows.
            stop: after the last of them.
            actors: who are to run them.
            apart: whether none may write to the page.
        """
        if stop <= first:
            return
        known = [actor.rate / actor.n_workers for actor in actors if actor.rate is not None]
        usual = sum(known) / len(known) if known else 1 / _USUAL_STEP
        rates = [actor.rate or usual * actor.n_workers for actor in actors]
        loads = [actor.load / self.request.horizon for actor in actors]
        cuts = cut_rows(stop - first, rates, loads)
        for actor, (begin, end) in zip(actors, cuts, strict=True):
            if begin < end:
                self._send(actor, first + begin, first + end, apart=apart)

    def _send(self, actor: Actor, first: int, stop: int, *, apart: bool) -> None:
        place = self._place if actor.shares_memory and not apart else None
        work = part_of(self.request, first, stop) if place is None else place
        ref = actor.handle.run.remote(Share(first, stop, work))
        steps = (stop - first) * self.request.horizon
        sent = Sent(actor, first, stop, steps, place is not None, time.monotonic())
        actor.sent.append(sent)
        self.open[ref] = sent

    # Waiting --------------------------------------------------------------------

    def pending(self) -> Pending[RowResults]:
        """Return the results to come."""
        return Pending(self.wait, self.poll, drop=self.abandon)

    def poll(self, timeout: float) -> bool:
        """Return whether there is an outcome, after waiting for that up to `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self.outcome is None:
            if not self._advance(deadline) and time.monotonic() >= deadline:
                break
        return self.outcome is not None

    def wait(self, timeout: float | None) -> RowResults:
        """Wait for the results; further calls return, or raise, the same.

        Args:
            timeout: seconds after which actors that have not answered are ended and named.

        Returns:
            Arrays that belong to the caller.

        Raises:
            PoisonState: a row has killed two actors.
            WorkerDied: actors keep dying before any row is done.
            WorkerTimeout: an actor hangs; it was ended, and another started.
            Exception: what an env raised; the actors stay usable.
        """
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while self.outcome is None:
            if not self._advance(deadline) and time.monotonic() >= deadline:
                self._stop_hung({sent.actor for sent in self.open.values()}, timeout or 0.0)
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome

    def _advance(self, deadline: float) -> bool:
        """See what comes from the actors; settle the batch if all rows are done.

        Returns:
            Whether anything came.
        """
        try:
            self.owner.check_open()
            came = self._gather(max(0.0, min(_LOOK, deadline - time.monotonic())))
            if self.outcome is None and not self.open:
                self._settle()
            return came
        except BaseException as error:
            self._end(error)
            if not isinstance(error, Exception):
                raise
            return True

    def _gather(self, timeout: float) -> bool:
        """Take in the answers that have come; whether there was any."""
        if not self.open:
            return True
        ray, refs = ray_module(), list(self.open)
        done, rest = ray.wait(refs, num_returns=len(refs), timeout=0)
        # Only of an answer that was waited for it is known when it came.
        watched = not done
        if watched:
            done, rest = ray.wait(refs, num_returns=1, timeout=timeout)
        lost: list[tuple[Sent, Exception]] = []
        for ref in done:
            sent = self.open.pop(ref)
            try:
                answer: Answer = ray.get(ref)
            except ray.exceptions.RayTaskError:
                raise
            except ray.exceptions.RayError as error:
                lost.append((sent, error))
                continue
            sent.actor.answered(sent, answer.seconds, watched=watched)
            self._losses = 0
            if self.outcome is None:
                self._keep(sent, answer)
        for sent, death in lost:  # when all that was answered is known to be
            self._lose(sent, death)
        if not done:
            self._look_for_hung({self.open[ref].actor for ref in rest})
        return bool(done)

    def _keep(self, sent: Sent, answer: Answer) -> None:
        """Put the results of a share where those of the batch are gathered."""
        if answer.problem is not None:
            self._failures.append((sent.first, answer.problem, sent.actor.where))
            return
        batch, rows = self._batch, slice(sent.first, sent.stop)
        if sent.in_place and self._spoilt is not None:
            for name in result_names(batch.layout, batch.infos):
                batch.field(name)[rows] = self._spoilt.field(name)[rows]
        for name, value in answer.fields.items():
            target = batch.field(name)[rows]
            if name == "states_out" and value.shape[1] > target.shape[1]:
                self._wide[sent.first] = value
            elif name == "states_out":
                target[...] = as_wide(value, target.shape[1])
            else:
                target[...] = value.reshape(target.shape)
        if answer.own:
            own = pickle.loads(answer.own)
            batch.own_infos.update({sent.first + row: info for row, info in own.items()})

    # Deaths and hangs -----------------------------------------------------------

    def _lose(self, sent: Sent, error: Exception) -> None:
        """Run a dead actor's rows again on other actors.

        Raises:
            PoisonState: a row was being run when two actors died.
            WorkerDied: actors die, again and again, and none answers.
        """
        actor = sent.actor
        # Actors run shares in order: this one was at the oldest.
        blamed = bool(actor.sent) and actor.sent[0] is sent
        if sent in actor.sent:  # else another of its shares has told of its death
            actor.restart()
        if self.outcome is not None:
            return
        self._losses += 1
        if self._losses > _MAX_LOSSES:
            raise WorkerDied(
                f"actor {actor.index}: {self._losses} shares in a row were lost with their actors "
                f"and none was answered; the last because {error}",
                worker=actor.index,
            ) from error
        if sent.in_place:
            self._leave_page()
        if blamed:
            self._blame(sent, error)
        self._send_again(sent, in_parts=blamed)

    def _leave_page(self) -> None:
        """Gather results in memory of this process alone from now on."""
        if self._spoilt is not None:
            return
        old, request = self._batch, self.request
        fresh = RowBatch(old.layout, old.num_rows, old.horizon, infos=old.infos)
        fresh.load(request, states=False)
        for name in result_names(old.layout, old.infos):
            fresh.field(name)[...] = old.field(name)
        fresh.own_infos.update(old.own_infos)
        self._spoilt, self._batch = old, fresh
        self.request = dataclasses.replace(request, actions=fresh.actions)

    def _blame(self, sent: Sent, error: Exception) -> None:
        """Count the death of an actor against a row that it was running alone."""
        if sent.stop - sent.first > 1:
            return
        row = sent.first
        self._kills[row] = self._kills.get(row, 0) + 1
        if self._kills[row] >= _MAX_KILLS:
            raise PoisonState(
                f"row {row}: {_MAX_KILLS} actors died while they ran it, the last because "
                f"{error} Run the other rows without it.",
                row=row,
                state=self.request.states[row].copy(),
                action=tuple(action[row].copy() for action in self.request.actions),
                worker=sent.actor.index,
            ) from error

    def _send_again(self, sent: Sent, *, in_parts: bool) -> None:
        """Send the rows of a lost share to actors that are ready."""
        ready = self.owner.pool.ready()
        # Cut smaller each time: a row is blamed only for a death that it was alone at.
        count = min(_PARTS, sent.stop - sent.first) if in_parts else 1
        edges = [sent.first + (sent.stop - sent.first) * k // count for k in range(count + 1)]
        for first, stop in itertools.pairwise(edges):
            if in_parts:
                ready = [min(ready, key=lambda actor: actor.load), *ready]
                self._send(ready[0], first, stop, apart=True)
            else:
                self._share_out(first, stop, ready, apart=True)

    def _look_for_hung(self, actors: set[Actor]) -> None:
        """End actors whose process has stopped to answer."""
        limit = self.owner.row_timeout
        if limit is not None and (silent := {one for one in actors if one.is_silent(limit)}):
            self._stop_hung(silent, limit)

    def _stop_hung(self, hung: set[Actor], seconds: float) -> None:
        """End the batch with an error that names actors which hang, and start others."""
        found = []
        for actor in sorted(hung, key=lambda one: one.index):
            rows = [sent for sent in self.open.values() if sent.actor is actor]
            running = f"rows {rows[0].first} to {rows[0].stop - 1}" if rows else "rows"
            found.append(
                f"{actor.where} has not answered within {seconds:g} s while it ran {running}; it "
                "was ended, and another started in its place"
            )
            actor.restart()
        indices = tuple(sorted(actor.index for actor in hung))
        self._end(WorkerTimeout("\n".join(found), workers=indices))

    # The end --------------------------------------------------------------------

    def _settle(self) -> None:
        """Keep the results, or raise what the first of the failing rows has raised."""
        if self._failures:
            if self.request.unchecked:
                # A refusal names the first of all rows, and goes before other errors.
                self.owner.envelope.check(self.request.states, self.request.unchecked)
            _, problem, where = min(self._failures, key=lambda failure: failure[0])
            raise problem.rebuild(where)
        self._end(self._results())

    def _results(self) -> RowResults:
        """Return the gathered results: views of the page that the caller keeps, or copies."""
        batch, pages = self._batch, self.owner.pages
        if self._spoilt is not None:
            found = batch.results()
        elif pages.may_lease(batch.layout.offsets(batch.num_rows, batch.horizon)[1]):
            found = batch.results(self._page.lease())
        else:
            found = batch.results(copy=True)
        if self._wide:
            found = found._replace(states=self._widened(found.states))
        if self._slots is not None:
            self._slots.store.widen(found.states.shape[1])
            self._slots.store.rows[self._slots.targets] = found.states
        return found

    def _widened(self, states: np.ndarray) -> np.ndarray:
        """Return the states of all rows, as wide as the widest, and note that width."""
        width = max(wide.shape[1] for wide in self._wide.values())
        if width > self.owner.layout.state_width:
            self.owner.widen(width)
        states = np.array(as_wide(states, width))
        for first, wide in self._wide.items():
            states[first : first + len(wide)] = as_wide(wide, width)
        return states

    def abandon(self) -> None:
        """Note that the results will not be asked for; called in any thread, at any line."""
        self.abandoned = True

    def finish(self) -> None:
        """Wait until no actor runs rows of an abandoned batch any more, and release it."""
        self.reap()
        while self.open:
            self._gather(_LOOK)
        self._release()

    def cancel(self, error: Exception) -> None:
        """End it with an error; all actors are gone."""
        self.open.clear()
        self._end(error)

    def reap(self) -> None:
        """Release a batch that has an outcome or was abandoned, if all has been answered."""
        if self.outcome is None and not self.abandoned:
            return
        if self.outcome is None:
            self.outcome = WorkerDied("this batch was abandoned")
        self._gather(0.0)
        self._release()

    def _end(self, outcome: RowResults | BaseException) -> None:
        if self.outcome is None:
            self.outcome = outcome
        self._release()

    def _release(self) -> None:
        """Give the page back, unless an actor may still write to it."""
        if self.open or self not in self.owner.runs:
            return
        self.owner.runs.discard(self)
        if self._spoilt is not None:
            self.owner.pages.drop(self._page)
        else:
            self._page.busy = False
