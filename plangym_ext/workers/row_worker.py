"""Worker: the worker's request loop, and the execution of rows from queues."""

from __future__ import annotations

import os
import pickle
import select
import time
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np

from plangym_ext.arrays.storage import SharedBlock, keep_blocks_private
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.one_caller import end_copy, in_child
from plangym_ext.core.row_loop import RowError, RowLoop, row_error
from plangym_ext.core.rows import RowBatch
from plangym_ext.errors import WrongKind
from plangym_ext.states.part import StateTooWide
from plangym_ext.workers.batch_layout import NO_ROW, worker_lines
from plangym_ext.workers.channel import Channel, Message, Plain
from plangym_ext.workers.protocol import (
    CLOSED,
    Call,
    Close,
    Failure,
    Finish,
    ForgetBlock,
    ForgetLayout,
    Get,
    KnowArrays,
    KnowLayout,
    OpenBlock,
    OpenQueue,
    Service,
    TooWide,
    ToWorker,
    Value,
)
from plangym_ext.workers.remote_errors import ErrorReport, pickled
from plangym_ext.workers.row_queue import DONE, FAILED, MORE, Claims, QueueEnd
from plangym_ext.workers.scheduling import SpinWait


class Worker:
    """Holds the env, answers requests, and runs rows that queues offer.

    Args:
        channel: to the parent.
        constructor: returns a `PlanEnv` or a gymnasium env; or a `Service`.
    """

    def __init__(self, channel: Channel, constructor: Any) -> None:
        self._channel = channel
        self._env: Any = (
            constructor() if isinstance(constructor, Service) else WorkerEnv(constructor)
        )
        #: By number, and by the descriptor that claims are read from.
        self._numbered: dict[int, QueueEnd] = {}
        self._queues: dict[int, QueueEnd] = {}
        #: What there is to wait for: messages and claims.
        self._poller = select.poll()
        self._poller.register(channel.fileno(), select.POLLIN)
        self._spin = SpinWait(self._poller)
        self._woke = time.monotonic()
        self._inbox: list[Message] = []
        in_child(self._leave)
        #: The last descriptor that was read from.
        self._served = -1
        #: Whether something was done that may be asked for again at once.
        self._busy = False

    def _leave(self) -> None:
        """Let go of the parent, in a copy of this process: it would take and answer its calls.

        And it would write results over newer ones before it comes back to the channel.
        """
        keep_blocks_private()
        for name in ("send", "receive", "has_come"):
            setattr(self._channel, name, _come_back)
        nothing = os.open(os.devnull, os.O_RDWR)
        for queue in self._numbered.values():
            os.dup2(nothing, queue.claim_fd)
            os.dup2(nothing, queue.report_fd)
        os.close(nothing)

    def description(self) -> dict[str, Any]:
        """Return the env's description for the parent."""
        return self._env.description()

    def serve(self, messages: list[Message]) -> None:
        """Serve requests in the order of arrival, until the close."""
        self._inbox += messages
        while True:
            while self._inbox:
                message, fds = self._inbox.pop(0)
                if isinstance(message, Close):
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
        except BaseException as error:  # any error of the env belongs to the caller
            self._channel.try_send(_problem(CLOSED, error))

    def _ready(self) -> int:
        """Return a descriptor with something to read, which is waited for."""
        if self._busy:
            events = self._spin.wait(time.monotonic() - self._woke)
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

    def _serve(self, message: ToWorker, fds: list[int]) -> None:
        match message:
            case Plain():
                self._answer(message.request, self._env.plain, message)
            case Call():
                self._answer(message.request, self._call, message.name, message.arguments)
            case Finish():
                self._answer(message.request, self._finish, message.queue)
            case Get():
                self._answer(message.request, self._get, message.name)
            case _:
                self._take_in(message, fds)

    def _take_in(self, message: ToWorker, fds: list[int]) -> None:
        """Know from now on what a message says, which is not answered."""
        match message:
            case OpenBlock():
                self._env.open_block(message.number, fds[0], message.nbytes)
            case ForgetBlock():
                self._env.close_block(message.number)
            case KnowLayout() | KnowArrays():
                self._env.know(message)
            case ForgetLayout():
                self._env.forget(message.number)
            case OpenQueue():
                claim_fd, report_fd = fds
                queue = QueueEnd(claim_fd, report_fd, message.worker)
                self._numbered[message.number] = queue
                self._queues[queue.claim_fd] = queue
                self._poller.register(queue.claim_fd, select.POLLIN)
            case _:
                raise ValueError(f"worker: unknown message {message!r}")

    def _call(self, name: str, arguments: bytes) -> bytes:
        # Unpickled here, so that arguments which cannot be are an error of this call.
        args, kwargs = pickle.loads(arguments)
        return pickled(self._env.call(name, args, kwargs))

    def _get(self, name: str) -> bytes:
        value = self._env.get(name)
        try:
            return pickled(value)
        except Exception as error:  # whatever an object's own reduction raises
            raise WrongKind(
                f"attribute {name!r}: a {type(value).__qualname__} lives in the worker and cannot "
                f"be sent from there ({error}). Read attributes of it that are plain data."
            ) from error

    def _finish(self, queue: int) -> bytes:
        # Earlier claims have been run: messages are read between batches.
        self._run_claims(self._numbered[queue])
        return b""

    def _run_claims(self, queue: QueueEnd) -> None:
        """Run what a queue offers until it is empty; others may have emptied it already."""
        claim = queue.take()
        while claim is not None:
            self._busy = True
            self._heed()
            request, layout, *_ = claim
            claims, begun, kind = Claims(queue, claim), time.monotonic_ns(), DONE
            loop: RowLoop | None = None
            try:
                loop = self._env.loop(layout)
                for first, stop in claims:
                    loop.run(first, stop)
                own = _pickled_own(loop.batch)
            # Any error of the env belongs to the caller. An interrupt is the env's own, too: this
            # process ignores the signal.
            except BaseException as error:
                # The batch has failed: rows that no worker has begun need not be run.
                queue.discard()
                self._channel.send(_problem(request, _of_row(loop, error)))
                kind = FAILED
            else:
                if own:
                    self._channel.send(Value(request, own))
                    kind = MORE
            # After what is said on the channel, where the parent then looks for it without waiting.
            queue.report(claims, request, kind, begun)
            claim = claims.ahead
        if queue.closed and queue.claim_fd in self._queues:
            del self._queues[queue.claim_fd]
            self._poller.unregister(queue.claim_fd)

    def _heed(self) -> None:
        """Handle messages sent before this batch; they may map its memory."""
        while self._channel.has_come():
            self._inbox += self._channel.receive()
        if self._inbox:
            heard, self._inbox = self._inbox, []
            for message, fds in heard:
                # A claim is held here: nothing is finished before it has been run.
                if isinstance(message, Finish | Close):
                    self._inbox.append((message, fds))
                else:
                    self._serve(message, fds)

    def _answer(self, request: int, function: Any, *args: Any) -> None:
        self._busy = True
        try:
            answer: Any = function(*args)
            if type(answer) is bytes:
                answer = Value(request, answer)
        except BaseException as error:  # any error of the env belongs to the caller
            answer = _problem(request, error)
        self._channel.send(answer)


