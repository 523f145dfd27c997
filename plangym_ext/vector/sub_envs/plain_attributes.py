"""Access to sub-envs' attributes; tracking and undoing of changes that a call has made."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

_KINDS = (bool, int, float, str)
#: Set on errors of calls that have not begun: an attribute, as it travels with the error.
_NOT_BEGUN = "_no_row_has_moved"
#: Modules of the frames in which a look-up, a call or an assignment fails that runs nothing.
_LOOKING_UP = ("gymnasium.core", __name__.rpartition(".")[0] + ".env_rows")


def plain_attributes(env: Any) -> dict[str, Any]:
    """Return plain attributes of the unwrapped env by name, without private ones."""
    found = vars(env.unwrapped).items()
    return {n: v for n, v in found if type(v) in _KINDS and not n.startswith("_")}


def changed_attributes(env: Any, before: dict[str, Any]) -> dict[str, Any]:
    """Return the plain attributes of an env that differ from `before`."""
    missing = object()
    now = {
        name: (before.get(name, missing), value) for name, value in plain_attributes(env).items()
    }
    # By identity first: NaN is not equal to itself.
    return {name: value for name, (was, value) in now.items() if was is not value and was != value}


def set_back(env: Any, before: dict[str, Any]) -> None:
    """Set the plain attributes of an env back to `before`."""
    held = vars(env.unwrapped)
    for name in changed_attributes(env, before):
        if name in before:
            held[name] = before[name]
        else:
            del held[name]
    # Those that are gone, or no plain ones any more.
    held.update(before)


class PlainChanges:
    """Changes of plain attributes by method calls on some rows' envs, to be undone.

    Attributes:
        made: what they have set, by row and name.
    """

    def __init__(self, envs: Sequence[Any]) -> None:
        self._envs = envs
        self._before: dict[int, dict[str, Any]] = {}
        self.made: dict[tuple[int, str], Any] = {}

    @property
    def rows(self) -> tuple[int, ...]:
        """Rows on whose envs a method was called."""
        return tuple(self._before)

    def watch(self, row: int) -> None:
        """Note that a method of a row's env is about to be called."""
        self._before[row] = plain_attributes(self._envs[row])

    def note(self, row: int) -> bool:
        """Record the method's changes; return whether there are any."""
        found = changed_attributes(self._envs[row], self._before[row])
        self.made |= {(row, name): value for name, value in found.items()}
        return bool(found)

    def undo(self) -> None:
        """Undo all recorded changes."""
        for row, held in self._before.items():
            set_back(self._envs[row], held)


@contextlib.contextmanager
def nothing_moves() -> Iterator[None]:
    """Mark errors of a block that moves no row; see `has_not_begun`."""
    try:
        yield
    except Exception as error:
        _mark(error)
        raise


def note_if_not_begun(error: BaseException) -> None:
    """Mark the error of an assignment or of a call with arguments that do not fit."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    # No frame of the env: it has not run. Compiled functions have none and may have.
    if last is not None and last.tb_frame.f_globals.get("__name__") in _LOOKING_UP:
        _mark(error)


def _mark(error: BaseException) -> None:
    with contextlib.suppress(Exception):  # frozen ones stay as they are
        setattr(error, _NOT_BEGUN, True)


def has_not_begun(error: BaseException) -> bool:
    """Return, once, whether a call failed before any row could move."""
    return error.__dict__.pop(_NOT_BEGUN, False) is True


def wrapper_attribute(env: Any, name: Any) -> Any:
    """Return an attribute of an env or its wrappers; a function of an env bound to it."""
    return functools.partial(name, env) if callable(name) else env.get_wrapper_attr(name)


class Missing:
    """Stands for an attribute that an env has not, also in what a worker returns."""


def attribute_or_missing(env: Any, name: str) -> Any:
    """Return an attribute of the env, or of the outermost wrapper that has it; call no method."""
    try:
        return env.get_wrapper_attr(name)
    except AttributeError:
        return Missing


def set_or_remove(env: Any, name: str, value: Any) -> None:
    """Set an attribute back to what `attribute_or_missing` returned."""
    if value is Missing:
        vars(env).pop(name, None)  # where gymnasium puts a new one
    else:
        with contextlib.suppress(AttributeError):  # what cannot be set was not set before
            env.set_wrapper_attr(name, value)
