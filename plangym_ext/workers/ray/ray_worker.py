"""RayWorker: a Ray actor with the interface of a `WorkerHandle`."""

from __future__ import annotations

import functools
import math
import os
import pickle
import time
from typing import Any

from plangym_ext.core.pending import Pending
from plangym_ext.errors import EnvClosed, WorkerDied, WorkerTimeout
from plangym_ext.workers.limits import ACTOR_CLOSE_GRACE, PROCESSOR_PATIENCE, START_TIMEOUT
from plangym_ext.workers.processes.process import pickled_constructor
from plangym_ext.workers.protocol import Service
from plangym_ext.workers.ray.cluster import Driver, ray_module
from plangym_ext.workers.remote_errors import ErrorReport


class ServiceActor:
    """Runs a worker's service in a Ray actor.

    Args:
        driver: that asks it.
        constructor: cloudpickle of a `Service`.
    """

    def __init__(self, driver: Driver, constructor: bytes) -> None:
        self._driver, self._constructor = driver, constructor
        self._served: Any = None

    def build(self) -> dict[str, Any] | ErrorReport:
        """Make the service; return its description, or its error."""
        try:
            self._driver.meet()
            self._served = pickle.loads(self._constructor)()
            where = {"pid": os.getpid(), "host": os.uname().nodename}
            return {**self._served.description(), **where}
        except (Exception, SystemExit) as error:  # whatever the caller's constructor raises
            return ErrorReport.of(error)

    def call(self, name: str, *args: Any) -> Any:
        """Call a method of the service; an exception is returned as an `ErrorReport`."""
        try:
            return self._served.call(name, args, {})
        except (Exception, SystemExit) as error:  # any error of the env belongs to the caller
            return ErrorReport.of(error)

    def steps_done(self) -> int:
        """Return how far the call that is in progress is; called beside it."""
        return int(getattr(self._served, "steps_done", 0))

    def close(self) -> None:
        """Close the service."""
        if self._served is not None:
            self._served.close()