def _come_back(*_: Any, **__: Any) -> NoReturn:
    end_copy("an env of a worker")


def _of_row(loop: RowLoop | None, error: BaseException) -> BaseException:
    """Return an error as that of the row that was being run, where its loop has let it pass."""
    if loop is None or isinstance(error, Exception):
        return error
    progress = loop.batch.progress
    row, progress[0] = int(progress[0]), NO_ROW
    return error if row == NO_ROW else row_error(loop.batch, row, error)


def _problem(request: int, error: BaseException) -> Failure | TooWide:
    """Return the reply to a request that has raised, which is being handled."""
    reason: BaseException = error
    where: tuple[Any, ...] = ()
    if isinstance(error, RowError):
        reason, where = error.reason, (error.row, error.action)
    if isinstance(reason, StateTooWide):
        return TooWide(request, reason.excess)
    return Failure(request, ErrorReport.of(reason, *where))


class WorkerEnv:
    """One `GymEnv` and the batches in shared memory that it runs rows of.

    Args:
        constructor: returns a `GymEnv`, or a gymnasium env to make one of.
    """

    def __init__(self, constructor: Any) -> None:
        env = constructor()
        if isinstance(env, gym.Env):
            made = env
            env = GymEnv(lambda: made)
        if getattr(env, "backend", "process") != "process":
            # A native backend runs batches for an env of this process: a worker steps that.
            env = getattr(env, "plan_env", env)
        if not isinstance(env, GymEnv):
            raise WrongKind(
                "constructor: expected it to return a gymnasium.Env or a plangym_ext GymEnv; got "
                f"{type(env).__module__}.{type(env).__qualname__}"
            )
        self._env = env
        self._blocks: dict[int, SharedBlock] = {}
        self._layouts: dict[int, KnowLayout] = {}
        #: What follows from a layout, by its number: making it costs as much as a few rows. All
        #: are made anew when memory or a layout is let go of.
        self._loops: dict[int, RowLoop] = {}

    def description(self) -> dict[str, Any]:
        """Return name, spaces and row layout, for the parent's checks and reports."""
        env = self._env
        return {
            "name": env.name,
            "observation_space": env.observation_space,
            "action_space": env.action_space,
            "autoreset": env.autoreset,
            "layout": env.layout,
            "info": env.layout.info,
            "identity": env.own_identity(),
            "way": env.envelope.way,
            "payload_width": env.codec.width,
            "exact": env.exact,
        }

    def open_block(self, number: int, fd: int, nbytes: int) -> None:
        """Map shared memory, to be known by a number."""
        self._blocks[number] = SharedBlock.attach(fd, nbytes)

    def close_block(self, number: int) -> None:
        """Unmap shared memory, with all views."""
        self._loops.clear()
        self._blocks.pop(number).close()

    def know(self, message: KnowLayout) -> None:
        """Know a layout by its number."""
        self._layouts[message.layout.number] = message

    def forget(self, number: int) -> None:
        """Drop a layout, with all views."""
        self._loops.clear()
        del self._layouts[number]

    def loop(self, number: int) -> RowLoop:
        """Return the row loop of a batch layout, by its number.

        Raises:
            StateTooWide: the env's states have outgrown that layout.
        """
        self._fit(self._layouts[number].layout.state_width)
        loop = self._loops.get(number) or self._made_loop(number)
        if loop.batch.own_infos or loop.batch.own_objects:
            loop.batch.drop_own()
        return loop

    def _fit(self, width: int) -> None:
        """Make states as wide as those of a batch."""
        excess = self._env.state_width - width
        if excess < 0:
            self._env.widen(width)
        elif excess:
            # In a call for this env alone: no batch was told of it.
            raise StateTooWide(excess)

    def _made_loop(self, number: int) -> RowLoop:
        """Make the views of a batch with a layout, and keep them."""
        what, worker = self._layouts[number]
        page = self._blocks[what.page]
        memory = page.ndarray((page.nbytes,), np.uint8)
        given = {place.field: place.view(self._blocks[place.block]) for place in what.places}
        store = given.pop("store", None)
        batch = RowBatch(self._env.layout, what.num_rows, what.horizon, memory, given, what.infos)
        batch.store, batch.single = store, what.single
        batch.sources = batch.field("sources") if what.by_source else None
        batch.targets = batch.field("targets") if what.by_target else None
        batch.progress = worker_lines(memory, worker + 1)[worker].data
        loop = self._loops[number] = RowLoop(self._env, batch, what.unchecked)
        return loop

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of the env."""
        return getattr(self._env, name)(*args, **kwargs)

    def get(self, name: str) -> Any:
        """Return an attribute of the env, or of the gymnasium env that it wraps."""
        if hasattr(self._env, name):
            return getattr(self._env, name)
        return self._env.gym_env.get_wrapper_attr(name)

    def close(self) -> None:
        """Close the env."""
        self._env.close()


def _pickled_own(batch: RowBatch) -> bytes:
    """Return a pickle of what the shared memory does not hold of the rows that were run.

    That is the infos whose fields do not fit the columns, and observations that are no arrays,
    both by row; empty if there are none.
    """
    if not (batch.own_infos or batch.own_objects):
        return b""
    try:
        return pickle.dumps((batch.own_infos, batch.own_objects), protocol=5)
    except Exception:  # whatever a value's own reduction raises
        for row, info in batch.own_infos.items():
            for key, value in info.items():
                remedy = "Ask for infos='numeric', or have a wrapper leave the field out."
                _check_can_leave(batch, row, value, f"infos: the field {key!r}", remedy)
        for row, values in batch.own_objects.items():
            remedy = "Use backend='serial', or have a wrapper turn it into arrays."
            _check_can_leave(batch, row, values, "observation: it", remedy)
        raise


def _check_can_leave(batch: RowBatch, row: int, value: Any, what: str, remedy: str) -> None:
    """Raise the error that names a row if its value cannot be pickled."""
    try:
        pickle.dumps(value, protocol=5)
    except Exception as error:  # whatever the value's own reduction raises
        reason = TypeError(f"{what} cannot leave its worker: {error}. {remedy}")
        raise row_error(batch, row, reason) from error
