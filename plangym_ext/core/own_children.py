"""Child processes that envs start: detection, and their end together with the env.

A constructor's copies of this process (forks that run no other program) end when its env is
closed, or was collected: they hold whatever this process had open. Programs that it has started
may serve other envs too, and are asked to end when this process does. With workers all end with
the worker.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from plangym_ext.core.one_caller import end_copy, fork_count, in_child

_Made = TypeVar("_Made")
#: Seconds that a process may take to end that was sent SIGKILL.
PATIENCE = 2.0
#: Processes that constructors have started, by number, with the time at which each began.
_programs: dict[int, str] = {}
in_child(_programs.clear)
#: What ends the copies that the constructor of an env has made, by the `id` of the env.
_ends: dict[int, weakref.finalize[..., Any]] = {}


def constructed(make: Callable[[], _Made]) -> tuple[_Made, dict[int, str]]:
    """Call a constructor; return its object, and the forks of this process that it made.

    A copy that comes back from the constructor is ended: the caller's program would run twice.

    Returns:
        The env; copies by number, with the time at which each began: for `ends_with`.
    """
    forks, before = fork_count(), children_of(os.getpid(), threading.get_native_id())
    copies: dict[int, str] = {}
    try:
        env = make()
    except BaseException:
        _sort(before, copies, forks)
        _end_copies(copies, forks)
        raise
    _sort(before, copies, forks)
    return env, copies


def ends_with(env: Any, copies: dict[int, str]) -> None:
    """End forks of this process when an env is garbage-collected, or by `end_copies`."""
    if copies:
        end = weakref.finalize(env, _end_copies, copies, fork_count(), id(env))
        _ends[id(env)] = end


def end_copies(env: Any) -> None:
    """End the copies of this process that the constructor of an env has made."""
    if id(env) in _ends:
        _ends[id(env)]()


def _sort(before: list[int], copies: dict[int, str], forks: int) -> None:
    """Note what is new among the children of this thread."""
    if fork_count() != forks:
        end_copy("the constructor of an env")
    for pid in set(children_of(os.getpid(), threading.get_native_id())) - set(before):
        begun = _begun(pid)
        if begun and _text(pid, "cmdline") == _text(os.getpid(), "cmdline"):
            copies[pid] = begun
        elif begun:
            _programs[pid] = begun


def _end_copies(copies: dict[int, str], forks: int, env: int = 0) -> None:
    _ends.pop(env, None)
    if fork_count() != forks:  # they are its parent's
        return
    left = {pid for pid, begun in copies.items() if _is_own(pid, begun)}
    end_trees(left)
    known: dict[int, Any] = {one.pid: one for one in multiprocessing.active_children() if one.pid}
    deadline = time.monotonic() + PATIENCE
    for pid in left:
        if pid in known:
            known[pid].join(PATIENCE)  # which has to reap it itself
        while pid not in known and not is_reaped(pid) and time.monotonic() < deadline:
            time.sleep(0.001)


@atexit.register
def _end_programs() -> None:
    for pid, begun in _programs.items():
        if _is_own(pid, begun):
            _send(pid, signal.SIGTERM)


def _is_own(pid: int, begun: str) -> bool:
    """Return whether a process is a child of this one still; numbers are given out again."""
    return _begun(pid) == begun and pid in children_of(os.getpid())


def _begun(pid: int) -> str:
    """Return when a process was started, in ticks; empty if it has ended."""
    fields = _text(pid, "stat").rpartition(b")")[2].split()
    return fields[19].decode() if len(fields) > 19 and fields[0] not in b"ZX" else ""


def _text(pid: int, name: str) -> bytes:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read()
    return b""


def end_trees(pids: Iterable[int]) -> None:
    """Send SIGKILL to processes and to all their descendants."""
    for pid in pids:
        # Stopped first, level by level: what is stopped starts nothing, and reaps nothing, so that
        # no number comes to stand for another process meanwhile.
        seen, level = {pid}, [pid]
        while level:
            for one in level:
                _send(one, signal.SIGSTOP)
            level = [child for one in level for child in children_of(one) if child not in seen]
            seen.update(level)
        for one in seen:
            _send(one, signal.SIGKILL)


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def children_of(pid: int, thread: int | None = None) -> list[int]:
    """Return the children of a process, or those that one of its threads has started.

    There are none where the system does not tell.
    """
    found: list[int] = []
    with contextlib.suppress(OSError):
        for one in os.listdir(f"/proc/{pid}/task") if thread is None else [thread]:
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{one}/children") as file:
                found += map(int, file.read().split())
    return found


def is_reaped(pid: int) -> bool:
    """Reap a child if it has ended; return whether it has."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True
