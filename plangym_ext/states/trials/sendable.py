"""Errors of a fork, as they can be sent to its original."""

from __future__ import annotations

import pickle
import traceback
from typing import Any

from plangym_ext.errors import add_note


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
