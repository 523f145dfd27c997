"""Read and write access to an object's references and content, by its type.

A *place* is where an object refers to another: an attribute, an item, a variable of a
closure. *Content* is what is no reference: the numbers of an array, of a generator, of a
simulator.
"""

from __future__ import annotations

import copyreg
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import os
import pathlib
import random
import re
import types
import uuid
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.states.graph.writer import is_drawing, name_of
from plangym_ext.states.outside import is_outside, module_of
from plangym_ext.states.randomness import random_bytes

Places = dict[Hashable, Any]

#: Values without parts: of equal type and equal text they are the same.
ATOMS: tuple[type, ...] = (
    *(type(None), bool, int, float, complex, str, bytes, type, range, slice, enum.Enum),
    *(type(...), type(NotImplemented), types.ModuleType, np.generic, np.dtype, np.ufunc),
    *(types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType),
    *(types.GetSetDescriptorType, types.MemberDescriptorType, re.Pattern, pathlib.PurePath),
    *(datetime.date, datetime.time, datetime.timedelta, datetime.tzinfo, uuid.UUID),
    *(decimal.Decimal, fractions.Fraction, property, types.MappingProxyType),
)
#: Kept by reference: what an env and its spaces were made with, and what is not its own.
_CONSTANT = (gym.Space, gym.envs.registration.EnvSpec, weakref.ref)
#: Packages whose objects compute, draw or parse, and hold nothing that a step changes.
_CONSTANT_PACKAGES = ("numba", "lxml", "xml", "ctypes", "typing", "abc", "inspect", "OpenGL")
#: Modules whose objects show a simulator or name what lies in its memory.
_CONSTANT_MODULES = (
    "gymnasium.envs.mujoco.mujoco_rendering",
    "mujoco._specs",
    "mujoco.renderer",
    "mujoco.rendering",
    "mujoco.viewer",
    "mujoco._render",
    "mujoco.gl_context",
    "dm_control._render",
    "dm_control.mujoco.index",
    "dm_control.utils.rewards",
)
#: Classes of MuJoCo's bindings that hold more than what a picture is drawn with.
_SIMULATED = ("MjModel", "MjData", "MjOption", "MjStatistic", "MjVisual")


@functools.cache
def _is_atom(kind: Any) -> bool:
    return issubclass(kind, ATOMS)


def is_atom(kind: Any) -> bool:
    """Return whether instances of a class have no parts and never change."""
    found: bool = _is_atom(kind)
    return found


@functools.cache
def is_constant(kind: Any) -> bool:
    """Return whether instances of a class are kept by reference."""
    module = module_of(kind)
    if module == "mujoco._structs":
        return kind.__name__ not in _SIMULATED
    return (
        issubclass(kind, _CONSTANT)
        or is_outside(kind)
        or is_drawing(kind)
        or module.partition(".")[0] in _CONSTANT_PACKAGES
        or any(module == name or module.startswith(name + ".") for name in _CONSTANT_MODULES)
    )


# Places ---------------------------------------------------------------------------


_slots: Callable[[Any], list[str]] = copyreg._slotnames  # type: ignore[attr-defined]


def attributes(value: Any) -> Places:
    """Return the attributes of an instance, those in slots among them."""
    found = dict(getattr(value, "__dict__", {}))
    for name in _slots(type(value)):
        if hasattr(value, name):
            found[name] = getattr(value, name)
    return found


def set_attributes(value: Any, wanted: Places) -> None:
    """Make the attributes of an instance exactly `wanted`, past its own `__setattr__`."""
    slots = _slots(type(value))
    own = getattr(value, "__dict__", None)
    if own is not None:
        for name in [name for name in own if name not in wanted]:
            del own[name]
        own.update((name, found) for name, found in wanted.items() if name not in slots)
    for name in slots:
        if name in wanted:
            object.__setattr__(value, name, wanted[name])
        elif hasattr(value, name):
            object.__delattr__(value, name)


def _set_dictionary(value: Any, wanted: Places) -> None:
    """Make the attributes of an instance without slots exactly `wanted`."""
    own = vars(value)
    for name in [name for name in own if name not in wanted]:
        del own[name]
    own.update(wanted)


def _items(value: Any) -> Places:
    return dict(enumerate(value))


def _set_list(value: Any, wanted: Places) -> None:
    value[:] = list(wanted.values())


def _set_deque(value: Any, wanted: Places) -> None:
    value.clear()
    value.extend(wanted.values())


def _set_dict(value: Any, wanted: Places) -> None:
    if list(value) == list(wanted):
        for key, found in wanted.items():
            dict.__setitem__(value, key, found)
        return
    value.clear()
    for key, found in wanted.items():
        value[key] = found


def _set_objects(value: Any, wanted: Places) -> None:
    for place, found in wanted.items():
        value.flat[place] = found


#: How the items of an array of objects are read and set.
OBJECTS = (lambda value: dict(enumerate(value.flat)), _set_objects)


def _cell(value: Any) -> Places:
    try:
        return {"cell": value.cell_contents}
    except ValueError:  # not set yet
        return {}


def _set_cell(value: Any, wanted: Places) -> None:
    if wanted:
        value.cell_contents = wanted["cell"]
    else:
        del value.cell_contents


def _function(value: Any) -> Places:
    """Return the cells of a function's closure, its defaults and attributes."""
    found: Places = dict(enumerate(value.__closure__ or ()))
    found["defaults"] = value.__defaults__
    found["keywords"] = tuple((value.__kwdefaults__ or {}).items())
    if value.__dict__:
        found["attributes"] = value.__dict__
    return found


def _partial(value: Any) -> Places:
    return {"function": value.func, "arguments": value.args, "keywords": value.keywords}


def _as_it_is(value: Any) -> Places:
    return value