class RayWorker:
    """A worker in a Ray cluster; `build` starts it, and `restart` another one in its place.

    Args:
        service: what it serves; travels by cloudpickle.
        index: number of the worker, for messages.
        processors: of the cluster that it takes, if they are free.

    Attributes:
        description: what the service says of itself; None until it is built.
        start_timeout: seconds that it may take to be built; None for no limit.
        handle, building: Ray's references to the actor and to its description.

    Raises:
        TypeError: the service cannot be pickled.
    """

    #: What it is called in messages.
    kind = "worker"

    def __init__(self, service: Service, index: int, processors: int) -> None:
        self.index = index
        self.fallen: WorkerDied | None = None
        self._reserved = processors
        self._constructor = pickled_constructor(service, index)
        self.description: dict[str, Any] | None = None
        self.start_timeout: float | None = START_TIMEOUT
        self.handle: Any = None
        self._last_command, self._told = "start", 0
        #: The question how far it is, while it has no answer.
        self._asked: Any = None
        self._closing: Any = None

    # Starting -----------------------------------------------------------------------------

    def build(self) -> None:
        """Start the worker, which begins to build its service; further calls do nothing."""
        if self.handle is None:
            self._begin(self._reserved)

    def _begin(self, processors: int) -> None:
        remote = ray_module().remote(concurrency_groups={"watch": 1})(ServiceActor)
        options = {"num_cpus": processors, "scheduling_strategy": "SPREAD", "max_restarts": 0}
        self.handle = remote.options(**options).remote(Driver.of_this_process(), self._constructor)
        self.building = self.handle.build.remote()
        self._processors, self.description, self.fallen = processors, None, None
        self._asked, self._told, self._last_command = None, 0, "start"

    def restart(self) -> None:
        """Replace the worker, dead or alive, by a new one."""
        if self.handle is not None:
            ray_module().kill(self.handle, no_restart=True)
        self._begin(self._reserved)

    def describe(self) -> dict[str, Any]:
        """Return the service's description; waits until it is built.

        Raises:
            WorkerDied: the worker ended while it was built.
            WorkerTimeout: it was not placed, or not built, in time.
            Exception: whatever building it raised.
        """
        self.build()
        if self.description is None:
            self._await_built()
            self.description = self.built()
        return self.description

    def built(self) -> dict[str, Any]:
        """Return the description, which has come; raises as `describe`."""
        found: dict[str, Any] = self._taken(self.building)
        return found

    def _await_built(self) -> None:
        """Wait until it is built; one whose processor does not come gets none of its own."""
        ray, limit = ray_module(), self.start_timeout
        deadline = math.inf if limit is None else time.monotonic() + limit
        patience: float | None = PROCESSOR_PATIENCE
        while not ray.wait([self.building], timeout=patience)[0]:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self.hung(limit)
            if self._processors and ray.available_resources().get("CPU", 0) < 1:
                # A node has died, and there is no room for all on the others.
                ray.kill(self.handle, no_restart=True)
                self._begin(0)
            patience = None if limit is None else left

    # Calls --------------------------------------------------------------------------------

    def call(self, name: str, *args: Any) -> Pending[Any]:
        """Call a method of the service; `placed` values arrive as themselves.

        Raises:
            WorkerDied: the worker is gone.
        """
        if self._closing is not None:
            raise EnvClosed(f"worker {self.index}: this actor is closed. Make a new one.")
        if self.fallen is not None:
            raise self.fallen
        self.describe()
        self._last_command = name
        ref = self.handle.call.remote(name, *args)
        ray = ray_module()
        return Pending(
            functools.partial(self._answer, ref),
            lambda timeout: bool(ray.wait([ref], timeout=timeout)[0]),
            resumable=True,
        )

    def _answer(self, ref: Any, timeout: float | None) -> Any:
        if not ray_module().wait([ref], timeout=timeout)[0]:
            raise self.hung(timeout)
        return self._taken(ref)

    def _taken(self, ref: Any) -> Any:
        """Return or raise what an answer says that has come."""
        ray = ray_module()
        try:
            found = ray.get(ref)
        except ray.exceptions.RayTaskError:
            raise
        except ray.exceptions.RayError as error:
            self._fall(f"{self.where} died during {self._last_command!r}: {_first_line(error)}")
            raise self.death() from None
        if isinstance(found, ErrorReport):
            raise found.rebuild(self.where)
        return found

    def steps_done(self) -> int:
        """Return how far the call in progress is, as far as that is known here."""
        ray = ray_module()
        if self._asked is not None and ray.wait([self._asked], timeout=0)[0]:
            asked, self._asked = self._asked, None
            try:
                self._told = ray.get(asked)
            except ray.exceptions.RayError:
                return self._told  # it has died, which the call says
        if self._asked is None:
            question = self.handle.steps_done.options(concurrency_group="watch")
            self._asked = question.remote()
        return self._told

    # Ends ---------------------------------------------------------------------------------

    @property
    def where(self) -> str:
        """`worker 1 (pid 4711 on host)`, for messages."""
        if self.description is None:
            return f"{self.kind} {self.index}"
        return f"{self.kind} {self.index} (pid {self.pid} on {self.description['host']})"

    @property
    def pid(self) -> int:
        """Its process, on its machine."""
        return int(self.describe()["pid"])

    def death(self) -> WorkerDied:
        """Return the error with a dead worker's end."""
        if self.fallen is None:
            self._fall(f"{self.where} has ended.")
        assert self.fallen is not None
        return self.fallen

    def _fall(self, message: str) -> None:
        pid = None if self.description is None else int(self.description["pid"])
        self.fallen = WorkerDied(
            message, worker=self.index, pid=pid, last_command=self._last_command
        )

    def hung(self, seconds: float | None, doing: str = "") -> WorkerTimeout:
        """Return the error for a worker that has not answered in time; ends it."""
        ray, where = ray_module(), self.where
        if self.description is None:
            free = ray.available_resources().get("CPU", 0)
            doing = f"{doing}; of the cluster's processors {free:g} are free"
        ray.kill(self.handle, no_restart=True)
        self._fall(f"{where} was stopped, for it did not answer {self._last_command!r} in time.")
        return WorkerTimeout(
            f"{where} did not answer {self._last_command!r} within {seconds} s{doing} and was "
            "stopped.",
            workers=(self.index,),
        )

    def begin_close(self) -> None:
        """Ask the worker to leave, without waiting for it."""
        if self.handle is None or self._closing is not None or not ray_module().is_initialized():
            return  # there is none, or it has ended with the connection
        self._closing = self.handle.close.remote()

    def close(self, grace: float = ACTOR_CLOSE_GRACE) -> None:
        """Close the service and end the worker; safe to call twice.

        Args:
            grace: seconds that the service may take before the worker is killed.
        """
        self.begin_close()
        ray = ray_module()
        if self.handle is None or not ray.is_initialized():
            return
        # One that is still being built, or at a call, has nothing to put in order.
        if self.description is not None and self.fallen is None:
            ray.wait([self._closing], timeout=grace)
        ray.kill(self.handle, no_restart=True)
        self.handle = None


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
