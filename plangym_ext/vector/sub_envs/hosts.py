"""RowHost: access to the sub-envs of one process, local or in a worker."""

from __future__ import annotations

import functools
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.vector.memory.row_memory import MemoryForm, RowMemory
from plangym_ext.vector.memory.shared_outs import OWN_BLOCK, OutLayout, OutShare
from plangym_ext.vector.memory.step_out import OutArrays, OutRows, Places
from plangym_ext.vector.sub_envs.checkpoint import RowCall
from plangym_ext.vector.sub_envs.env_rows import EnvRows
from plangym_ext.vector.sub_envs.row_states import ProvedRow
from plangym_ext.workers.batch_layout import NO_ROW
from plangym_ext.workers.channel import Plain
from plangym_ext.workers.limits import start_limit
from plangym_ext.workers.processes.process import pickled_constructor
from plangym_ext.workers.protocol import (
    Call,
    ForgetBlock,
    ForgetLayout,
    KnowArrays,
    OpenBlock,
    Service,
)
from plangym_ext.workers.remote_errors import pickled
from plangym_ext.workers.worker_handle import WorkerHandle, requests


@dataclass(frozen=True)
class HostedRows:
    """Recipe for the rows of one process.

    Attributes:
        makes: constructor of each row's env.
        first: number of the first.
        settings: for `EnvRows`: how states are captured.
    """

    makes: Sequence[Callable[[], Any]]
    first: int
    settings: dict[str, Any]

    def build(self, proved: Sequence[ProvedRow] = ()) -> EnvRows:
        """Return the rows, in this process; `proved` as for `EnvRows`."""
        return EnvRows(self.makes, first=self.first, proved=proved, **self.settings)

    def without_states(self, reason: str) -> HostedRows:
        """Return the same recipe without states, with the reason."""
        settings = {**self.settings, "capture": "off", "why_off": reason}
        return HostedRows(self.makes, self.first, settings)


class RowHost(ABC):
    """Abstract access to the rows of one process."""

    #: How the rows' states are captured; given before `use`.
    proved: Sequence[ProvedRow]

    @abstractmethod
    def build(self) -> None:
        """Begin to build the envs."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return `EnvRows.description`; waits until the envs are built, once."""

    @abstractmethod
    def use(
        self, form: MemoryForm, memory: RowMemory, block: SharedBlock | None, index: int
    ) -> None:
        """Set the memory to which the rows write."""

    @abstractmethod
    def start(self, call: RowCall) -> int:
        """Begin a call; return the number of the request.

        Raises:
            WorkerDied: the process is gone.
            WorkerTimeout: it takes no requests any more, and was stopped.
        """

    @abstractmethod
    def take(self, request: int) -> tuple[Any] | None:
        """Return or raise a request's answer, once; None if it has not come."""

    @abstractmethod
    def begin_close(self) -> None:
        """Begin `close`, without waiting."""

    @abstractmethod
    def close(self) -> BaseException | None:
        """Close the envs and return an error of one; further calls do nothing."""


class LocalHost(RowHost):
    """Rows in this process; a call is done when it was started.

    Attributes:
        envs: of the rows.
    """

    _rows: EnvRows
    envs: list[gym.Env[Any, Any]]

    def __init__(self, hosted: HostedRows) -> None:
        self._hosted = hosted
        self._closed = True
        #: Of the last request: what it returned, or what it raised.
        self._found: Any = None
        self._error: Exception | None = None

    def build(self) -> None:
        """See `RowHost`; it is done at once."""
        self._rows = self._hosted.build()
        self.envs, self._closed = self._rows.envs, False

    def describe(self) -> dict[str, Any]:
        return self._rows.description()

    def use(
        self,
        form: MemoryForm,  # noqa: ARG002 - it is in reach
        memory: RowMemory,
        block: SharedBlock | None,  # noqa: ARG002
        index: int,
    ) -> None:
        self._rows.use(memory, index, self.proved)

    def start(self, call: RowCall) -> int:
        self._found = self._error = None
        name, args, out, *_ = call
        try:
            if out is None:
                self._found = getattr(self._rows, name)(*args)
            else:
                given = OutRows(out.layout.hosted, out.places)
                self._found = getattr(self._rows, name)(*args, out=given)
        except Exception as error:  # raised again when it is asked for, as by any host
            self._error = error
        return 0

    def take(self, request: int) -> tuple[Any]:  # noqa: ARG002 - there is but one
        found, error = self._found, self._error
        # Let go of: a kept error holds its frames, and with them envs and arrays.
        self._found = self._error = None
        if error is not None:
            raise error
        return (found,)

    def begin_close(self) -> None:
        """Do nothing: there is nothing to wait for."""

    def close(self) -> BaseException | None:
        if not self._closed:
            self._closed = True
            try:
                self._rows.close()
            except (Exception, SystemExit) as error:  # of an env
                return error
        return None


