"""Saving of attributes of a user's class that its `state_dict` leaves out.

Two parts are compared: one that has learned, and one made anew that has loaded the state of the
first. Their differences are saved as well, so that a resumed run has all of them.
"""

from __future__ import annotations

import dis
import functools
import random
import types
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from plangym_ext.errors import WrongKind
from plangym_ext.learn.held_numbers import (
    attributes_of,
    held_numbers,
    is_module,
    is_optimizer,
    is_own,
    is_tensor,
    objects_of,
    same_number,
)
from plangym_ext.learn.networks.state import load_network_state, network_state
from plangym_ext.learn.packed_values import is_exact, kept_exact
from plangym_ext.learn.torch_extra import torch
from plangym_ext.states.part import misplaced

#: Says what the class does, and is there again once the object is made.
_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial)
_CODE = (type, types.ModuleType, *_FUNCTIONS)
_MISSING = object()
#: Attributes that say how a part is used where it is.
_OF_PLACE = frozenset({"mode", "training"})
#: Containers that are filled anew where they are: others may hold the same one.
_FILLED = (dict, list, set, deque)
#: How a value is to be made again, and of what.
Change = list[Any]


def own_state(part: Any, other: Any, where: str) -> dict[str, Change]:
    """Return the differences from another part, by attribute.

    Args:
        part: of a class of the user's; of one of the library's nothing is looked at.
        other: made anew, and given what the `state_dict` of the part has.
        where: the part is, for the message.

    Raises:
        WrongKind: an attribute differs that holds what cannot be saved without a pickle.
    """
    if not is_own(type(part)):
        return {}
    known = _assigned_by_the_library(type(part))
    mine, theirs = attributes_of(part), attributes_of(other)
    met = {id(part), id(getattr(part, "network", None))}
    found: dict[str, Change] = {}
    for name, value in mine.items():
        if name in _OF_PLACE or (name in known and not is_own(type(value))):
            continue
        change = _change(value, theirs.get(name, _MISSING), f"{where}.{name}", met)
        if change is not None:
            found[name] = change
    return found


def load_own_state(part: Any, saved: Mapping[str, Change]) -> None:
    """Set a part's attributes from a result of `own_state`.

    Raises:
        ValueError: it names what is no attribute of such an object.
    """
    cls: Any = type(part)
    for name, change in saved.items():
        # A file may say anything: what Python or a library looks up by its name stays the class's.
        if name.startswith("__") or misplaced(cls, (name,)):
            raise ValueError(f"{name!r} is no attribute that {cls.__name__} learns")
        now = attributes_of(part).get(name)
        object.__setattr__(part, name, _changed(now, change))


def _assigned_by_the_library(cls: type) -> set[str]:
    """Return the attributes that classes of the library assign, and have in their `state_dict`."""
    found: set[str] = set()
    for base in cls.__mro__:
        if not _is_of_the_library(base):
            continue
        functions = [getattr(one, "__func__", one) for one in vars(base).values()]
        for one in functions:
            if isinstance(one, types.FunctionType):
                stored = dis.get_instructions(one)
                found |= {str(step.argval) for step in stored if step.opname == "STORE_ATTR"}
    return found


# Comparing --------------------------------------------------------------------------------


def _change(mine: Any, other: Any, where: str, met: set[int]) -> Change | None:
    """Return how `other` becomes like `mine`; None where it is, or need not be."""
    if id(mine) in met or isinstance(mine, _CODE) or _are_alike(mine, other):
        return None
    same = type(mine) is type(other)
    if same and isinstance(mine, dict | list | tuple):
        items, others = _by_key(mine), _by_key(other)
        # Before they are plain data as a whole: what lies in them may be shared with others.
        if items.keys() == others.keys() and not all(map(_is_number, items.values())):
            return _parts("items", items, others, where, met)
    if not _is_number(mine):  # of which equal ones may be one object
        met.add(id(mine))
    attributes, others = attributes_of(mine), attributes_of(other)
    if same and attributes and is_own(type(mine)):
        # Its `state_dict` may be that of a class of the library that it derives from.
        try:
            return _parts("attributes", attributes, others, where, met)
        except WrongKind:
            if not hasattr(mine, "state_dict"):
                raise
    if (found := _as_data(mine, other)) is not None:
        return found
    if _is_of_the_library(type(mine)):
        return None  # what it works with: what it learns is in a `state_dict`
    if same and attributes:
        return _parts("attributes", attributes, others, where, met)
    raise WrongKind(
        f"checkpoint: {where} is of {type(mine).__module__}.{type(mine).__qualname__}, has changed "
        f"since it was made, and is not in a state_dict; what it holds cannot be saved without a "
        f"pickle. Keep arrays, numbers, lists and dicts in attributes, give its class state_dict "
        f"and load_state_dict, or save it by those of the part that holds it."
    )