def _nothing(value: Any, wanted: Places) -> None:
    """Set nothing: the places of such an object cannot be changed."""


#: Classes whose instances have places, with how these are read, not always as a copy, and set.
_PLACES: dict[Any, tuple[Callable[[Any], Places], Callable[[Any, Places], None]]] = {
    list: (_items, _set_list),
    deque: (_items, _set_deque),
    dict: (_as_it_is, _set_dict),
    OrderedDict: (_as_it_is, _set_dict),
    defaultdict: (_as_it_is, _set_dict),
    types.CellType: (_cell, _set_cell),
    types.FunctionType: (_function, _nothing),
    functools.partial: (_partial, _nothing),
}


def places_in(value: Any) -> Any:
    """Return functions that read and set the places of an object, as `places_of` its class."""
    if type(value) is np.ndarray:
        return OBJECTS if value.dtype.hasobject and value.base is None else None
    kind: Any = type(value)
    return places_of(kind)


@functools.cache
def _is_instance(kind: Any) -> bool:
    """Return whether attributes and slots are all that instances of a class have."""
    for cls in kind.__mro__[:-1]:
        # Made by a class statement; of an extension there may be more than Python shows.
        if not cls.__flags__ & (1 << 9) or module_of(cls) == "builtins":
            return False
        made = vars(cls).get("__new__")
        if made is not None and not isinstance(made, staticmethod | types.FunctionType):
            return False
    slots = len(_slots(kind)) * object().__sizeof__() // 2
    return bool(kind.__basicsize__ <= object.__basicsize__ + 16 + slots)


@functools.cache
def places_of(kind: Any) -> Any:
    """Return functions that read and set the places of a class's instances; None if it has none."""
    found = _PLACES.get(kind)
    if found is None and _is_instance(kind):
        plain = kind.__dictoffset__ != 0 and not _slots(kind)
        return (vars, _set_dictionary) if plain else (attributes, set_attributes)
    return found


# Content --------------------------------------------------------------------------


def _set_array(value: Any, wanted: Any) -> None:
    value[...] = wanted


def _set_set(value: Any, wanted: Any) -> None:
    value.clear()
    value.update(wanted)


def _set_random(value: Any, wanted: Any) -> None:
    random_bytes.set_state(value, random_bytes.state_of(wanted))


def _set_bytes(value: Any, wanted: Any) -> None:
    value[:] = wanted


#: Classes whose instances have content, with how it is read and set. What is read is fresh.
_CONTENT: dict[Any, tuple[Callable[[Any], Any], Callable[[Any, Any], None]]] = {
    np.ndarray: (np.array, _set_array),
    set: (set, _set_set),
    bytearray: (bytes, _set_bytes),
    np.random.Generator: (random_bytes.random_bytes, _set_random),
    np.random.RandomState: (random_bytes.random_bytes, _set_random),
    random.Random: (random.Random.getstate, random.Random.setstate),
}


#: Returns functions that read and set the content of a class's instances; None without any.
content_of = _CONTENT.get


# Placeholders for references in in-place states -------------------------------


_LONG = 1 << 12


@dataclass(frozen=True, slots=True)
class Ref:
    """Placeholder for a numbered object."""

    number: int


@dataclass(frozen=True, slots=True)
class Group:
    """Placeholder for a tuple that holds objects."""

    kind: Any
    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """Placeholder for a bound method and its owner."""

    function: Any
    owner: Any


def same_atom(one: Any, two: Any) -> bool:
    """Return whether two values without parts are the same to the bit."""
    if one is two:
        return True
    if type(one) is not type(two):
        return False
    if isinstance(one, int | str | bytes):
        return bool(one == two)
    if type(one) is float and one and one == two:  # of zeros and of no numbers the text decides
        return True
    if isinstance(one, np.generic):
        return one.dtype == two.dtype and one.tobytes() == two.tobytes()
    return repr(one) == repr(two)


def is_flat(value: Any) -> bool:
    """Return whether a tuple or frozenset holds only atoms and such tuples."""
    return all(map(has_no_parts, value))


def has_no_parts(value: Any) -> bool:
    """Return whether a value never changes, and refers to nothing that may."""
    kind: Any = type(value)
    return is_atom(kind) or (kind in (tuple, frozenset) and is_flat(value))


def hashed(*what: Any) -> int:
    """Return a 64-bit hash of the texts of some atoms; bytes enter by their digest."""
    data = repr(_shortened(what)).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def _shortened(what: Any) -> Any:
    if isinstance(what, list | tuple):
        return list(map(_shortened, what))
    if isinstance(what, bytes | str) and len(what) > _LONG:
        data = what if isinstance(what, bytes) else what.encode("utf-8", "surrogatepass")
        return len(what), hashlib.blake2b(data, digest_size=16).digest()
    return what


def text_of(value: Any) -> Any:
    """Return an identifying text of a value without parts, equal in every process."""
    kind: Any = type(value)
    if isinstance(value, type | types.BuiltinFunctionType | types.ModuleType):
        return getattr(value, "__module__", ""), getattr(value, "__qualname__", value.__name__)
    if isinstance(value, np.generic):
        return value.dtype.str, value.tobytes()
    if isinstance(value, frozenset):
        return sorted(map(repr, map(text_of, value)))
    if isinstance(value, tuple):
        return list(map(text_of, value))
    # Where a file lies is each machine's own; what was read of it is elsewhere.
    if isinstance(value, pathlib.PurePath) or (kind is str and os.path.isabs(value)):
        return "path"
    if kind is bytes:  # whose text takes several times their memory
        return name_of(kind), value
    if isinstance(value, property | types.MappingProxyType) or " at 0x" in repr(value):
        return name_of(kind)
    return name_of(kind), repr(value)