class WorkerHost(RowHost):
    """Rows in a worker process, which may be replaced.

    Args:
        hosted: the rows.
        index: number of the worker, for messages.
        timeout: seconds that it may take for a row; see `start_limit`.

    Attributes:
        worker: the process; there is none before `build`.
    """

    worker: WorkerHandle

    def __init__(self, hosted: HostedRows, index: int, timeout: float | None = None) -> None:
        self._hosted, self._index, self._timeout = hosted, index, timeout
        self._form: MemoryForm | None = None
        self._block: SharedBlock | None = None
        self._memory: RowMemory | None = None
        self._told_proved = False  # to the next process, by its constructor
        #: Numbers of the memory and the layouts of `out` that the process knows, and what it
        #: is to forget.
        self._known: set[int] = set()
        self._expired: list[ForgetBlock | ForgetLayout] = []

    def build(self) -> None:
        service = Service(functools.partial(RowService, self._hosted))
        self.worker = WorkerHandle(service, index=self._index)
        self.worker.start_timeout = start_limit(self._timeout)
        self.worker.build()

    def describe(self) -> dict[str, Any]:
        return self.worker.describe()

    def use(
        self, form: MemoryForm, memory: RowMemory, block: SharedBlock | None, index: int
    ) -> None:
        self._form, self._block, self._index = form, block, index
        self._memory = memory
        self.worker.result(self.open({}))

    def start(self, call: RowCall) -> int:
        # Never used again: the answer to an abandoned call cannot be taken for another one.
        request = next(requests)
        out = None if call.out is None else self._told(call.out)
        # A few bytes for a step with actions in memory.
        data = self._messages.request(call.args, out) if call.name == "step" else None
        if data is not None:
            self.worker.post(Plain(request, data), command="step")
        else:
            # Pickled apart from the message: what cannot be read is an error of the call alone.
            given = {} if out is None else {"out": out}
            content = pickle.dumps((call.args, given), protocol=5)
            self.worker.post(Call(request, call.name, content), command=call.name)
        return request

    def _told(self, out: OutShare) -> tuple[int, Places]:
        """Send the places of arrays to the process if unknown; return their number and places."""
        # First, so that the process lets go of memory before it maps more.
        while self._expired:
            self.worker.post(self._expired.pop())
        if out.layout.number not in self._known:
            self._introduce(out.layout)
        return out.layout.number, out.places

    def _introduce(self, layout: OutLayout) -> None:
        for number, block in layout.blocks.items():
            if number not in self._known:
                self.worker.post(OpenBlock(number, block.nbytes), (block.fd,))
                self._known.add(number)
        self.worker.post(KnowArrays(layout.number, layout.places, layout.wanted))
        self._known.add(layout.number)

    def expire(self, message: ForgetBlock | ForgetLayout) -> None:
        """Make the process drop known arrays, before the next step with an `out`."""
        if message.number in self._known:
            self._known.remove(message.number)
            self._expired.append(message)

    def take(self, request: int) -> tuple[Any] | None:
        answer = self.worker.taken(request)
        if answer is None:
            return None
        return (self._messages.read_answer(self.worker.opened(answer)),)

    @property
    def progress(self) -> tuple[int, int]:
        """The row in progress or `NO_ROW`, and the number of calls that have moved rows."""
        if self._memory is None:
            return NO_ROW, 0
        row, count = self._memory.progress[self._index, :2].tolist()
        return row, count

    def restart(self) -> None:
        """Begin to replace the process by a new one."""
        # The dead process's row must not be blamed on the new process.
        if self._memory is not None:
            self._memory.progress[self._index, 0] = NO_ROW
        # A new process knows nothing except the capture methods, whose proof takes time.
        self._known, self._expired = set(), []
        # Once: the one after the next is made as the next one is.
        if not self._told_proved:
            self._told_proved = True
            make = functools.partial(_next_service, self.worker.constructor, self.proved)
            self.worker.constructor = pickled_constructor(Service(make), self._index)
        self.worker.restart()

    def open(self, attributes: dict[tuple[int, str], Any]) -> int:
        """Begin to set memory and attributes in a new process, as they were in the old one.

        Raises:
            Exception: what the constructor of an env raised.
        """
        import cloudpickle  # here: no worker needs it

        assert self._block is not None
        self.worker.describe()
        assert self._memory is not None
        # A new process has numbered no forms of infos yet.
        self._messages = self._memory.messages(self._hosted.first)
        self.worker.post(OpenBlock(OWN_BLOCK, self._block.nbytes), (self._block.fd,))
        # By value, as envs travel: the space may be of a class that only this process knows.
        form = cloudpickle.dumps(self._form, protocol=5)
        return self.start(RowCall("open", (form, self._index, attributes, self.proved)))

    def begin_close(self) -> None:
        self.worker.begin_close()

    def close(self) -> BaseException | None:
        error = self.worker.end()
        self.__dict__.pop("_messages", None)
        self._block = self._memory = None  # the memory is a descriptor, too
        return error


