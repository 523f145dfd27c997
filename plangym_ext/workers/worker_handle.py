"""WorkerHandle: requests to one worker, which may be replaced after its death."""

from __future__ import annotations

import functools
import itertools
import pickle
import time
from collections.abc import Callable, Container
from typing import Any

from plangym_ext.arrays.closing import Closing
from plangym_ext.core.one_caller import OneCaller
from plangym_ext.core.pending import Pending
from plangym_ext.errors import EnvClosed, WorkerDied, WorkerTimeout
from plangym_ext.workers.channel import (
    ChannelClosed,
    ChannelDamaged,
    ChannelFull,
    Plain,
    check_descriptors,
    wait_readable,
)
from plangym_ext.workers.limits import CLOSE_GRACE, SEND_TIMEOUT, START_TIMEOUT
from plangym_ext.workers.processes.process import WorkerProcess, pickled_constructor
from plangym_ext.workers.protocol import (
    CLOSED,
    COMMANDS,
    READY,
    Call,
    Failure,
    Get,
    Reply,
    Service,
    ToWorker,
    Value,
)
from plangym_ext.workers.remote_errors import warn_of

#: Numbers of requests; none is used again in this process.
requests = itertools.count(READY + 1)


class WorkerHandle(Closing):
    """The parent's handle of a worker; `build`, or the first request, starts it.

    Args:
        constructor: callable that returns a gymnasium env, a `GymEnv` or what a `Service`
            serves; it is called in the worker. Lambdas and local classes travel by cloudpickle.
        index: number of the worker, for messages.

    Attributes:
        process: that it runs in now; there is none before `build`.
        constructor: as it is sent to a process that is started.

    Raises:
        TypeError: the constructor is not callable or cannot be pickled.
    """

    process: WorkerProcess

    def __init__(self, constructor: Callable[[], Any], *, index: int = 0) -> None:
        self.index = index
        #: The guard of its calls; handles that share workers share it.
        self.one_caller = OneCaller("ExternalProcess")
        self.one_caller.bind_to_process()
        self._built = self._closed = False
        #: Seconds that the worker may leave a request unread before it counts as hung.
        self.send_timeout: float | None = SEND_TIMEOUT
        #: Seconds that building what it serves may take.
        self.start_timeout: float | None = START_TIMEOUT
        self.constructor = pickled_constructor(constructor, index)
        self._imports = constructor.imports if isinstance(constructor, Service) else ()
        self._description: dict[str, Any] | None = None
        #: Answers that have come and were not taken yet, also those of workers that
        #: were replaced since.
        self._answers: dict[int, Reply] = {}
        #: Requests whose answers will not be asked for.
        self._forgotten: set[int] = set()

    def build(self) -> None:
        """Start the worker, which begins to build its service; further calls do nothing.

        Raises:
            EnvClosed: `close` was called.
            StorageError: there are too few descriptors left for another process.
        """
        self._check_open()
        if not self._built:
            check_descriptors(1)
            self._begin()

    def _begin(self) -> None:
        process = WorkerProcess(self.constructor, self.index, self._imports)
        self.process, self._built = process, True
        self._description = None
        self.last_command = "start"
        self._answers.pop(READY, None)  # that of the worker before
        self._forgotten.clear()  # it will not answer them

    @property
    def fallen(self) -> WorkerDied | None:
        """How the worker ended, once that was seen; None again when it is restarted."""
        return self.process.fallen if self._built else None

    def restart(self) -> None:
        """Replace the worker, dead or alive, by a new one with a new env."""
        self._check_open()
        if self._built:
            if self.process.fallen is None:
                self._fall(f"{self.where} was replaced before it had answered. Ask again.")
            self.process.stop(0.0)
        self._begin()

    def describe(self) -> dict[str, Any]:
        """Return name, spaces and row layout of the env; waits until it is built.

        Raises:
            WorkerDied: the worker ended while it built the env.
            Exception: whatever the constructor raised, with the worker's traceback.
        """
        if self._description is None:
            self.build()
            try:
                found = self.result(READY, self.start_timeout)
            except Exception:
                if READY in self._answers:  # it ends by itself, but nothing may be waiting for that
                    self._fall(f"{self.where} was stopped, for it could not build its env.")
                raise
            # Last: an interrupt before it leaves all of this to be done again.
            self._description = found
        return self._description

    @property
    def ready(self) -> bool:
        """Whether the env is built, by the answers received so far."""
        return self._description is not None or READY in self._answers

    # Requests -------------------------------------------------------------------

    def post(self, message: ToWorker, fds: tuple[int, ...] = (), command: str = "") -> None:
        """Send a request, and descriptors along with it, without waiting for its answer.

        Args:
            message: the request.
            fds: the descriptors.
            command: what the worker is about to do, for messages; "" for the request's kind.

        Raises:
            EnvClosed: `close` was called.
            WorkerDied: the worker is gone.
            WorkerTimeout: its channel was full of unread requests, and it was stopped.
        """
        process = self.process
        if self._closed:
            self._check_open()
        if process.fallen is not None:
            raise process.fallen
        self.last_command = command or COMMANDS[type(message)]
        try:
            process.channel.send(message, fds, self.receive, self.send_timeout)
        except ChannelFull:
            raise self.hung(self.send_timeout) from None
        except ChannelClosed:
            raise self.death() from None

    def _check_open(self) -> None:
        if self._closed:
            raise EnvClosed(f"worker {self.index}: this process is closed. Make a new one.")

    def receive(self) -> None:
        """Read the channel without waiting, and keep answers for `taken`.

        If the worker is gone, it has `fallen` from then on.
        """
        # Noted, not raised: an error that is kept would keep whatever its traceback holds.
        try:
            for reply, _ in self.process.channel.collect():
                if reply.request in self._forgotten:
                    self._forgotten.discard(reply.request)
                else:
                    self._answers[reply.request] = reply
        except ChannelDamaged as error:
            self.damaged(error)
        except ChannelClosed:
            self.death()
        except BaseException:  # an interrupt: answers may have been lost
            self.process.channel.shut()
            raise

    def forget(self, request: int) -> None:
        """Drop the answer to a request when it comes."""
        if self._answers.pop(request, None) is None:
            self._forgotten.add(request)

    def taken(self, request: int) -> Reply | None:
        """Return a request's answer once, if it has arrived.

        That is kept for as long as the worker lives: it cannot be asked for again.
        """
        if request == READY:
            return self._answers.get(READY)
        return self._answers.pop(request, None)

    def has_answer(self, request: int) -> bool:
        """Return whether the answer to a request has come and was not taken yet."""
        return request in self._answers

    def death(self) -> WorkerDied:
        """Return the error with a dead worker's end."""
        if self.process.fallen is None:
            self.process.fallen = self.process.death(self.last_command)
        return self.process.fallen

    def damaged(self, error: ChannelDamaged) -> None:
        """Record invalid data from the worker, and kill it."""
        self._fall(
            f"{self.where} was stopped during {self.last_command!r}, for {error}: an env has "
            "written to a descriptor that is not its own."
        )

    def _fall(self, message: str) -> None:
        self.process.stop(0.0)
        self.process.fallen = WorkerDied(
            message, worker=self.index, pid=self.process.pid, last_command=self.last_command
        )

    def result(
        self, request: int, timeout: float | None = None, process: WorkerProcess | None = None
    ) -> Any:
        """Wait for a request's answer; return or raise it.

        Args:
            request: its number.
            timeout: seconds to wait; None waits as long as the worker lives.
            process: the one that was asked; the present one if None.

        Raises:
            EnvClosed: `close` was called.
            WorkerTimeout: no answer in time. The worker has been stopped.
            WorkerDied: the worker is gone.
        """
        with self.one_caller:
            return self._result(request, timeout, process or self.process)

    def _result(self, request: int, timeout: float | None, process: WorkerProcess) -> Any:
        deadline = None if timeout is None else time.monotonic() + timeout
        looked = False
        while (answer := self.taken(request)) is None:
            self._check_open()
            if process.fallen is not None:
                raise process.fallen
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            # One that goes on sending without ever coming to an end is late, too.
            late = looked and left == 0.0
            if late or not (ready := wait_readable(self.process.signs, left)):
                raise self.hung(timeout)
            self.look(ready)
            looked = True
        return self.opened(answer)

    def _has_come(self, request: int, timeout: float, process: WorkerProcess) -> bool:
        """Return whether `result` would return at once, after waiting up to `timeout` seconds."""
        with self.one_caller:
            deadline = time.monotonic() + timeout
            while not (self._closed or process.fallen is not None or request in self._answers):
                left = deadline - time.monotonic()
                ready = wait_readable(self.process.signs, max(0.0, left))
                if not ready and left <= 0:
                    return False
                self.look(ready)
            return True

    def look(self, ready: Container[int]) -> None:
        """Read the channel, or record the worker's end.

        `ready` are descriptors that are readable, of the process's `signs` and others.
        """
        if self.process.channel.fileno() in ready:
            self.receive()
        elif self.process.pidfd in ready:
            # A process that the env started may still hold the socket open.
            self.death()

    def opened(self, answer: Reply) -> Any:
        """Return or raise the content of an answer."""
        if isinstance(answer, Failure):
            raise answer.report.rebuild(self.where)
        if isinstance(answer, Plain):
            return answer.data
        assert isinstance(answer, Value)
        return pickle.loads(answer.data)

    def hung(self, seconds: float | None, doing: str = "") -> WorkerTimeout:
        """Return the error for a worker that has not answered in time; ends it."""
        stack = self.process.stack()
        self._fall(
            f"{self.where} was stopped, for it did not answer {self.last_command!r} in time. "
            "Call restart() to go on with a new one."
        )
        return WorkerTimeout(
            f"{self.where} did not answer {self.last_command!r} within {seconds} s{doing} and "
            f"was stopped.\n{stack or 'It gave no stack.'}".rstrip(),
            workers=(self.index,),
        )

    @property
    def where(self) -> str:
        """The worker by name, for messages."""
        return f"worker {self.index} (pid {self.process.pid})"

    def call(self, name: str, *args: Any, **kwargs: Any) -> Pending[Any]:
        """Call a method of the env in the worker; returns a promise of its result."""
        return self._ask(Call(next(requests), name, pickle.dumps((args, kwargs), protocol=5)))

    def _ask(self, message: Call | Get) -> Pending[Any]:
        with self.one_caller:
            self.describe()
            request = message.request
            self.post(message)
            process = self.process
            return Pending(
                lambda timeout: self.result(request, timeout, process),
                lambda timeout: self._has_come(request, timeout, process),
                drop=functools.partial(self.forget, request),
                resumable=True,
            )

    # Life -----------------------------------------------------------------------

    def begin_close(self) -> None:
        """Ask the worker to leave, without waiting for it."""
        if self._built and not self._closed:
            self.process.begin_stop()

    def close(self, grace: float = CLOSE_GRACE) -> None:
        """Close the env and end its process; a warning reports the env's exception.

        Further calls do nothing.

        Args:
            grace: seconds that the worker may take to leave before it is killed.
        """
        warn_of([self.end(grace)])

    def end(self, grace: float = CLOSE_GRACE) -> BaseException | None:
        """Close the env and end its process; further calls do nothing.

        Args:
            grace: seconds that the worker may take to leave before it is killed.

        Returns:
            What the env raised, if it did.
        """
        self.begin_close()
        self._closed = True
        if not self._built:
            return None
        # A worker that is still building its env has nothing to put in order.
        left = self.process.stop(grace if self._description is not None else 0.0)
        for reply in left:
            if reply.request == CLOSED and isinstance(reply, Failure):
                return reply.report.rebuild(self.where)
        return None

    def kill(self) -> None:
        """End the worker under a call of another thread, which fails; `close` it afterwards."""
        self._closed = True
        if self._built:
            self.process.kill()
