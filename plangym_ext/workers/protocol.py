"""Message types between parent and worker: requests and replies.

Batches are not among the messages. They come through row queues (`row_queue`), which wake a
worker as a message does; what was said before a batch was offered counts for it. A worker reports
through the queue, and replies only with data that do not fit a report.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from plangym_ext.workers.channel import Plain
from plangym_ext.workers.remote_errors import ErrorReport

if TYPE_CHECKING:  # numpy is imported when a worker has the parent's module path
    from plangym_ext.workers.batch_layout import BatchLayout, Place

#: Number of the request that the first message makes, which builds the env.
READY = 0
#: Number that a reply has which says what the env raised in `close`.
CLOSED = -1


# To the fork server ------------------------------------------------------------------


class Fork(NamedTuple):
    """Fork a worker. With it travel its three descriptors, stdout, stderr and the folder.

    Attributes:
        modules: file of each module, by name, that the server imports first and keeps, so that
            later workers have it too; one that it would take from another file is left out.
        environ, umask, niceness, limits: of the worker; None for a mask that is not known.
        order: of the descriptors: which of those that travel it is, or -1.
    """

    modules: dict[str, str]
    environ: dict[str, str]
    umask: int | None
    niceness: int
    limits: dict[int, tuple[int, int]]
    order: list[int]


class ExitStatus(NamedTuple):
    """Report a worker's exit status once it has ended, and reap it."""

    pid: int
    wait: bool


# To a worker -------------------------------------------------------------------------


class Start(NamedTuple):
    """The first message: everything to build the env; the worker replies to `READY`.

    Attributes:
        path: module path of the parent.
        keys: of the session, and of `multiprocessing` managers.
        families: pickle of the env families that this process has registered.
        registered: what it has registered with gymnasium, if that was imported.
        constructor: pickle of what makes the env, or of a `Service`.
    """

    path: list[str]
    keys: tuple[Any, bytes]
    families: bytes
    registered: Any
    constructor: bytes


class OpenBlock(NamedTuple):
    """Map shared memory; brings its descriptor."""

    number: int
    nbytes: int


class OpenQueue(NamedTuple):
    """Take rows from a queue under a worker number; brings the queue's descriptors."""

    number: int
    worker: int


class KnowLayout(NamedTuple):
    """Record a layout under its number; the worker's own number is as in `OpenQueue`."""

    layout: BatchLayout
    worker: int


class KnowArrays(NamedTuple):
    """Record, under a number, arrays to which some calls write their results.

    Attributes:
        number: theirs.
        places: of the arrays.
        wanted: names of the infos that such a call returns; None for all.
    """

    number: int
    places: tuple[Place, ...]
    wanted: frozenset[str] | None = None


class ForgetBlock(NamedTuple):
    """Unmap shared memory."""

    number: int


class ForgetLayout(NamedTuple):
    """Drop a layout, or arrays."""

    number: int


class Finish(NamedTuple):
    """Reply once a queue is empty and its rows are run."""

    request: int
    queue: int


class Call(NamedTuple):
    """Call a method of the env with `(args, kwargs)`, which are pickled; reply its result."""

    request: int
    name: str
    arguments: bytes


class Get(NamedTuple):
    """Reply with an attribute of the env."""

    request: int
    name: str


class Close(NamedTuple):
    """Close the env and leave."""


ToWorker = (
    OpenBlock
    | OpenQueue
    | KnowLayout
    | KnowArrays
    | ForgetBlock
    | ForgetLayout
    | Finish
    | Call
    | Get
    | Close
    | Plain
)


#: What a worker is said to be at when it ends or hangs over a message.
COMMANDS: dict[type, str] = {
    OpenBlock: "block",
    OpenQueue: "queue",
    KnowLayout: "layout",
    KnowArrays: "layout",
    ForgetBlock: "forget",
    ForgetLayout: "forget",
    Finish: "finish",
    Call: "call",
    Plain: "call",
    Get: "get",
    Close: "close",
}


@dataclass(frozen=True)
class Service:
    """Constructor of an object that a worker serves instead of an env.

    Attributes:
        make: returns an object with `description`, `call` and `close`, as `WorkerEnv` has
            them, and `open_block` if it is given memory, `know` if arrays, `plain` if it is
            sent a `Plain` message: it returns another one, or a pickle of the answer.
        imports: modules that take long to import: if this process has imported them, workers
            are forked with them.
    """

    make: Callable[[], Any]
    imports: tuple[str, ...] = ()

    def __call__(self) -> Any:
        return self.make()


#: Imports of workers with networks, which take seconds; the last two are those of compiled code.
NETWORKS = ("torch", "numba", "numba.np.arraymath", "numba.np.npdatetime")


# From a worker -----------------------------------------------------------------------


class Value(NamedTuple):
    """The result of a request.

    It is pickled once more, so that one which cannot be read is an error of its request alone.
    """

    request: int
    data: bytes


class Failure(NamedTuple):
    """The exception of a request, or of a row of a batch."""

    request: int
    report: ErrorReport


class TooWide(NamedTuple):
    """A state of a batch outgrew its row, by a number of bytes."""

    request: int
    excess: int


Reply = Value | Failure | TooWide | Plain
