"""OneCaller: guard against concurrent calls of a handle; detection of forks; usable processors."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeVar, cast

from plangym_ext.errors import ConcurrentUse, InheritedEnv

# A forked child has a copy of every object but of no thread, and the other ends of pipes and
# sockets still belong to its parent. What does not survive a fork is let go there. `subprocess`
# is no such fork.

_count = 0
_handlers: list[Callable[[], None]] = []


def usable_processors() -> int:
    """Return how many processors this process may run on: those of its affinity."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def fork_count() -> int:
    """Return how many forks lie between the first process and this one; it never falls."""
    return _count


def in_child(handler: Callable[[], None]) -> None:
    """Register a function to call in every forked child, before anything else runs there."""
    _handlers.append(handler)


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

_RLock: Any = type(threading.RLock())


class _Lock(_RLock):  # type: ignore[misc]
    """A reentrant lock that `~lock` releases, too.

    When a call of a function in C has returned, Python hands out signals, and so at the beginning
    of one in Python; after an operator it does not. So what comes before it, and what returns
    after it, are one for Ctrl-C.
    """

    __invert__ = _RLock.release


class OneCaller:
    """Context for the public calls of one handle; a call may make others inside it.

    Args:
        name: of the handle, for messages.

    Attributes:
        lock: held by the thread that is inside; `~lock` releases it.

    Raises:
        ConcurrentUse: another thread is inside.
        InheritedEnv: the handle belongs to the process that this one was forked from.
    """

    #: Whether this is a forked child's copy of a handle that is its parent's alone.
    inherited = False

    def __init__(self, name: str) -> None:
        self._name = name
        # Reentrant, for public methods call one another.
        self.lock: Any = _Lock()
        #: The process that it belongs to; 0 for any.
        self._owner = 0
        _guards.add(self)

    def bind_to_process(self) -> None:
        """Refuse calls in forked children, since the handle's workers answer this process only."""
        self._owner = os.getpid()

    def __enter__(self) -> None:
        # Refused, not queued: each of two threads would find the env where the other has left it.
        if not self.lock.acquire(blocking=False):
            raise ConcurrentUse(
                f"{self._name}: another thread is in the middle of a call on this handle. Give "
                "each thread an env of its own (env.clone()), or guard the calls with a lock."
            )

    def __exit__(self, *_: object) -> None:
        self.lock.release()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self._name}: a handle cannot be pickled or copied, for it belongs to this process. "
            "Pass what makes it, and call that where it is needed."
        )

    @contextlib.contextmanager
    def after_interrupting(self, interrupt: Callable[[], object], timeout: float) -> Iterator[None]:
        """Return a context that waits for another thread's call to end, having interrupted it.

        Args:
            interrupt: makes the other call fail soon; not called if there is none.
            timeout: seconds that it may take to end.
        """
        if not self.lock.acquire(blocking=False):
            interrupt()
            if not self.lock.acquire(timeout=timeout):
                # Raises, unless the call has ended at this very moment.
                self.__enter__()
        try:
            yield
        finally:
            self.lock.release()


class _Inherited(OneCaller):
    """The guard of a process-bound handle in a forked child: it refuses every call."""

    inherited = True

    def __enter__(self) -> None:
        raise InheritedEnv(
            f"{self._name}: this env belongs to process {self._owner}, of which process "
            f"{os.getpid()} is a fork; its workers answer to the former alone. Make an env in "
            "each process that uses one: with a DataLoader in worker_init_fn or at first use, "
            "or with multiprocessing's start method 'spawn'."
        )

    @contextlib.contextmanager
    def after_interrupting(
        self,
        interrupt: Callable[[], object],  # noqa: ARG002 - there is no other thread
        timeout: float,  # noqa: ARG002
    ) -> Iterator[None]:
        """Guard as `OneCaller` does; closing is allowed."""
        yield


def _renewed(guard: OneCaller) -> None:
    # A thread of the parent that held the lock does not exist in the child.
    guard.lock = _Lock()
    if guard._owner:
        # By its class, so that calls in the parent need not ask in which process they are.
        guard.__class__ = _Inherited


_guards = each_in_child(_renewed)


def one_call(method: Method) -> Method:
    """Return a method that runs as a call of its handle, which has a guard `_one_caller`."""

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        with self._one_caller:
            return method(self, *args, **kwargs)

    return cast("Method", guarded)
