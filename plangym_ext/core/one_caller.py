"""OneCaller: guard against concurrent calls of one object; fork detection; processor count."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar, cast

from plangym_ext.errors import ConcurrentUse, InheritedEnv, WrongKind

# A forked child has a copy of every object but of no thread, and the other ends of pipes and
# sockets still belong to its parent. What does not survive a fork is let go there. `subprocess`
# is no such fork.

_count = 0
_handlers: list[Callable[[], None]] = []


def usable_processors() -> int:
    """Return the number of processors in this process's affinity."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def fork_count() -> int:
    """Return the number of forks between the first process and this one; it never falls."""
    return _count


def end_copy(where: str) -> NoReturn:
    """End this process: a fork by an env, which has returned from the env's code.

    The program of its parent would run twice, and answer twice.

    Args:
        where: in what it was forked, for the message.
    """
    with contextlib.suppress(OSError):
        os.write(
            2,
            f"plangym-ext: process {os.getpid()} was forked in {where}, came back from there, and "
            "is ended. A process that an env forks has to end by itself.\n".encode(),
        )
    os._exit(1)


#: Registers a function to call in every forked child, before anything else runs there.
in_child = _handlers.append


def each_in_child(let_go: Callable[[Any], None]) -> weakref.WeakSet[Any]:
    """Return a weak set of objects, for each of which a function is called in a forked child."""
    members: weakref.WeakSet[Any] = weakref.WeakSet()

    def handler() -> None:
        for member in list(members):
            let_go(member)

    in_child(handler)
    return members


def _forked() -> None:
    global _count
    _count += 1
    for handler in _handlers:
        handler()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


Method = TypeVar("Method", bound=Callable[..., Any])


_BUSY = (
    "another thread is in the middle of a call on this handle. Give each thread an env of its own "
    "(env.clone()), or guard the calls with a lock."
)


class OneCaller:
    """Context for the public calls of one handle; a call may make others inside it.

    CPython raises KeyboardInterrupt, and switches threads, around calls of functions and in loops,
    and not between plain statements. So a thread enters at one moment, and a call that ends in an
    assignment and `depth -= 1` has happened and is left at one moment.

    Attributes:
        depth: how many calls the thread that is inside is in; 0 if there is none.

    Raises:
        ConcurrentUse: another thread is inside.
        InheritedEnv: the handle belongs to the process that this one was forked from.
    """

    #: Whether this is a forked child's copy of a handle that is its parent's alone.
    inherited = False
    #: The process that it belongs to; 0 for any.
    _owner = 0

    def __init__(self, name: str) -> None:
        self._name = name
        self.depth = self._thread = 0
        _guards.add(self)

    def bind_to_process(self) -> None:
        """Refuse calls in forked children, since the handle's workers answer this process only."""
        self._owner = os.getpid()

    def __enter__(self) -> None:
        thread = threading.get_ident()
        # Refused, not queued: each of two threads would find the env where the other has left it.
        if self.depth and self._thread != thread:
            raise ConcurrentUse(f"{self._name}: {_BUSY}")
        self._thread = thread
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1

    def __reduce__(self) -> NoReturn:
        raise WrongKind(
            f"{self._name}: a handle cannot be pickled or copied, for it belongs to this process. "
            "Pass a function that makes it, and call that where it is needed."
        )

    def enter_within(self, timeout: float) -> bool:
        """Enter, once no other thread is inside; return whether that was so in time."""
        deadline = time.monotonic() + timeout
        while True:
            with contextlib.suppress(ConcurrentUse):
                self.__enter__()
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.001)  # the other call ends by an assignment, which wakes no thread

    @contextlib.contextmanager
    def after_interrupting(self, interrupt: Callable[[], object], timeout: float) -> Iterator[None]:
        """Return a context that waits for another thread's call to end, having interrupted it.

        Args:
            interrupt: makes the other call fail soon; not called if there is none.
            timeout: seconds that it may take to end.
        """
        if self.inherited:  # to close is allowed, and nothing runs in it
            yield
            return
        if not self.enter_within(0.0):
            interrupt()
            if not self.enter_within(timeout):
                # Raises, unless the call has ended at this very moment.
                self.__enter__()
        try:
            yield
        finally:
            self.depth -= 1


class _Copied(OneCaller):
    """A guard in a forked child; where a call returns that its parent began, the child ends.

    One that is bound to the parent refuses every call.
    """

    #: The depth at which the process was forked.
    _least = 0

    @property
    def depth(self) -> int:
        depth: int = vars(self)["depth"]
        return depth

    @depth.setter
    def depth(self, depth: int) -> None:
        if depth < self._least:
            end_copy("a call of an env")
        vars(self)["depth"] = depth

    def __enter__(self) -> None:
        if self.inherited:
            raise InheritedEnv(
                f"{self._name}: this env belongs to process {self._owner}, of which process "
                f"{os.getpid()} is a fork; its workers answer only to the former. Make an env in "
                "each process that uses one: with a DataLoader in worker_init_fn or at first use, "
                "or with multiprocessing's start method 'spawn'."
            )
        super().__enter__()


def _renewed(guard: OneCaller) -> None:
    # Another thread of the parent that was inside does not exist in the child; but if it is the
    # one that has forked, the call would return here too.
    depth = guard.depth if guard._thread == threading.get_ident() else 0
    # By its class, so that calls in the parent need not ask in which process they are.
    guard.__class__ = _Copied
    vars(guard).update(depth=depth, _least=depth, inherited=guard._owner != 0)


_guards = each_in_child(_renewed)


def one_call(method: Method) -> Method:
    """Return a method that runs as a call of its handle, which has a guard `_one_caller`."""

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._one_caller:
            return method(self, *args, **kwargs)

    return cast("Method", guarded)
