"""Where the rows of a vector env live: in this process, or in a worker of their own."""

from __future__ import annotations

import functools
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.errors import WorkerDied, WorkerTimeout
from plangym_ext.vector.live_rows import LiveRows
from plangym_ext.vector.obs_buffer import ObsBuffer
from plangym_ext.workers.external_process import ExternalProcess, next_request
from plangym_ext.workers.rows_message import NO_ROW
from plangym_ext.workers.service import Service

#: Number that a worker knows the shared memory by.
_BOARD = 0
#: 64-bit words of a host's line: the row that is moved now, and how many calls have
#: moved rows. A cache line.
LINE_WORDS = 8


@dataclass(frozen=True)
class HostedRows:
    """What makes the rows of one process.

    Attributes:
        makes: constructor of each row's env.
        first: number of the first.
        settings: for `LiveRows`: how states are captured.
    """

    makes: Sequence[Callable[[], Any]]
    first: int
    settings: dict[str, Any]

    def build(self) -> LiveRows:
        """The rows, in this process."""
        return LiveRows(self.makes, first=self.first, **self.settings)


@dataclass(frozen=True)
class RowMemory:
    """What rows write to: shared with workers, if there are any.

    Attributes:
        board: the observations of all rows.
        block: the memory under the board and the lines; None in this process alone.
        lines: `[hosts, LINE_WORDS]` int64.
    """

    board: ObsBuffer
    block: SharedBlock | None
    lines: np.ndarray


class RowHost(ABC):
    """A process that rows live in, seen from the vector env's. No method waits for it."""

    #: How the process ended, once that was seen.
    fallen: WorkerDied | None = None
    #: Whether a new process can take its place.
    replaceable = False
    #: Descriptors that are readable when something has come, or the process is gone.
    signs: Sequence[int] = ()

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """See `LiveRows.description`; waits until the envs are built, once."""

    @abstractmethod
    def use(self, memory: RowMemory, index: int) -> None:
        """Have the rows write to memory; `index` is that of its line."""

    @abstractmethod
    def ask(self, name: str, *args: Any) -> int:
        """Begin a method of `LiveRows`; returns the number of the request.

        Raises:
            WorkerDied: the process is gone.
            WorkerTimeout: it takes no requests any more, and was stopped.
        """

    @abstractmethod
    def answered(self, request: int) -> bool:
        """Whether the answer to a request has come."""

    @abstractmethod
    def take(self, request: int) -> Any:
        """Return or raise what the answer to a request says; it is given once."""

    def forget(self, request: int) -> None:  # noqa: B027 - a host without a process has none
        """Drop the answer to a request, whenever it comes."""

    def look(self, ready: Container[int]) -> None:  # noqa: B027 - likewise
        """Take in what has come on the `signs` that are readable."""

    @property
    def built(self) -> bool:
        """Whether the envs of a new process are built, or failed to be."""
        return True

    @property
    def progress(self) -> tuple[int, int]:
        """The row that is moved now or `NO_ROW`, and how many calls have moved rows."""
        return NO_ROW, 0

    def restart(self) -> None:
        """Begin to replace the process by a new one."""
        raise NotImplementedError("this host has no process of its own")

    def open(self, attributes: dict[tuple[int, str], Any]) -> int:
        """Begin to have a new process use the memory, and its envs have some attributes.

        Raises:
            Exception: what the constructor of an env raised.
        """
        raise NotImplementedError("this host has no process of its own")

    def hung(self, seconds: float, doing: str) -> WorkerTimeout:
        """End a process that does not get on; the error that says so."""
        raise NotImplementedError("this host has no process of its own")

    @abstractmethod
    def begin_close(self) -> None:
        """Begin `close`, without waiting."""

    @abstractmethod
    def close(self) -> BaseException | None:
        """Close the envs; further calls do nothing. What one has raised is returned."""


class LocalHost(RowHost):
    """Rows in this process; a call is done when it returns."""

    def __init__(self, hosted: HostedRows) -> None:
        self._rows = hosted.build()
        self.envs = self._rows.envs
        self._closed = False
        self._request = 0
        #: Of the last request: what it returned, or what it raised.
        self._found: Any = None
        self._error: Exception | None = None

    def describe(self) -> dict[str, Any]:
        """See `RowHost`."""
        return self._rows.description()

    def use(self, memory: RowMemory, index: int) -> None:
        """See `RowHost`."""
        self._rows.use(memory.board, memory.lines[index])

    def ask(self, name: str, *args: Any) -> int:
        """See `RowHost`."""
        self._found = self._error = None
        try:
            self._found = getattr(self._rows, name)(*args)
        except Exception as error:  # raised again when it is asked for, as by any host
            self._error = error
        self._request += 1
        return self._request

    def answered(self, request: int) -> bool:
        """See `RowHost`."""
        return request == self._request

    def take(self, request: int) -> Any:  # noqa: ARG002 - there is but one
        """See `RowHost`."""
        found, error = self._found, self._error
        self._found = self._error = None
        if error is not None:
            raise error
        return found

    def begin_close(self) -> None:
        """Nothing to wait for."""

    def close(self) -> BaseException | None:
        """See `RowHost`."""
        if not self._closed:
            self._closed = True
            try:
                self._rows.close()
            except (Exception, SystemExit) as error:  # of an env
                return error
        return None


