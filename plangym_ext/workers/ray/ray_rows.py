"""RayRows: the rows of one batch on Ray actors, a share to each.

driver                                   actors
a share to each actor  --- Ray --->      run it: in the page, or on what was sent along
gather the answers     <--- Ray ---      seconds, and what is not in the page

An actor that was ended may still be writing to the page. From then on results are gathered in
memory of this process alone.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import pickle
import time
from typing import Any, Protocol

import numpy as np

from plangym_ext.core.results import RowResults
from plangym_ext.core.row_request import RowRequest
from plangym_ext.core.rows import RowBatch
from plangym_ext.errors import WorkerDied, WorkerTimeout
from plangym_ext.states.envelope import as_wide
from plangym_ext.workers.batch_layout import NO_ROW, Death, Round, Rows
from plangym_ext.workers.batch_run import BatchOwner
from plangym_ext.workers.limits import ACTOR_LOOK
from plangym_ext.workers.ray.actors import Actor, ActorPool, Sent
from plangym_ext.workers.ray.cluster import ray_module
from plangym_ext.workers.ray.row_actor import Answer, Place, Share, cut_rows, part_of, result_names
from plangym_ext.workers.remote_errors import ErrorReport
from plangym_ext.workers.shared_batch import Page, Pages

#: Parts into which rows are cut whose actor has died, to find out whether one has killed it.
_PARTS = 16
#: Seconds of work for which it is worth asking one more actor: some five times what that costs.
_LEAST_SECONDS = 3e-3
#: Expected seconds of a row step before one was measured.
_USUAL_STEP = 30e-6


class ActorOwner(BatchOwner, Protocol):
    """Protocol of the env whose actors run rows.

    Attributes:
        pool: the actors.
        pages: memory that actors on this machine reach.
    """

    pool: ActorPool
    pages: Pages

    def check_open(self) -> None:
        """Refuse to go on if the env is closed."""


class RayRows(Rows):
    """The rows of one request, and the actors that were sent some.

    Attributes:
        open: shares without an answer, by Ray's reference to the answer.
    """

    def __init__(self, owner: ActorOwner, request: RowRequest) -> None:
        self._owner, self._slots = owner, request.slots
        self._page: Page | None = None
        if self._slots is not None:  # a copy: all rows are read before any slot is written
            states = request.states[self._slots.sources]
            request = dataclasses.replace(request, states=states, slots=None)
        self.request, self.state_width = request, owner.layout.state_width
        self.open: dict[Any, Sent] = {}
        self._place: Place | None = None
        #: Whether an actor that was ended may still be writing to the page.
        self._spoilt = False
        self._deaths: list[Death] = []
        self._failures: list[tuple[int, ErrorReport, str]] = []
        self._excess = 0

    # Sending --------------------------------------------------------------------

    def begin(self) -> None:
        """See `Rows`; rows are cut by the actors' speeds."""
        ready = self._owner.pool.ready() if self.request.num_rows else []
        self._lay_out(shared=any(actor.shares_memory for actor in ready))
        self._share_out(0, self.request.num_rows, self._worth_asking(ready))

    def _lay_out(self, *, shared: bool) -> None:
        """Take a page for the batch, and copy the inputs in."""
        request, layout = self.request, self._owner.layout
        rows, horizon = request.num_rows, request.horizon
        shape = (rows, horizon, layout.state_width)
        self._page = self._owner.pages.take(shape, lambda: layout.offsets(rows, horizon)[1])
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
        self.batch = RowBatch(layout, rows, horizon, self._page.memory, infos=request.infos)
        self.batch.load(request, states=shared)
        # The caller may write to its actions once the batch has begun.
        self.request = dataclasses.replace(request, actions=self.batch.actions)

    def _worth_asking(self, ready: list[Actor]) -> list[Actor]:
        """Return the actors that the batch is worth sharing among; the least busy first."""
        steps = self.request.num_rows * self.request.horizon
        known = [actor.rate for actor in ready if actor.rate is not None]
        rate = max(known) if known else 1 / _USUAL_STEP
        count = min(len(ready), max(1, math.ceil(steps / rate / _LEAST_SECONDS)))
        if len(known) < len(ready):  # one that was never asked stays unknown
            count = min(len(ready), self.request.num_rows)
        return sorted(ready, key=lambda actor: actor.load / (actor.rate or rate))[:count]

    def _share_out(self, first: int, stop: int, actors: list[Actor]) -> None:
        """Send rows `first` to `stop - 1` to some actors."""
        if stop <= first:
            return
        known = [actor.rate / actor.n_workers for actor in actors if actor.rate is not None]
        usual = sum(known) / len(known) if known else 1 / _USUAL_STEP
        rates = [actor.rate or usual * actor.n_workers for actor in actors]
        loads = [actor.load / self.request.horizon for actor in actors]
        cuts = cut_rows(stop - first, rates, loads)
        for actor, (begin, end) in zip(actors, cuts, strict=True):
            if begin < end:
                self._send(actor, first + begin, first + end)

    def _send(self, actor: Actor, first: int, stop: int) -> None:
        place = self._place if actor.shares_memory and not self._spoilt else None
        work = part_of(self.request, first, stop) if place is None else place
        ref = actor.run(Share(first, stop, self.state_width, work))
        steps = (stop - first) * self.request.horizon
        sent = Sent(actor, first, stop, steps, place is not None, time.monotonic())
        actor.sent.append(sent)
        self.open[ref] = sent

    def offer_again(self, left: np.ndarray, deaths: list[Death]) -> None:
        """See `Rows`; after a death the rows are offered in smaller parts."""
        ready = self._owner.pool.ready()
        suspects = np.zeros(self.request.num_rows, np.bool_)
        for first, stop in (death.rows for death in deaths):
            suspects[first:stop] = True
            count = min(_PARTS, stop - first)
            edges = [first + (stop - first) * k // max(count, 1) for k in range(count + 1)]
            for begin, end in itertools.pairwise(edges):
                self._send(min(ready, key=lambda actor: actor.load), begin, end)
        others = left[~suspects[left]]
        for run in np.split(others, np.flatnonzero(np.diff(others) > 1) + 1):
            if len(run):
                self._share_out(int(run[0]), int(run[-1]) + 1, ready)

    # Answers --------------------------------------------------------------------

    def waiting(self) -> list[Actor]:
        found = {sent.actor for sent in self.open.values()}
        return sorted(found, key=lambda actor: actor.index)

    def listen(self, timeout: float) -> bool:
        self._owner.check_open()
        ray, refs = ray_module(), list(self.open)
        if not refs:
            return True
        done, _ = ray.wait(refs, num_returns=len(refs), timeout=0)
        # Only of an answer that was waited for it is known when it came.
        watched = not done and timeout > 0
        if watched:
            done, _ = ray.wait(refs, num_returns=1, timeout=min(ACTOR_LOOK, timeout))
        for ref in done:
            sent = self.open.pop(ref)
            try:
                answer: Answer = ray.get(ref)
            except ray.exceptions.RayTaskError:
                raise
            except ray.exceptions.RayError as error:
                self._lose(sent, error)
                continue
            sent.actor.answered(sent, answer.seconds, watched=watched)
            self._keep(sent, answer)
        return bool(done)

    def _keep(self, sent: Sent, answer: Answer) -> None:
        """Put the results of a share where those of the batch are gathered."""
        self._excess = max(self._excess, answer.excess)
        if answer.problem is not None:
            self._failures.append((sent.first, answer.problem, sent.actor.where))
        if answer.problem is not None or answer.excess:
            return
        batch, rows = self.batch, slice(sent.first, sent.stop)
        for name, value in answer.fields.items():
            target = batch.field(name)[rows]
            value = as_wide(value, target.shape[1]) if name == "states_out" else value
            target[...] = value.reshape(target.shape)
        if answer.own:
            own = pickle.loads(answer.own)
            batch.own_infos.update({sent.first + row: info for row, info in own.items()})
        batch.done[rows] = True

    def _lose(self, sent: Sent, error: Exception) -> None:
        """Replace a dead actor, and note what it was at."""
        actor, where = sent.actor, sent.actor.where
        # Actors run shares in order: this one was at the oldest.
        blamed = bool(actor.sent) and actor.sent[0] is sent
        if sent in actor.sent:  # else another of its shares has told of its death
            actor.restart()
        died = WorkerDied(f"{where} has died: {error}", worker=actor.index)
        died.__cause__ = error
        self._deaths.append(Death((sent.first, sent.stop) if blamed else (0, 0), died))
        self._spoilt = self._spoilt or sent.in_place

    def ask_to_finish(self) -> None:
        """See `Rows`; actors report by themselves, so only their answers are read."""
        self.listen(0.0)

    def end_round(self) -> Round | None:
        deaths, self._deaths = self._deaths, []
        left: np.ndarray = np.flatnonzero(~self.batch.done)
        if not (deaths or self._failures or len(left)):
            return None
        page = self._page
        if self._spoilt and page is not None and self.batch.memory is page.memory:
            old, request = self.batch, self.request
            fresh = RowBatch(old.layout, old.num_rows, old.horizon, infos=old.infos)
            fresh.load(request, states=False)
            for name in (*result_names(old.layout, old.infos), "done"):
                fresh.field(name)[...] = old.field(name)
            fresh.own_infos.update(old.own_infos)
            self.batch, self.request = fresh, dataclasses.replace(request, actions=fresh.actions)
        return Round(deaths, self._failures, self._excess, left)

    # Hangs ----------------------------------------------------------------------

    def hung(self) -> tuple[list[Actor], float | None]:
        limit = self._owner.row_timeout
        if limit is None:
            return [], limit
        return [actor for actor in self.waiting() if actor.is_silent(limit)], limit

    def stopped(self, hung: list[Actor], seconds: float | None) -> WorkerTimeout:
        """End actors that hang, start others, and return the error that names them."""
        found = []
        for actor in hung:
            rows = [sent for sent in self.open.values() if sent.actor is actor]
            running = f"rows {rows[0].first} to {rows[0].stop - 1}" if rows else "rows"
            found.append(
                f"{actor.where} has not answered within {seconds or 0:g} s while it ran {running}; "
                "it was ended, and another started in its place"
            )
            actor.restart()
            self._spoilt = self._spoilt or any(sent.in_place for sent in rows)
        return WorkerTimeout("\n".join(found), workers=tuple(actor.index for actor in hung))

    def row_of(self, worker: Actor) -> int:
        mine = bool(worker.sent) and worker.sent[0] in self.open.values()
        return worker.sent[0].first if mine else NO_ROW

    # The end --------------------------------------------------------------------

    def cancel(self) -> None:
        self.open.clear()

    def results(self) -> RowResults:
        """Return the gathered results: views of the page that the caller keeps, or copies."""
        batch, pages, page = self.batch, self._owner.pages, self._page
        if page is None or batch.memory is not page.memory:
            found = batch.results()
        elif pages.may_lease(batch.layout.offsets(batch.num_rows, batch.horizon)[1]):
            found = batch.results(page.lease())
        else:
            found = batch.results(copy=True)
        if self._slots is not None:
            self._slots.store.rows[self._slots.targets] = found.states
        return found

    def release(self) -> None:
        """Give the page back, unless an actor may still write to it."""
        if self._page is None:
            return
        if self._spoilt:
            self._owner.pages.drop(self._page)
        else:
            self._page.busy = False