class RowService:
    """The service in a `WorkerHost`'s worker: the methods of `EnvRows`, and `open`.

    Args:
        hosted: the rows.
        proved: as for `EnvRows`.
    """

    def __init__(self, hosted: HostedRows, proved: Sequence[ProvedRow] = ()) -> None:
        self._rows, self._first = hosted.build(proved), hosted.first
        self._blocks: dict[int, SharedBlock] = {}
        #: Arrays of `out` by number, and the blocks that they lie in.
        self._outs: dict[int, tuple[OutArrays, set[int]]] = {}
        self.description = self._rows.description
        self.close = self._rows.close

    def open_block(self, number: int, fd: int, nbytes: int) -> None:
        """Map shared memory."""
        self._blocks[number] = SharedBlock.attach(fd, nbytes)

    def close_block(self, number: int) -> None:
        """Unmap shared memory, with its arrays."""
        self._outs = {k: found for k, found in self._outs.items() if number not in found[1]}
        self._blocks.pop(number).close()

    def know(self, message: KnowArrays) -> None:
        """Map arrays to which steps may write their results."""
        number, places, wanted = message
        arrays = {place.field: place.view(self._blocks[place.block]) for place in places}
        # With the views, so that `close_block` can drop those that would dangle.
        blocks = {place.block for place in places}
        self._outs[number] = OutArrays(self._space, arrays, wanted), blocks

    def forget(self, number: int) -> None:
        """Unmap such arrays."""
        self._outs.pop(number, None)

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method."""
        if name == "open":
            return self._open(*args)
        given = {key: self._out(*told) for key, told in kwargs.items()}
        return self._called(getattr(self._rows, name), *args, **given)

    def plain(self, message: Plain) -> Plain | bytes:
        """Step rows by a compact message; return the answer, pickled if necessary."""
        asked = self._messages.read_request(message.data)
        out = None if asked.out is None else self._out(*asked.out)
        reply = self._called(self._rows.step, *asked[:4], out=out)
        answer = self._messages.answer(asked, reply)
        return Plain(message.request, answer) if type(answer) is bytes else pickled(answer)

    def _called(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        finally:
            self._rows.between_calls()

    def _out(self, number: int, places: Places) -> OutRows:
        return OutRows(self._outs[number][0], places)

    def _open(self, form: bytes, index: int, attributes: Any, proved: Any) -> None:
        memory = pickle.loads(form).memory(self._blocks[OWN_BLOCK])
        self._space = memory.obs.space
        self._messages = memory.messages(self._first)
        self._rows.use(memory, index, proved)
        # Set after the build and before any state: states need not hold them.
        for (row, name), value in attributes.items():
            self._rows.set_attr((row,), name, (value,), capture=False)
        self._rows.settle()


def _next_service(constructor: bytes, proved: Sequence[ProvedRow]) -> RowService:
    """Return the service of a replacement process."""
    first: Service = pickle.loads(constructor)
    service: RowService = first.make(proved=proved)  # type: ignore[call-arg]
    return service