class WorkerHost(RowHost):
    """Rows in a worker process.

    Attributes:
        worker: the process.
    """

    replaceable = True

    def __init__(self, hosted: HostedRows, index: int) -> None:
        self.worker = ExternalProcess(
            Service(functools.partial(RowService, hosted)), index=index, wait=False
        )
        self._index = index
        self._memory: RowMemory | None = None

    @property
    def fallen(self) -> WorkerDied | None:  # type: ignore[override]
        """See `RowHost`."""
        return self.worker.fallen

    @property
    def signs(self) -> Sequence[int]:  # type: ignore[override]
        """See `RowHost`."""
        return self.worker.process.signs

    def describe(self) -> dict[str, Any]:
        """See `RowHost`."""
        return self.worker.describe()

    def use(self, memory: RowMemory, index: int) -> None:
        """See `RowHost`."""
        self._memory, self._index = memory, index
        self.worker.result(self.open({}))

    def ask(self, name: str, *args: Any) -> int:
        """See `RowHost`."""
        request = next_request()
        arguments = pickle.dumps((args, {}), protocol=5)
        self.worker.post(("call", request, name, arguments))
        self.worker.begun(name)
        return request

    def answered(self, request: int) -> bool:
        """See `RowHost`."""
        return self.worker.has_answer(request)

    def take(self, request: int) -> Any:
        """See `RowHost`."""
        answer = self.worker.taken(request)
        assert answer is not None
        return self.worker.opened(answer)

    def forget(self, request: int) -> None:
        """See `RowHost`."""
        self.worker.forget(request)

    def look(self, ready: Container[int]) -> None:
        """See `RowHost`."""
        if self.worker.fallen is None:
            self.worker.look(ready)

    @property
    def built(self) -> bool:
        """See `RowHost`."""
        return self.worker.ready

    @property
    def progress(self) -> tuple[int, int]:
        """See `RowHost`."""
        if self._memory is None:
            return NO_ROW, 0
        row, count = self._memory.lines[self._index, :2].tolist()
        return row, count

    def restart(self) -> None:
        """See `RowHost`."""
        if self._memory is not None:
            self._memory.lines[self._index, 0] = NO_ROW
        self.worker.restart()

    def open(self, attributes: dict[tuple[int, str], Any]) -> int:
        """See `RowHost`."""
        import cloudpickle  # here: no worker needs it

        memory = self._memory
        assert memory is not None
        self.worker.describe()
        block = memory.block
        assert block is not None
        self.worker.post(("block", _BOARD, block.nbytes), (block.fd,))
        board = memory.board
        # By value, as envs travel: the space may be of a class that only this process knows.
        form = cloudpickle.dumps(board.space, protocol=5), board.num_rows, board.strict
        return self.ask("open", form, self._index, len(memory.lines), attributes)

    def hung(self, seconds: float, doing: str) -> WorkerTimeout:
        """See `RowHost`."""
        return self.worker.hung(seconds, doing)

    def begin_close(self) -> None:
        """See `RowHost`."""
        self.worker.begin_close()

    def close(self) -> BaseException | None:
        """See `RowHost`."""
        error = self.worker.end()
        self._memory = None  # it is a descriptor, too
        return error


class RowService:
    """What the worker of a `WorkerHost` serves."""

    def __init__(self, hosted: HostedRows) -> None:
        self._rows = hosted.build()
        self._blocks: dict[int, SharedBlock] = {}

    def description(self) -> dict[str, Any]:
        """See `LiveRows.description`."""
        return self._rows.description()

    def open_block(self, number: int, fd: int, nbytes: int) -> None:
        """Map the memory of the board."""
        self._blocks[number] = SharedBlock.attach(fd, nbytes)

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of the rows."""
        if name == "open":
            return self._open(*args)
        try:
            return getattr(self._rows, name)(*args, **kwargs)
        finally:
            self._rows.between_calls()

    def _open(
        self,
        form: tuple[bytes, int, bool],
        index: int,
        hosts: int,
        attributes: dict[tuple[int, str], Any],
    ) -> None:
        block = self._blocks[_BOARD]
        lines, memory = row_memory(block, hosts)
        space = pickle.loads(form[0])
        self._rows.use(ObsBuffer(space, form[1], memory, strict=form[2]), lines[index])
        for (row, name), value in attributes.items():
            self._rows.set_attr((row,), name, (value,), capture=False)

    def close(self) -> None:
        """Close the envs."""
        self._rows.close()


def row_memory(block: SharedBlock, hosts: int) -> tuple[np.ndarray, np.ndarray]:
    """Lines of all hosts, and the bytes for the board."""
    lines = block.ndarray((hosts, LINE_WORDS), np.int64)
    return lines, block.ndarray((block.nbytes - lines.nbytes,), np.uint8, lines.nbytes)
