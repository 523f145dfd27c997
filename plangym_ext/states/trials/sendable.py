"""Errors of trials: as a reason, and as they can be sent from a fork to its original."""

from __future__ import annotations

import errno
import pickle
import re
import traceback
from typing import Any

from plangym_ext.errors import IncompleteState, add_note, text_of
from plangym_ext.states.trials.sandbox import OutsideReached

#: What calls on descriptors raise that a fork has closed or replaced; the last is of `epoll`.
_OF_DESCRIPTORS = (errno.EBADF, errno.ENOTSOCK, errno.EPIPE, errno.EINVAL)
_FRAME = re.compile(r'File "(.+)", line (\d+)')


def reason_of(error: BaseException) -> str:
    """Return why a trial failed with an error; "" if the error is not about states."""
    if isinstance(error, IncompleteState):
        return str(error)
    if isinstance(error, MemoryError):
        return f"there is no memory for it{f': {error}' if str(error) else ''}"
    if isinstance(error, OutsideReached):
        return f"it reaches another process or machine, which no state holds: {error}"
    if isinstance(error, OSError) and error.errno in _OF_DESCRIPTORS:
        return (
            "it reads a pipe, a socket or an event loop, which no state holds, or talks to another "
            f"process through it ({error})"
        )
    return ""


def place_of(error: BaseException) -> str:
    """Return class and text of an error, and the line of code that raised it, here or in a fork."""
    frames = "".join([*traceback.format_tb(error.__traceback__), *getattr(error, "__notes__", ())])
    # Those of the fork are in a note; its last line raised the error.
    *_, (file, line) = _FRAME.findall(frames) or [("unknown", 0)]
    return f"{text_of(error)} ({file}:{line})"


def sendable(error: BaseException) -> BaseException:
    """Return an error, or the nearest one that can be sent, with the traceback as a note."""
    add_note(error, "".join(traceback.format_tb(error.__traceback__)))
    for kind in type(error).__mro__:
        found: Any = error
        if kind is not type(error):
            found = kind(f"{type(error).__qualname__}: {error}")
            for note in getattr(error, "__notes__", ()):
                add_note(found, note)
        try:
            pickle.loads(pickle.dumps(found))
        except Exception:  # whatever its own reduction raises
            continue
        sendable: BaseException = found
        return sendable
    raise AssertionError("BaseException itself can be sent")