def _as_data(mine: Any, other: Any) -> Change | None:
    """Return a change of plain data, or of a `state_dict`; None if the value has neither."""
    if isinstance(mine, np.generic):
        return ["scalar", np.array(mine)]
    if is_exact(mine):
        return ["value", kept_exact(mine)]
    if type(mine) is not type(other):
        return None
    if is_module(mine):
        return ["network", network_state(mine)]
    if hasattr(mine, "state_dict") and hasattr(mine, "load_state_dict"):
        return ["state", mine.state_dict()]
    if isinstance(mine, _FILLED) and is_exact(content := _content(mine)):
        return ["content", kept_exact(content)]
    return None


def _parts(kind: str, mine: Any, other: Any, where: str, met: set[int]) -> Change | None:
    found = {}
    for key, value in mine.items():
        named = f"{where}.{key}" if kind == "attributes" else f"{where}[{key!r}]"
        change = _change(value, other.get(key, _MISSING), named, met)
        if change is not None:
            found[key] = change
    return [kind, found] if found else None


def _are_alike(mine: Any, other: Any) -> bool:
    if type(mine) is not type(other):
        return False
    ours, theirs = _numbers(mine), _numbers(other)
    return ours.keys() == theirs.keys() and all(
        _is_same(ours[where], theirs[where]) for where in ours
    )


def _numbers(value: Any) -> dict[str, Any]:
    found = held_numbers(value)
    for where, one in objects_of(value):
        if is_optimizer(one):
            found |= {f"{where}{inner}": x for inner, x in held_numbers(one.state_dict()).items()}
        elif type(one) is torch.Generator:
            found[where] = one.get_state()
    return found


def _is_same(one: Any, other: Any) -> bool:
    if not same_number(one, other):
        return False
    # How far a generator has come counts here.
    if isinstance(one, np.random.Generator):
        one, other = one.bit_generator.state, other.bit_generator.state
    elif isinstance(one, np.random.RandomState):
        one, other = one.get_state(legacy=False), other.get_state(legacy=False)
    elif isinstance(one, random.Random):
        one, other = one.getstate(), other.getstate()
    else:
        return True
    return _are_alike(one, other)


def _by_key(value: Any) -> dict[Any, Any]:
    return dict(value) if isinstance(value, dict) else dict(enumerate(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | complex | str | bytes | np.generic | None)


def _content(value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else list(value)


def _is_of_the_library(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "plangym_ext"


# Changing ---------------------------------------------------------------------------------


def _changed(now: Any, change: Change) -> Any:
    """Return a value that is changed: where it is, if that can be."""
    kind, content = change
    if kind == "scalar":
        return content[()]
    if kind == "value":
        return _in_place(now, content)
    if kind == "content":
        return _filled(now, content)
    if kind == "network":
        load_network_state(now, content, "own state")
    elif kind == "state":
        now.load_state_dict(content)
    elif kind == "attributes":
        load_own_state(now, content)
    elif kind == "items":
        return _with_items(now, content)
    else:
        raise ValueError(f"{kind!r} is no change")
    return now


def _in_place(now: Any, value: Any) -> Any:
    """Return a value, in the memory of the one before where that has its form."""
    if is_tensor(now) and is_tensor(value):
        if now.shape == value.shape and now.dtype == value.dtype:
            with torch.no_grad():
                now.copy_(value)
            return now
    elif type(now) is not type(value):
        return value
    elif isinstance(now, np.ndarray):
        if now.shape == value.shape and now.dtype == value.dtype and now.flags.writeable:
            now[...] = value
            return now
    elif isinstance(now, np.random.Generator):
        if type(now.bit_generator) is type(value.bit_generator):
            now.bit_generator.state = value.bit_generator.state
            return now
    elif type(now) in _FILLED:
        return _filled(now, value)
    return value


def _filled(now: Any, content: Any) -> Any:
    now.clear()
    if isinstance(now, dict | set):
        now.update(content)
    else:
        now.extend(content)
    return now


def _with_items(now: Any, changes: Mapping[Any, Change]) -> Any:
    if isinstance(now, tuple):
        items = [_changed(one, changes[i]) if i in changes else one for i, one in enumerate(now)]
        # One with named fields is made of them one by one.
        return type(now)(*items) if hasattr(now, "_fields") else tuple(items)
    for key, change in changes.items():
        now[key] = _changed(now[key], change)
    return now
