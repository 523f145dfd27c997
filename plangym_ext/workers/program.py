"""The worker program: one env, driven through a socket and shared memory.

Started as `python -P -m plangym_ext.workers.program SOCKET LIFELINE STACK` with
three inherited descriptors. The first message carries the parent's module path, what it has
registered, and the env's constructor; after that the worker answers one request at a time:

    ("block", id, nbytes)                map shared memory; brings its descriptor
    ("forget", kind, id)                 let go of a "block" or a "plan"
    ("lane", id, index)                  a claim queue; brings its descriptors
    ("plan", id, RowsMessage)            a kind of batch
    ("finish", request, lane)            answer when a claim queue is empty
    ("call", request, name, pickle)      call a method of the env with (args, kwargs)
    ("get", request, name)               read an attribute of the env
    ("widen", width)                     make state rows wider
    ("close",)                           leave

Batches come through claim queues, which wake it like a request. What was said before a
batch counts for it. It reports through the queue, and answers only what a report cannot say.

Every answer is `(request, status, payload)`. The status is "result"; "pickled", with a
payload that is pickled once more, so that one which cannot be read is an error of its own
request alone; "error", with an `ErrorReport`; or "too wide", with the bytes that lack.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import gc
import multiprocessing
import os
import pickle
import select
import signal
import socket
import sys
import time
from typing import Any

from plangym_ext.states import trust
from plangym_ext.states.families import register_family
from plangym_ext.workers.channel import Channel, ChannelClosed, Message
from plangym_ext.workers.claims import DONE, FAILED, MORE, Claim, ClaimEnd, Claims
from plangym_ext.workers.remote_errors import ErrorReport
from plangym_ext.workers.service import Service
from plangym_ext.workers.vigil import Vigil

_F_SETSIG = 10  # of Linux; Python has no name for it before 3.13
READY = 0  # request number of the answer to the first message
CLOSED = -1  # of what the env raised in `close`, if it did
#: Makes a worker write the stacks of its threads to the third descriptor.
STACK_SIGNAL = signal.SIGUSR2


def watch_parent(lifeline: int) -> None:
    """End this process the moment the parent is gone, however busy it is.

    The parent holds the only writing end of the lifeline and never writes. When it
    dies the kernel sends a signal here, which ends the process even inside native code that
    holds the interpreter lock: SIGKILL where the system can be told so, for an env may handle
    any other, else SIGIO. A worker leads a group of its own: the signal goes to all of it, so
    processes that the env started end too, but for those that have left the group (`setsid`).
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    elif sys.platform == "linux":
        fcntl.fcntl(lifeline, _F_SETSIG, signal.SIGKILL)
    leads = os.getpgrp() == os.getpid()
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpid() if leads else os.getpid())
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC | os.O_NONBLOCK)
    # The parent may have died before the flag was set; then the end is read here.
    with contextlib.suppress(BlockingIOError):
        if os.read(lifeline, 1) == b"":
            sys.exit(0)


