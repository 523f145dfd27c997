"""Where the rows of a vector env live: in this process, or in a worker of their own."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.vectorization.external_process import ExternalProcess
from plangym_ext.vectorization.live_rows import LiveRows
from plangym_ext.vectorization.obs_board import ObsBoard
from plangym_ext.vectorization.service import Service

#: An answer to come: called with a limit in seconds, or None.
Answer = Callable[[float | None], Any]
#: Number that a worker knows the board's memory by.
_BOARD = 0


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


class RowHost(ABC):
    """A process that rows live in, seen from the vector env's."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """See `LiveRows.description`; waits until the envs are built."""

    @abstractmethod
    def use(self, board: ObsBoard, block: SharedBlock | None) -> None:
        """Have observations written to a board, whose memory is the block's."""

    @abstractmethod
    def call(self, name: str, *args: Any) -> Answer:
        """Begin a method of `LiveRows`.

        Raises:
            WorkerDied: the process is gone.
        """

    @abstractmethod
    def restart(self) -> bool:
        """Replace the process and build its envs anew; whether there was one to replace."""

    @abstractmethod
    def begin_close(self) -> None:
        """Begin `close`, without waiting."""

    @abstractmethod
    def close(self) -> None:
        """Close the envs; further calls do nothing."""


class LocalHost(RowHost):
    """Rows in this process; a call is done when it returns."""

    def __init__(self, hosted: HostedRows) -> None:
        self._rows = hosted.build()
        self.envs = self._rows.envs
        self._closed = False

    def describe(self) -> dict[str, Any]:
        """See `RowHost`."""
        return self._rows.description()

    def use(self, board: ObsBoard, block: SharedBlock | None) -> None:  # noqa: ARG002 - in reach
        """See `RowHost`."""
        self._rows.use(board)

    def call(self, name: str, *args: Any) -> Answer:
        """See `RowHost`."""
        try:
            found = getattr(self._rows, name)(*args)
        except Exception as error:  # raised again when it is asked for, as by any host
            return functools.partial(_raise, error)
        return functools.partial(_give, found)

    def restart(self) -> bool:
        """There is no process to replace."""
        return False

    def begin_close(self) -> None:
        """Nothing to wait for."""

    def close(self) -> None:
        """See `RowHost`."""
        if not self._closed:
            self._closed = True
            self._rows.close()


def _raise(error: Exception, timeout: float | None) -> Any:  # noqa: ARG001 - it is done
    raise error


def _give(found: Any, timeout: float | None) -> Any:  # noqa: ARG001 - it is done
    return found


class WorkerHost(RowHost):
    """Rows in a worker process."""

    def __init__(self, hosted: HostedRows, index: int) -> None:
        self.worker = ExternalProcess(
            Service(functools.partial(RowService, hosted)), index=index, wait=False
        )
        self._block: SharedBlock | None = None
        self._board: tuple[Any, int] | None = None

    def describe(self) -> dict[str, Any]:
        """See `RowHost`."""
        return self.worker.describe()

    def use(self, board: ObsBoard, block: SharedBlock | None) -> None:
        """See `RowHost`."""
        self._block, self._board = block, (board.space, board.num_rows)
        self._introduce()

    def _introduce(self) -> None:
        if self._block is not None:
            self.worker.post(("block", _BOARD, self._block.nbytes), (self._block.fd,))
        assert self._board is not None
        self.worker.call("use_board", *self._board, self._block is not None)()

    def call(self, name: str, *args: Any) -> Answer:
        """See `RowHost`."""
        return self.worker.call(name, *args)

    def restart(self) -> bool:
        """See `RowHost`."""
        self.worker.restart()
        self.worker.describe()
        self._introduce()
        return True

    def begin_close(self) -> None:
        """See `RowHost`."""
        self.worker.begin_close()

    def close(self) -> None:
        """See `RowHost`."""
        self.worker.close()


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
        if name == "use_board":
            return self._use_board(*args)
        return getattr(self._rows, name)(*args, **kwargs)

    def _use_board(self, space: Any, num_rows: int, shared: bool) -> None:
        memory = None
        if shared:
            block = self._blocks[_BOARD]
            memory = block.ndarray((block.nbytes,), np.uint8)
        self._rows.use(ObsBoard(space, num_rows, memory))

    def close(self) -> None:
        """Close the envs."""
        self._rows.close()
