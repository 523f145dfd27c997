"""The worker program: one env, driven through a socket and shared memory.

Started as `python -P -m plangym_ext.vectorization.worker SOCKET LIFELINE STACK` with
three inherited descriptors. The first message carries the parent's module path and the
env's constructor; after that the worker answers one request at a time:

    ("block", id, nbytes)                map shared memory; brings its descriptor
    ("forget", kind, id)                 let go of a "block" or a "plan"
    ("lane", id, index)                  a claim queue; brings its descriptor
    ("plan", id, RowsMessage)            a kind of batch
    ("rows", request, lane, plan)        run the rows of a batch that this worker claims
    ("call", request, name, pickle)      call a method of the env with (args, kwargs)
    ("get", request, name)               read an attribute of the env
    ("widen", width)                     make state rows wider
    ("close",)                           leave

Every answer is `(request, status, payload)`. The status is "result"; "pickled", with a
payload that is pickled once more, so that one which cannot be read is an error of its own
request alone; "error", with an `ErrorReport`; or "too wide", with the bytes that lack.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import os
import pickle
import select
import signal
import socket
import sys
import time
from typing import Any

from plangym_ext.core import trust
from plangym_ext.core.families import register_family
from plangym_ext.vectorization.channel import Channel, ChannelClosed, Message
from plangym_ext.vectorization.claims import claims
from plangym_ext.vectorization.remote_errors import ErrorReport
from plangym_ext.vectorization.service import Service
from plangym_ext.vectorization.vigil import Vigil

READY = 0  # request number of the answer to the first message
#: Makes a worker write the stacks of its threads to the third descriptor.
STACK_SIGNAL = signal.SIGUSR2


def watch_parent(lifeline: int) -> None:
    """End this process the moment the parent is gone, however busy it is.

    The parent holds the only writing end of the lifeline and never writes. When it
    dies the kernel raises SIGIO here, whose default action ends the process even
    inside native code that holds the interpreter lock. A worker leads a group of its
    own: the signal goes to all of it, so processes that the env started end too.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
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
        from plangym_ext.vectorization.worker_env import WorkerEnv

        self._channel = channel
        poller = select.poll()
        poller.register(channel.fileno(), select.POLLIN)
        self._vigil = Vigil(poller)
        self._env: Any = (
            constructor() if isinstance(constructor, Service) else WorkerEnv(constructor)
        )
        #: Claim queues, and this worker's number among those that share one.
        self._lanes: dict[int, tuple[int, int]] = {}

    def description(self) -> dict[str, Any]:
        """What the parent has to know of the env."""
        return self._env.description()

    def serve(self, messages: list[Message]) -> None:
        """Answer requests, those that have come already first, until told to close."""
        while True:
            began = time.monotonic()
            for message, fds in messages:
                if message[0] == "close":
                    self._env.close()
                    return
                self._serve(message, fds)
            if messages and messages[-1][0][0] in ("rows", "call"):
                self._vigil.wait(time.monotonic() - began)
            messages = self._channel.receive()

    def _serve(self, message: tuple[Any, ...], fds: list[int]) -> None:
        kind = message[0]
        if kind == "rows":
            self._answer(message[1], self._run_rows, *message[1:])
        elif kind == "block":
            self._env.open_block(message[1], fds[0], message[2])
        elif kind == "plan":
            self._env.learn(message[1], message[2])
        elif kind == "forget":
            self._env.forget(message[1], message[2])
        elif kind == "lane":
            self._lanes[message[1]] = (fds[0], message[2])
        elif kind == "call":
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
        return pickle.dumps(self._env.call(name, args, kwargs), protocol=5)

    def _get(self, name: str) -> bytes:
        return pickle.dumps(self._env.get(name), protocol=5)

    def _run_rows(self, request: int, lane: int, plan: int) -> bytes:
        claim_fd, index = self._lanes[lane]
        try:
            return self._env.run(plan, index, claims(claim_fd, request))
        except BaseException:
            # The batch has failed: what nobody has begun need not be run.
            for _ in claims(claim_fd, None):
                pass
            raise

    def _answer(self, request: int, function: Any, *args: Any) -> None:
        try:
            answer = pickle.dumps((request, "pickled", function(*args)), protocol=5)
        except Exception as error:  # any error of the env belongs to the caller
            answer = pickle.dumps((request, *self._problem(error)), protocol=5)
        self._channel.send_pickled(answer)

    @staticmethod
    def _problem(error: Exception) -> tuple[str, Any]:
        from plangym_ext.core.part import StateTooWide
        from plangym_ext.core.row_loop import RowError

        if not isinstance(error, RowError):
            return "error", ErrorReport.of(error)
        if isinstance(error.reason, StateTooWide):
            return "too wide", error.reason.excess
        return "error", ErrorReport.of(error.reason, error.row, error.action)


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
        ((path, key, families, constructor), _), *rest = channel.receive()
        sys.path[:] = path
        trust.join_session(key)
        try:
            for family in pickle.loads(families):
                register_family(family)
            worker = Worker(channel, pickle.loads(constructor))
            description = worker.description()
        except Exception as error:  # whatever the caller's constructor raises
            channel.send((READY, "error", ErrorReport.of(error)))
            return 1
        channel.send((READY, "result", description))
        worker.serve(rest)
    except ChannelClosed:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
