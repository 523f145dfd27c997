"""Detection of process resources (files, sockets, locks) that no state contains.

A logger, an open file, a socket, a thread or a lock belongs to the process. An env that is
restored goes on with the one that it has.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from typing import Any

#: Packages of which every instance is such a thing.
_PACKAGES = ("asyncio", "concurrent", "logging", "multiprocessing", "selectors", "socket", "ssl")
#: Classes by module and name, with all that derive from them; a module that is not loaded has
#: no instances.
_CLASSES = (
    ("_io", "_IOBase"),
    ("_thread", "LockType"),
    ("_thread", "RLock"),
    ("_thread", "lock"),
    ("_thread", "_local"),
    # What a plain weak reference refers to is the env's own; see `graph.data_types`.
    ("weakref", "KeyedRef"),
    ("weakref", "WeakMethod"),
    ("mmap", "mmap"),
    ("queue", "Queue"),
    ("_queue", "SimpleQueue"),
    ("sqlite3", "Connection"),
    ("subprocess", "Popen"),
    ("threading", "Condition"),
    ("threading", "Event"),
    ("threading", "Semaphore"),
    ("threading", "Thread"),
    ("threading", "Barrier"),
    ("http.client", "HTTPConnection"),
    ("requests.sessions", "Session"),
    ("urllib3.poolmanager", "PoolManager"),
)
#: Data in memory, though their class derives from that of files.
_DATA = (("_io", "BytesIO"), ("_io", "StringIO"))


def module_of(kind: Any) -> str:
    """Return the module of a class or function; "" if unknown, as for some SWIG classes."""
    return str(getattr(kind, "__module__", "") or "")


@functools.cache
def is_outside(kind: Any) -> bool:
    """Return whether instances of a class belong to the process, not to an env."""
    if any(module_of(cls).partition(".")[0] in _PACKAGES for cls in kind.__mro__):
        return True
    return _is_one(kind, _CLASSES) and not _is_one(kind, _DATA)


def _is_one(kind: Any, classes: tuple[tuple[str, str], ...]) -> bool:
    for module, name in classes:
        found = None
        with contextlib.suppress(KeyError, AttributeError):
            found = getattr(sys.modules[module], name)
        if isinstance(found, type) and issubclass(kind, found):
            return True
    return False
