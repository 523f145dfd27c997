"""Detection of mutable globals and class attributes that copies of an agent would miss."""

from __future__ import annotations

import hashlib
import sys
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from plangym_ext.errors import WrongKind
from plangym_ext.learn.held_numbers import (
    held_numbers,
    is_by_name,
    is_module,
    is_own,
    is_tensor,
    named_globals,
    objects_of,
)

#: What is looked at for changes.
_WATCHED = (np.ndarray, dict, list, tuple, set, deque)


class OutOfReach:
    """Refuses modules and changing arrays that an agent uses without holding them.

    A pickle has a function's globals and a class's attributes once at most, and of what can be
    imported nothing but the name: a copy goes on with those that it began with.

    Raises:
        WrongKind: it uses a module, or a tensor that learns, of this kind.
    """

    def __init__(self, agent: Any, sampler: str) -> None:
        self._name, self._sampler = type(agent).__name__, sampler
        self._values: dict[str, Any] = {}
        for where, value in _used(agent):
            if _is_env(value):
                continue
            if any(_learns(one) for _, one in objects_of(value)):
                raise self._refusal(where, "is not held by the agent")
            if isinstance(value, _WATCHED) or is_tensor(value) or is_own(type(value)):
                self._values[where] = value
        self._digests = {where: _digest(value) for where, value in self._values.items()}

    def check(self) -> None:
        """Refuse to continue after a change.

        Raises:
            WrongKind: copies of the agent have what it was when they were made.
        """
        for where, value in self._values.items():
            if _digest(value) != self._digests[where]:
                raise self._refusal(where, "has changed, and is not held by the agent")

    def _refusal(self, where: str, why: str) -> WrongKind:
        return WrongKind(
            f"{self._sampler}: {where}, which {self._name} uses, {why}: copies of the agent in "
            f"other processes would play with its old value. Make it an attribute: self.x = ... "
            f"in __init__, and use self.x."
        )


def _used(agent: Any) -> Iterator[tuple[str, Any]]:
    """Go through what classes and functions of the user's use that no object of the agent holds."""
    todo: list[Any] = [type(agent)]
    for _, one in objects_of(agent):
        if isinstance(one, type | types.FunctionType):
            todo.append(one)
        todo.append(type(one))
    met: dict[int, Any] = {}
    # With the objects: one that is made on the way would leave its id to another.
    held = {id(one): one for _, one in objects_of(agent)}
    while todo:
        one = todo.pop()
        if id(one) in met or not is_own(one):
            continue
        met[id(one)] = one
        found = _of_class(one) if isinstance(one, type) else _of_function(one)
        for where, value in found:
            if isinstance(value, type | types.FunctionType):
                # One that is held and goes along by value was looked at there.
                if isinstance(value, type) or id(value) not in held or is_by_name(value):
                    todo.append(value)
            elif id(value) not in held:
                yield where, value


def _of_class(cls: type) -> Iterator[tuple[str, Any]]:
    for base in cls.__mro__:
        if not is_own(base):
            continue
        for name, value in list(vars(base).items()):
            found: Any = value
            if isinstance(value, staticmethod | classmethod):
                found = value.__func__
            elif isinstance(value, property):
                yield from ((name, one) for one in (value.fget, value.fset) if one is not None)
                continue
            if isinstance(found, types.FunctionType) or not name.startswith("__"):
                yield f"{base.__name__}.{name}", found


def _of_function(function: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(function, types.FunctionType):
        return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # it is empty as yet
            continue
    for name, value in named_globals(function).items():
        yield f"the global {name}", value


def _learns(value: Any) -> bool:
    return is_module(value) or (is_tensor(value) and value.requires_grad)


def _is_env(value: Any) -> bool:
    gymnasium = sys.modules["gymnasium"]
    return isinstance(value, gymnasium.Env | gymnasium.vector.VectorEnv)


def _digest(value: Any) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for where, one in held_numbers(value).items():
        found.update(where.encode())
        plain = one.detach().cpu().numpy() if is_tensor(one) else one
        data = plain.tobytes() if isinstance(plain, np.ndarray) else repr(plain).encode()
        found.update(data)
    return found.digest()
