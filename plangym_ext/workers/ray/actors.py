"""ActorPool: the Ray actors of one env, with replacement after deaths.

An actor that cannot be placed yet, because its node is gone, waits in Ray's queue. The others
do its work meanwhile, and it takes part again as soon as there is a node for it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from plangym_ext.errors import WorkerDied, WorkerTimeout
from plangym_ext.workers.limits import ACTOR_CLOSE_GRACE, ACTOR_START_TIMEOUT, MAX_ACTOR_DEATHS
from plangym_ext.workers.protocol import Service
from plangym_ext.workers.ray.cluster import ray_module
from plangym_ext.workers.ray.ray_worker import RayWorker
from plangym_ext.workers.ray.row_actor import Share

#: Weight of the last share in the running mean of an actor's speed.
_NEW = 0.3


@dataclass(eq=False)
class Sent:
    """A share that an actor has not answered yet.

    Attributes:
        actor: which.
        first, stop: rows of the batch.
        steps: that these rows take at most.
        in_place: whether it writes to the batch's page.
        since: when it was sent, in `time.monotonic()`.
    """

    actor: Actor
    first: int
    stop: int
    steps: int
    in_place: bool
    since: float


class Actor(RayWorker):
    """A worker with a backend that runs shares of batches, started at once.

    Args:
        service: makes a `RowActor`.
        index: its number.
        processors: of the cluster that it takes.
        n_workers: of its backend.

    Attributes:
        rate: row steps a second; None if none was seen.
        sent: what it has not answered, oldest first.
        deaths: how many have died since one was ready.
    """

    kind = "actor"

    def __init__(self, service: Service, index: int, processors: int, n_workers: int) -> None:
        super().__init__(service, index, processors)
        self.n_workers, self.deaths = n_workers, 0
        self.rate: float | None = None
        self.build()

    def _begin(self, processors: int) -> None:
        super()._begin(processors)
        self.sent: deque[Sent] = deque()
        self._answered = time.monotonic()
        #: The question whether it is there, and since when.
        self._question: tuple[Any, float] | None = None

    def restart(self) -> None:
        """Kill the actor and start another in its place."""
        self.deaths += 1
        super().restart()

    def run(self, share: Share) -> Any:
        """Send it a share; returns Ray's reference to the answer."""
        return self.handle.call.remote("run", share)

    @property
    def shares_memory(self) -> bool:
        """Whether the actor can map the driver's shared memory."""
        return self.description is not None and bool(self.description["shares_memory"])

    @property
    def load(self) -> int:
        """Row steps that the actor still has to take."""
        return sum(sent.steps for sent in self.sent)

    def answered(self, sent: Sent, seconds: float, *, watched: bool) -> None:
        """Record the duration of a share.

        Args:
            sent: the share.
            seconds: that the actor has told.
            watched: whether the answer was waited for: then its way here counts as well.
        """
        now = time.monotonic()
        if watched:
            seconds = max(seconds, now - max(sent.since, self._answered))
        self._answered, self._question = now, None
        if sent not in self.sent:  # it has died since
            return
        self.sent.remove(sent)
        rate = sent.steps / max(seconds, 1e-9)
        self.rate = rate if self.rate is None else self.rate + _NEW * (rate - self.rate)

    def is_silent(self, limit: float) -> bool:
        """Return whether its process has not answered a question for `limit` seconds.

        It is asked when it has said nothing for half as long.
        """
        ray, now = ray_module(), time.monotonic()
        if not self.sent or self.description is None:
            return False
        if self._question is None:
            if now - max(self._answered, self.sent[0].since) >= limit / 2:
                # In a group of its own, which answers while a share is run.
                question = self.handle.steps_done.options(concurrency_group="watch").remote()
                self._question = question, now
            return False
        question, since = self._question
        if ray.wait([question], timeout=0)[0]:
            self._question, self._answered = None, now
            return False
        return now - since >= limit / 2


class ActorPool:
    """The actors of one env.

    Args:
        sizes: workers of each.
        service: makes a `RowActor` with so many workers.
        reserves: whether an actor takes a processor of the cluster for each of its workers.
        check: checks an actor's description, and raises if the actor cannot be used.
    """

    def __init__(
        self,
        sizes: list[int],
        service: Callable[[int], Service],
        *,
        reserves: bool,
        check: Callable[[dict[str, Any]], None],
    ) -> None:
        self._check = check
        self.actors = [
            # A cluster that was started here has no processors to reserve; see `cluster._init`.
            Actor(service(size), index, size if reserves else 0, size)
            for index, size in enumerate(sizes)
        ]

    def ready(self) -> list[Actor]:
        """Return the actors whose backend is built, at least one, which is waited for.

        Raises:
            WorkerDied: they die while they build it, again and again.
            WorkerTimeout: none has built it in time.
            Exception: what building it has raised.
        """
        deadline = time.monotonic() + ACTOR_START_TIMEOUT
        timeout = 0.0
        while True:
            self._see_builds(timeout)
            found = [actor for actor in self.actors if actor.description is not None]
            if found:
                return found
            timeout = deadline - time.monotonic()
            if timeout <= 0:
                raise self._not_started()

    def _see_builds(self, timeout: float) -> None:
        """Read the start reports of actors, and restart those that have died."""
        ray = ray_module()
        begun = {actor.building: actor for actor in self.actors if actor.description is None}
        if not begun:
            return
        for ref in ray.wait(list(begun), num_returns=1, timeout=timeout)[0]:
            actor = begun[ref]
            try:
                found = actor.built()
            except WorkerDied as error:
                actor.restart()
                if actor.deaths <= MAX_ACTOR_DEATHS or any(one.description for one in self.actors):
                    continue
                # Counted anew, so that the next batch has as many attempts.
                actor.deaths, count = 0, actor.deaths
                raise WorkerDied(
                    f"{actor.where}: {count} in a row died while they built the env; the last "
                    f"because {error}",
                    worker=actor.index,
                ) from error
            self._check(found)
            actor.description, actor.deaths = found, 0

    def _not_started(self) -> WorkerTimeout:
        ray = ray_module()
        free, wanted = ray.available_resources().get("CPU", 0), self.actors[-1].n_workers
        return WorkerTimeout(
            f"backend='ray': none of {len(self.actors)} actors was ready within "
            f"{ACTOR_START_TIMEOUT:g} s. The smallest needs {wanted} processors on one node; "
            f"{free:g} of the cluster's {ray.cluster_resources().get('CPU', 0):g} are free. Add "
            "nodes, or end programs that hold processors.",
            workers=tuple(range(len(self.actors))),
        )

    def close(self) -> None:
        """End all actors and their workers."""
        # One that is at a share would answer only after that: it is killed.
        idle = [actor for actor in self.actors if not actor.sent]
        for actor in idle:
            actor.begin_close()
        for actor in self.actors:
            actor.close(ACTOR_CLOSE_GRACE if actor in idle else 0.0)
        self.actors.clear()
