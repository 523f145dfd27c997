"""What a test may leave: nothing.

`snapshot()` lists what this process holds of the system; `leaked(before)` names what
has been added since.
"""

from __future__ import annotations

import gc
import os
import re
import sys
import time
from dataclasses import dataclass

from clock_bounds import slowness

from plangym_ext.workers.processes import fork_server

# Opened once by some library on first use and kept on purpose.
_HARMLESS = re.compile(
    r"^/dev/(null|zero|u?random)$"  # random seeds, redirected output
    r"|\.so[.\d]*$|\.nb[ic]$"  # libraries and numba's cache
    r"|/__pycache__/"
)


@dataclass(frozen=True)
class Held:
    """System resources of this process.

    Attributes:
        children: `(pid, start time, command)`, zombies included.
        descriptors: `(number, what it is)` of the open files.
        mappings: inodes and names of the anonymous memory files that are mapped.
        segments: names under /dev/shm, of the whole machine.
    """

    children: frozenset[tuple[int, int, str]]
    descriptors: frozenset[tuple[int, str]]
    mappings: frozenset[tuple[str, str]]
    segments: frozenset[str]


def snapshot() -> Held:
    """Return what this process holds now."""
    return Held(children(), _descriptors(), _memfd_mappings(), _segments())


def leaked(before: Held, grace: float = 2.0) -> list[str]:
    """Return one line for each resource that this process has gained since `before`.

    Args:
        before: an earlier snapshot.
        grace: seconds that processes which are ending may take to be gone, on a free machine.
    """
    if not _gained(before):
        return []
    # Garbage of a test is young as a rule. To look at all that the process holds, modules and
    # compiled code of gigabytes, takes up to a second, so that comes only if something is left.
    gc.collect(1)
    _stop_helpers_of_multiprocessing()
    if not _gained_after(before, min(grace, 0.05)):
        return []
    gc.collect()
    found = _gained_after(before, grace)
    return _gained_after(before, grace * (slowness() - 1)) if found and grace else found


def _gained_after(before: Held, seconds: float) -> list[str]:
    """Return what is left of what was gained, as soon as there is nothing or the time is up."""
    deadline, pause = time.monotonic() + seconds, 0.01
    while (found := _gained(before)) and time.monotonic() < deadline:
        # Longer each time: to ask whose a segment is takes a look at every process.
        time.sleep(pause)
        pause = min(1.5 * pause, 0.1)
    return found


def _is_rays(target: str) -> bool:
    """Return whether a descriptor may be Ray's, which keeps its loops, logs and connections."""
    return "ray" in sys.modules and target.startswith(("socket:", "anon_inode:", "/tmp/ray/"))


def _is_cudas(target: str) -> bool:
    """Return whether a descriptor may be CUDA's, which keeps what it opens on its first use."""
    torch = sys.modules.get("torch")
    kinds = ("/dev/nvidia", "anon_inode:[eventfd]", "socket:", "pipe:")
    return torch is not None and torch.cuda.is_initialized() and target.startswith(kinds)


def _stop_helpers_of_multiprocessing() -> None:
    """End the two processes that the standard library starts once and keeps."""
    for module, name in (("resource_tracker", "_resource_tracker"), ("forkserver", "_forkserver")):
        loaded = sys.modules.get(f"multiprocessing.{module}")
        if loaded is not None:
            getattr(loaded, name)._stop()


def _gained(before: Held) -> list[str]:
    now = snapshot()
    lines = [
        f"child process {pid}: {command}"
        for pid, _, command in sorted(now.children - before.children)
    ]
    lines += [
        f"file descriptor {fd}: {target}"
        for fd, target in sorted(now.descriptors - before.descriptors)
        if not (_HARMLESS.search(target) or _is_rays(target) or _is_cudas(target))
    ]
    lines += [
        f"mapped memory file {name} (inode {inode})"
        for inode, name in sorted(now.mappings - before.mappings)
    ]
    lines += [
        f"shared memory segment /dev/shm/{name}"
        for name in sorted(now.segments - before.segments)
        if _is_ours(name)
    ]
    return lines


def children(of: int | None = None) -> frozenset[tuple[int, int, str]]:
    """Return the child processes, zombies included, of process `of` (this one if None).

    Workers that a fork server has forked count as children of the process that asked it for
    them. The server itself is no child: it is kept for later workers, and ends by itself.
    """
    if of is None and not _has_children():
        return frozenset()
    own = _children_of(os.getpid() if of is None else of)
    servers = {pid for pid in own if _is_fork_server(pid)}
    forks = {pid for server in servers for pid in _children_of(server)}
    stats = {pid: _stat(pid) for pid in (own - servers) | forks}
    return frozenset((pid, stat[2], stat[0]) for pid, stat in stats.items() if stat is not None)


