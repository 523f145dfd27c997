"""Transfer of a worker's exceptions with their tracebacks to the parent; warnings of `close`.

The text is made first: whatever fails to pickle or unpickle, the caller still
learns the type, the message and the worker's traceback.
"""

from __future__ import annotations

import pickle
import traceback
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from plangym_ext.errors import WorkerError, add_note


class RemoteTraceback(Exception):
    """Cause of an error that a worker raised: its traceback there, as text."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text}"


@dataclass(frozen=True)
class ErrorReport:
    """A worker's report of an exception.

    Attributes:
        type_name: qualified name of the exception's type; the call if it was `sys.exit`.
        text: formatted traceback, message last.
        pickled: the exception itself, or None if it does not pickle.
        row: row of the batch that was being run, or None.
        action: its action, as text.
        notes: of one that does not pickle.
    """

    type_name: str
    text: str
    pickled: bytes | None
    row: int | None = None
    action: str = ""
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: BaseException, row: int | None = None, action: object = "") -> ErrorReport:
        """Describe `error`, which is being handled in this process."""
        text = "".join(traceback.format_exception(error))
        # An exception that ends a program, such as SystemExit, must not end the caller's.
        data = _travelling(error) if isinstance(error, Exception) else None
        name = type(error).__qualname__
        if data is None and isinstance(error, SystemExit):
            name = f"sys.exit({error.code!r})"
        notes = () if data is not None else tuple(map(str, getattr(error, "__notes__", ())))
        return cls(name, text, data, row, str(action), notes)

    def rebuild(self, where: str) -> BaseException:
        """Return the exception in this process, with a note on where it came from.

        Args:
            where: who raised it, such as "worker 1 (pid 4711)".

        Returns:
            An exception of the original type if it could travel, else a
            `WorkerError` that names the type. Its cause is the remote traceback.
        """
        error: BaseException | None = None
        if self.pickled is not None:
            try:
                error = pickle.loads(self.pickled)
            except Exception:  # whatever an exception's own constructor raises
                error = None
        if not isinstance(error, BaseException):
            error = WorkerError(f"{self.type_name} in {where}; its traceback follows as the cause")
            for note in self.notes:
                add_note(error, note)
        place = "" if self.row is None else f", row {self.row}, action {self.action}"
        add_note(error, f"raised in {where}{place}")
        error.__cause__ = RemoteTraceback(self.text)
        return error


def _travelling(error: BaseException) -> bytes | None:
    # Imported here: a worker that meets no error need not wait for it.
    import cloudpickle

    # By reference if its class has a module; else by value, which cloudpickle turns
    # back into the very class that the parent's constructor brought here.
    for dumps in (pickle.dumps, cloudpickle.dumps):
        try:
            data = bytes(dumps(error, protocol=5))
            # Some exceptions pickle but cannot be rebuilt; better known here than there.
            pickle.loads(data)
        except Exception:  # whatever an exception's own reduction raises
            continue
        return data
    return None


def pickled(value: Any) -> bytes:
    """Return the pickle of a value, by cloudpickle where plain pickle cannot."""
    try:
        return pickle.dumps(value, protocol=5)
    except Exception:  # whatever an object's own reduction raises
        import cloudpickle

        # Classes of the parent's main script came by value, and go back as the parent's own.
        data: bytes = cloudpickle.dumps(value, protocol=5)
        return data


def warn_of(errors: Iterable[BaseException | None]) -> None:
    """Warn about errors of envs at their close.

    Args:
        errors: in the order of the envs; None for one that raised nothing.
    """
    found = [error for error in errors if error is not None]
    if found:
        words = "; ".join(
            " ".join(
                [
                    f"{type(error).__name__}: {error}",
                    *(f"({note})" for note in getattr(error, "__notes__", [])),
                ]
            )
            for error in found
        )
        warnings.warn(
            f"close: everything is closed, but envs have raised: {words}",
            RuntimeWarning,
            stacklevel=3,
        )