class Worker:
    """Holds the env and answers requests.

    Args:
        channel: to the parent.
        constructor: returns a `PlanEnv` or a gymnasium env; or a `Service`.
    """

    def __init__(self, channel: Channel, constructor: Any) -> None:
        # Imported here: the module path of the parent is in place only now.
        from plangym_ext.workers.row_worker import WorkerEnv

        self._channel = channel
        self._env: Any = (
            constructor() if isinstance(constructor, Service) else WorkerEnv(constructor)
        )
        self._lanes: dict[int, ClaimEnd] = {}
        #: What there is to wait for: messages, and claims by descriptor.
        self._poller = select.poll()
        self._poller.register(channel.fileno(), select.POLLIN)
        self._vigil = Vigil(self._poller)
        self._woke = time.monotonic()
        self._queues: dict[int, ClaimEnd] = {}
        self._inbox: list[Message] = []
        #: The last descriptor that was read from.
        self._served = -1
        #: Whether something was done that may be asked for again at once.
        self._busy = False

    def description(self) -> dict[str, Any]:
        """What the parent has to know of the env."""
        return self._env.description()

    def serve(self, messages: list[Message]) -> None:
        """Answer requests, those that have come already first, until told to close."""
        self._inbox += messages
        while True:
            while self._inbox:
                message, fds = self._inbox.pop(0)
                if message[0] == "close":
                    self._close()
                    return
                self._serve(message, fds)
            if (queue := self._queues.get(self._ready())) is None:
                self._inbox += self._channel.receive()
            else:
                self._run_claims(queue)

    def _close(self) -> None:
        try:
            self._env.close()
        except (Exception, SystemExit) as error:  # any error of the env belongs to the caller
            self._channel.try_send((CLOSED, *self._problem(error)))

    def _ready(self) -> int:
        """A descriptor with something to read, which is waited for."""
        if self._busy:
            events = self._vigil.wait(time.monotonic() - self._woke)
        else:
            events = self._poller.poll()
        self._busy, self._woke = False, time.monotonic()
        fd = events[0][0]
        # Messages first; of two queues not the same twice, or one would wait for all that
        # follows in the other.
        if fd in self._queues and fd == self._served and len(events) > 1:
            fd = events[1][0]
        self._served = fd
        return fd

    def _serve(self, message: tuple[Any, ...], fds: list[int]) -> None:
        kind = message[0]
        if kind == "block":
            self._env.open_block(message[1], fds[0], message[2])
        elif kind == "plan":
            self._env.learn(message[1], message[2])
        elif kind == "forget":
            self._env.forget(message[1], message[2])
        elif kind == "lane":
            claim_fd, report_fd = fds
            queue = self._lanes[message[1]] = ClaimEnd(claim_fd, report_fd, message[2])
            self._queues[queue.claim_fd] = queue
            self._poller.register(queue.claim_fd, select.POLLIN)
        elif kind == "finish":
            self._answer(message[1], self._finish, message[2])
        elif kind == "call":
            self._busy = True
            self._answer(message[1], self._call, message[2], message[3])
        elif kind == "widen":
            self._env.widen(message[1])
        elif kind == "get":
            self._answer(message[1], self._get, message[2])
        else:
            raise ValueError(f"worker: unknown message {kind!r}")

    def _call(self, name: str, arguments: bytes) -> bytes:
        # Unpickled here, so that arguments which cannot be are an error of this call.
        args, kwargs = pickle.loads(arguments)
        return _pickled(self._env.call(name, args, kwargs))

    def _get(self, name: str) -> bytes:
        value = self._env.get(name)
        try:
            return _pickled(value)
        except Exception as error:  # whatever an object's own reduction raises
            raise TypeError(
                f"attribute {name!r}: a {type(value).__qualname__} lives in the worker and cannot "
                f"be sent from there ({error}). Read attributes of it that are plain data."
            ) from error

    def _finish(self, lane: int) -> bytes:
        self._run_claims(self._lanes[lane])
        return b""

    def _run_claims(self, queue: ClaimEnd) -> None:
        """Run what a queue offers until it is empty; others may have emptied it already."""
        claim = queue.take()
        while claim is not None:
            self._busy = True
            self._heed()
            claims = Claims(queue, claim)
            begun = time.monotonic_ns()
            kind = self._run_batch(queue, claim, claims)
            queue.report(claims, claim[0], kind, begun)
            claim = claims.ahead
        if queue.closed and queue.claim_fd in self._queues:
            del self._queues[queue.claim_fd]
            self._poller.unregister(queue.claim_fd)

    def _heed(self) -> None:
        """Do what was said before a batch was offered: it may be what the batch lies in."""
        while self._channel.has_come():
            self._inbox += self._channel.receive()
        if self._inbox:
            heard, self._inbox = self._inbox, []
            for message, fds in heard:
                # A claim is held here: nothing is finished before it has been run.
                if message[0] in ("finish", "close"):
                    self._inbox.append((message, fds))
                else:
                    self._serve(message, fds)

    def _run_batch(self, queue: ClaimEnd, claim: Claim, claims: Claims) -> int:
        request, plan, *_ = claim
        try:
            own_infos = self._env.run(plan, queue.index, claims)
        except (Exception, SystemExit) as error:  # any error of the env belongs to the caller
            # The batch has failed: what nobody has begun need not be run.
            queue.discard()
            self._channel.send((request, *self._problem(error)))
            return FAILED
        if own_infos:
            self._channel.send((request, "pickled", own_infos))
            return MORE
        return DONE

    def _answer(self, request: int, function: Any, *args: Any) -> None:
        try:
            answer = pickle.dumps((request, "pickled", function(*args)), protocol=5)
        except (Exception, SystemExit) as error:  # any error of the env belongs to the caller
            answer = pickle.dumps((request, *self._problem(error)), protocol=5)
        self._channel.send_pickled(answer)

    @staticmethod
    def _problem(error: BaseException) -> tuple[str, Any]:
        from plangym_ext.core.row_loop import RowError
        from plangym_ext.states.part import StateTooWide

        if not isinstance(error, RowError):
            return "error", ErrorReport.of(error)
        if isinstance(error.reason, StateTooWide):
            return "too wide", error.reason.excess
        return "error", ErrorReport.of(error.reason, error.row, error.action)


def _pickled(value: Any) -> bytes:
    try:
        return pickle.dumps(value, protocol=5)
    except Exception:  # whatever an object's own reduction raises
        import cloudpickle

        # Classes of the parent's main script came by value, and go back as the parent's own.
        data: bytes = cloudpickle.dumps(value, protocol=5)
        return data


def _prepare(families: bytes, registered: Any) -> None:
    """Import what every worker needs, and make known what the parent knows."""
    # Whatever is imported stays: to look for garbage in it takes a twentieth of the start.
    gc.disable()
    try:
        import plangym_ext.workers.row_worker  # noqa: F401 - it imports gymnasium

        for family in pickle.loads(families):
            register_family(family)
        if registered is not None:
            registered.install()
    finally:
        gc.enable()


def main(argv: list[str]) -> int:
    """Run the worker; returns the exit status."""
    # The parent alone decides what an interrupt means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if (stack_fd := int(argv[3])) >= 0:
        # Written inside the signal handler: native code that holds the interpreter lock
        # cannot keep it from that.
        faulthandler.register(STACK_SIGNAL, file=stack_fd)
    watch_parent(int(argv[2]))
    channel = Channel(socket.socket(fileno=int(argv[1])))
    try:
        ((path, (key, authkey), families, registered, constructor), _), *rest = channel.receive()
        sys.path[:] = path
        trust.join_session(key)
        multiprocessing.current_process().authkey = authkey
        try:
            _prepare(families, registered)
            worker = Worker(channel, pickle.loads(constructor))
            description = _pickled(worker.description())
        except (Exception, SystemExit) as error:  # whatever the caller's constructor raises
            channel.send((READY, "error", ErrorReport.of(error)))
            return 1
        channel.send((READY, "pickled", description))
        worker.serve(rest)
    except ChannelClosed:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