def _children_of(parent: int) -> set[int]:
    """Return the process ids of the children of a process, zombies included."""
    # The kernel's list is read in microseconds; to look at every process of the machine takes
    # milliseconds, before and after each test. The list may lack a child if another one ends
    # while it is read, so it is believed if a second reading says the same.
    try:
        listed = _listed_children(parent)
        if listed == _listed_children(parent):
            return listed
    except OSError:  # the process or a thread of it has ended, or this kernel has no such lists
        pass
    every = {int(entry) for entry in os.listdir("/proc") if entry.isdigit()}
    return {pid for pid in every if (stat := _stat(pid)) is not None and stat[1] == parent}


def _listed_children(parent: int) -> set[int]:
    found: set[int] = set()
    for thread in os.listdir(f"/proc/{parent}/task"):
        with open(f"/proc/{parent}/task/{thread}/children") as file:
            found.update(map(int, file.read().split()))
    return found


def _is_fork_server(pid: int) -> bool:
    """Return whether a process, whose parent is none, is a fork server: its forks look alike."""
    if (server := fork_server.current()) is not None and server.pid == pid:
        return True  # it may have ended idle, a zombie without a command line until it is asked
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"plangym_ext.workers.processes.fork_server" in file.read()
    except OSError:
        return False


def _has_children() -> bool:
    """Return whether this process has children, zombies included."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def is_running(pid: int) -> bool:
    """Return whether a process exists and has not ended; a zombie has ended."""
    stat = _stat(pid)
    return stat is not None and stat[3] not in "ZX"


def is_stopped(pid: int) -> bool:
    """Return whether a process stands still until it is told to go on: after SIGSTOP."""
    stat = _stat(pid)
    return stat is not None and stat[3] == "T"


def wait_until(condition, timeout: float = 30.0) -> bool:
    """Return whether `condition()` becomes true before the deadline."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def _stat(pid: int) -> tuple[str, int, int, str] | None:
    """Return (command, parent, start time, state) of a process, or None if there is none."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            text = file.read()
    except OSError:
        return None
    # The command is in parentheses and may hold anything, parentheses included.
    command, _, rest = text.partition("(")[2].rpartition(")")
    state, parent, *fields = rest.split()
    return command, int(parent), int(fields[17]), state


def _descriptors() -> frozenset[tuple[int, str]]:
    server = fork_server.current()
    kept = () if server is None else server.descriptors
    found = set()
    for entry in os.listdir("/proc/self/fd"):
        if int(entry) in kept:
            continue
        try:
            target = os.readlink(f"/proc/self/fd/{entry}")
        except OSError:  # the descriptor of the listing itself
            continue
        found.add((int(entry), target))
    return frozenset(found)


class _Mapped:
    """Whether memory files may be mapped: reading all mappings takes the kernel a millisecond.

    Attributes:
        maybe: a map was made since the last reading, or one was found then.
    """

    maybe = True


def _notice(event: str, _arguments: object) -> None:
    if event == "mmap.__new__":
        _Mapped.maybe = True


sys.addaudithook(_notice)


def _memfd_mappings() -> frozenset[tuple[str, str]]:
    if not _Mapped.maybe:
        return frozenset()
    _Mapped.maybe = False  # first: what is mapped meanwhile is read the next time
    with open("/proc/self/maps") as file:
        text = file.read()
    if "/memfd:" not in text:
        return frozenset()
    _Mapped.maybe = True
    lines = [line.split(maxsplit=5) for line in text.splitlines() if "/memfd:" in line]
    return frozenset((line[4], line[5].strip()) for line in lines)


def _segments() -> frozenset[str]:
    try:
        return frozenset(os.listdir("/dev/shm"))
    except OSError:
        return frozenset()


def _is_ours(name: str) -> bool:
    """Return whether a segment is of this process or its children: others use the machine too."""
    pids = {os.getpid(), *(pid for pid, _, _ in children())}
    # This library and torch write the number of the process that makes a segment into its name.
    numbers = set(map(int, re.findall(r"(?<=_)\d+(?=_|$)", name)))
    if numbers & pids:
        return True
    # A child that was killed is no child any more.
    if name.startswith("plangym_") and not any(map(is_running, numbers)):
        return True
    return any(_holds(pid, f"/dev/shm/{name}") for pid in pids)


def _holds(pid: int, path: str) -> bool:
    """Return whether a process has mapped a file or has it open."""
    try:
        inode = os.stat(path).st_ino
        # By inode: who makes a semaphore maps it before it has its name.
        with open(f"/proc/{pid}/maps") as file:
            if re.search(rf" {inode} +/dev/shm/", file.read()):
                return True
        entries = os.listdir(f"/proc/{pid}/fd")
        return any(os.readlink(f"/proc/{pid}/fd/{entry}") == path for entry in entries)
    except OSError:  # ended, or closed, meanwhile
        return False
