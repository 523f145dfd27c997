"""Identities: objects that an env's code knows by name, such as `EMPTY = Tile()` in a module.

Code may compare what an attribute holds with such an object by `is`, or by the `==` that objects
have of themselves: a copy would be another one. A state holds its name and a digest of its content
instead. Of an object that code puts into a dict, or into a variable, another process may have none
yet: a state holds its content as well, for a copy.
"""

from __future__ import annotations

import dis
import enum
import types
from collections.abc import Iterator, Sequence
from typing import Any

from plangym_ext.errors import ForeignState
from plangym_ext.states.constants import Unchanged, mutable_in
from plangym_ext.states.graph.classes import MARK, Name, name_of
from plangym_ext.states.trials.digests import (
    attributes,
    cells,
    digest,
    held_by,
    is_object,
    is_own,
    is_own_module,
)

#: Values that are looked at; entries of one container; objects that are kept.
_MOST_VALUES, _MOST_ENTRIES, _MOST_KEPT = 5_000, 256, 1_024
_STORE = dis.opmap["STORE_GLOBAL"]
_KEYS = (str, int, bool, enum.Enum)
#: What the attributes of an object may hold beside data, as it never changes.
_BY_NAME = (enum.Enum, type, types.FunctionType)


class Identities:
    """The objects that the code of an env's layers knows by name, with content that stays.

    Args:
        stack: all layers of the env. Their classes are what is searched, with the functions,
            classes and modules that their code refers to: the same in every process.
    """

    def __init__(self, stack: Sequence[Any]) -> None:
        #: The objects, which are held so that no other one gets their `id`.
        self._found: dict[str, Any] = {}
        self._watched: list[tuple[str, list[Any], Unchanged]] = []
        self._always: set[str] = set()
        known, assigned = _known(stack)
        for place, value in known[:_MOST_KEPT]:
            mutable = [] if type(value) is object else mutable_in(value, _BY_NAME, is_object)
            if mutable is None:
                continue
            # By names: a class that another process gets by value has attributes for slots.
            name = f"{MARK}{place}={digest(value).hex()[:16]}"
            self._found[name] = value
            if type(value) is object or not ("[" in place or place in assigned):
                self._always.add(name)
            if mutable:
                self._watched.append((name, mutable, Unchanged(mutable)))
        self._name_all()

    def _name_all(self) -> None:
        # Of all together: one by one it takes a microsecond each, in every capture.
        self._unchanged = Unchanged([one for _, mutable, _ in self._watched for one in mutable])
        #: By `id`: those that every process has, and the others.
        self._named: dict[int, Name] = {}
        self.shared: dict[int, Name] = {}
        for name, one in self._found.items():
            (self._named if name in self._always else self.shared)[id(one)] = 0, name

    def add_names(self, named: dict[int, Name]) -> None:
        """Add the names of the objects that every process has and whose content has not changed.

        One that has changed is copied from then on, as any other object.
        """
        if not self._unchanged:
            for name in [name for name, _, unchanged in self._watched if not unchanged]:
                del self._found[name]
            self._watched = [one for one in self._watched if one[0] in self._found]
            self._name_all()
        named |= self._named

    @property
    def kinds(self) -> set[type]:
        """Classes of the objects."""
        return {type(one) for one in self._found.values()} - {object}

    def held(self, name: str) -> Any:
        """Return the object of a name; None if there is none here."""
        return self._found.get(name)

    def find(self, name: str) -> Any:
        """Return the object of a name.

        Raises:
            ForeignState: the code here knows none of that name and content.
        """
        if name in self._found:
            return self._found[name]
        place = name.removeprefix(MARK).partition("=")[0]
        raise ForeignState(
            f"state: it refers to {place}, an object of the env's code, which is missing here or "
            "has changed. Make the env with the same code, and keep what steps change in "
            "attributes of the env."
        )


def _known(stack: Sequence[Any]) -> tuple[list[tuple[str, Any]], set[str]]:
    """Return the objects that code refers to with their places, and variables that it assigns."""
    kinds = {cls: None for layer in stack for cls in type(layer).__mro__ if is_own(cls)}
    waiting: list[tuple[str, Any]] = [("", kind) for kind in kinds]
    # What is put in the place of a method, or is called by it.
    waiting += (
        (f"{i}.{name}", value)
        for i, layer in enumerate(stack)
        for name, value in vars(layer).items()
        if isinstance(value, types.FunctionType)
    )
    known: list[tuple[str, Any]] = []
    assigned: set[str] = set()
    seen: set[int] = set()
    for place, value in waiting:  # grows
        if id(value) in seen or len(seen) >= _MOST_VALUES:
            continue
        seen.add(id(value))
        kind: Any = type(value)
        if isinstance(value, type | types.ModuleType):
            waiting += _members(value)
        elif isinstance(value, types.FunctionType):
            waiting += _referred(place, value, assigned)
        elif kind in (list, tuple):
            waiting += ((f"{place}[{i}]", one) for i, one in enumerate(value[:_MOST_ENTRIES]))
        elif kind is dict:
            entries = [one for one in value.items() if isinstance(one[0], _KEYS)]
            waiting += ((f"{place}[{key!r}]", one) for key, one in entries[:_MOST_ENTRIES])
        elif kind is object:
            known.append((place, value))
        elif is_object(kind):
            known.append((place, value))
            waiting += ((f"{place}[.{name}]", one) for name, one in attributes(value).items())
    return known, assigned


def _members(holder: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a class or module of the env's own holds, by place."""
    if isinstance(holder, type):
        own, prefix = is_own(holder), ":".join(name_of(holder))
    else:
        own, prefix = is_own_module(holder.__name__), holder.__name__
    for name, value in list(vars(holder).items()) if own else ():
        for one in held_by(value):
            if not name.startswith("__") or isinstance(one, types.FunctionType):
                yield f"{prefix}{'.' if ':' in prefix else ':'}{name}", one


def _referred(
    place: str, function: types.FunctionType, assigned: set[str]
) -> Iterator[tuple[str, Any]]:
    """Yield the variables that a function of the env's own was made with or names, by place.

    Args:
        place: of the function.
        function: of any package.
        assigned: places of variables of modules that functions assign; they are added.
    """
    if not is_own(function):
        return
    for name, one in zip(function.__code__.co_freevars, cells(function), strict=True):
        yield f"{place}<{name}>", one
    space = function.__globals__
    module = space.get("__name__", "")
    for code in _codes(function.__code__):
        for name in sorted(space.keys() & {*code.co_names}):
            yield f"{module}:{name}", space[name]
        if _STORE in code.co_code[::2]:
            found = (one.argval for one in dis.get_instructions(code) if one.opcode == _STORE)
            assigned.update(f"{module}:{name}" for name in found)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from _codes(part)
