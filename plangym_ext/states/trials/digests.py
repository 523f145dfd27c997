"""Content digests of an env's data, for change detection."""

from __future__ import annotations

import array
import contextlib
import copyreg
import decimal
import enum
import functools
import hashlib
import itertools
import logging
import marshal
import random
import sys
import threading
import types
import warnings
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from plangym_ext.states.graph.classes import is_drawing, layout_of
from plangym_ext.states.graph.data_types import data_type
from plangym_ext.states.outside import module_of
from plangym_ext.states.plain import NotPlain
from plangym_ext.states.randomness.random_bytes import RANDOM_TYPES, random_bytes

#: Packages whose own changes of themselves are no state of an env.
# fmt: off
_LIBRARIES = {
    "_pytest", "ale_py", "Box2D", "OpenGL", "PIL", "cloudpickle", "cv2", "gym", "gymnasium",
    "glfw", "hypothesis", "imageio", "jax", "jaxlib", "llvmlite", "matplotlib", "moviepy",
    "mujoco", "networkx", "numba", "numpy", "pandas", "plangym_ext", "pluggy", "pygame",
    "pyglet", "pymunk", "pytest", "ray", "scipy", "shapely", "sklearn", "stable_baselines3",
    "sympy", "torch", "torchrl", "tianshou", "zmq",
}
# fmt: on
#: Objects that one digest covers, how deep they lie in each other, and bytes of one array.
_MOST_NODES, _DEEPEST, _MOST_BYTES = 20_000, 200, 256 << 20
_LARGE = 1 << 20
#: Most entries of a variable that are marked one by one; the others are marked together.
MOST_ITEMS = 256
_MOST_MARKED = 4 * MOST_ITEMS
#: Attributes of objects that are marked one by one.
_MOST_PARTS = 2_000
#: A version of marshal whose bytes do not depend on how often an object is referred to.
_PLAINLY = 2
SCALARS = (bool, int, float, complex, str, bytes)
CODE = (types.FunctionType, types.MethodType)
#: What is no data: it is known by its name, or stands for something outside.
NO_DATA = (
    types.ModuleType,
    type,
    types.BuiltinFunctionType,
    classmethod,
    staticmethod,
    property,
    logging.Logger,
    gym.Space,
    gym.envs.registration.EnvSpec,
    gym.Env,
)


#: Of the standard library, what is data: by its bytes, or by its attributes.
_BYTES = (bytearray, memoryview, array.array)
_BY_ATTRIBUTES = (types.SimpleNamespace, threading.local, decimal.Context)
#: What tells, without changing it, how far an object of compiled code has come.
_TELLING = ("tell", "locked", "qsize", "cache_info", "digest", "total_changes", "line_num")


def is_own(cls: Any) -> bool:
    """Return whether a class or function is from the env's package, not from a known library."""
    return is_own_module(module_of(cls))


@functools.lru_cache(4096)
def is_own_module(name: str) -> bool:
    """Return whether a module is from the env's package, by its name."""
    root = name.partition(".")[0]
    return bool(root) and not (root in _LIBRARIES or root in sys.stdlib_module_names)


def cells(function: Any) -> list[Any]:
    """Return a function's closure variables, in the order of `co_freevars`."""
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not set yet
            found.append(None)
    return found


def held_by(value: Any) -> tuple[Any, ...]:
    """Return what a name of a class or module holds: itself, or the parts of a descriptor."""
    if isinstance(value, property):
        return value.fget, value.fset, value.fdel
    if isinstance(value, functools.partialmethod):
        return value.func, (value.args, value.keywords)
    # By its type: asked for an attribute, an object may run code of its own.
    wraps = isinstance(value, classmethod | staticmethod | types.MethodType)
    return (value.__func__ if wraps else value,)


def digest(value: Any) -> bytes:
    """Return a 16-byte digest of a value's content, of all parts that are the env's data.

    Objects of the env's own packages count by their attributes, functions of these packages by code
    and closure, data such as dates and tensors by their parts, other objects only by their class.
    """
    return Digests().of(value)


class Digests:
    """Digests of many values; an object that several reach counts only in the first.

    Args:
        deep: also look at what may change without deciding anything: how far iterators and files
            are, the order of sets, the hits of caches, attributes of other packages' objects.
    """

    def __init__(self, *, deep: bool = False) -> None:
        self._deep, self._left = deep, _MOST_NODES * (10 if deep else 1)
        #: By `id`, and held, so that none is given out again.
        self._seen: dict[int, Any] = {}

    def of(self, value: Any) -> bytes:
        """Return the digest of a value."""
        found = hashlib.blake2b(digest_size=16)
        for part in self._content(value, 0):
            found.update(part)
        return found.digest()

    def _content(self, value: Any, depth: int) -> Iterator[bytes | memoryview]:
        """Yield the content of a value in pieces."""
        kind: Any = type(value)
        if kind is bytes:  # whose text takes several times their memory
            yield b"bytes %d;" % len(value)
            yield value
            return
        if value is None or issubclass(kind, (*SCALARS, enum.Enum)):
            yield f"{kind.__name__} {value!r};".encode("utf-8", "backslashreplace")
            if not (issubclass(kind, enum.Enum) and is_own(kind)) or id(value) in self._seen:
                return
        if id(value) in self._seen or self._left <= 0 or depth > _DEEPEST:
            yield b"^"
            return
        self._left -= 1
        self._seen[id(value)] = value
        if kind in (list, dict, tuple) and len(value) > _MOST_MARKED:
            # In C, some hundred times as fast: of more nodes than are walked through, all count.
            with contextlib.suppress(ValueError):
                yield marshal.dumps(value, _PLAINLY)
                return
        yield f"{kind.__qualname__}(".encode()
        if issubclass(kind, np.ndarray | np.generic):
            yield from _array_content(value)
        elif issubclass(kind, RANDOM_TYPES):
            with contextlib.suppress(Exception):  # a bit generator of another kind
                yield random_bytes(value)
        elif issubclass(kind, random.Random):
            with contextlib.suppress(NotImplementedError):  # `random.SystemRandom`, which has none
                yield repr(value.getstate()).encode()
        elif issubclass(kind, set | frozenset):
            found = [self.of(part) for part in value]
            yield b"".join(found if self._deep else sorted(found))
        elif _is_memory(kind):
            with contextlib.suppress(TypeError, BufferError):
                yield bytes(memoryview(value))
        else:
            for part in self._parts(value, kind):
                yield from self._content(part, depth + 1)
        yield b")"

    def _parts(self, value: Any, kind: Any) -> Iterable[Any]:
        if issubclass(kind, dict):
            return itertools.chain.from_iterable(list(value.items()))
        if issubclass(kind, list | tuple | deque):
            return list(value)
        if issubclass(kind, CODE):
            function = getattr(value, "__func__", value)
            if not isinstance(function, types.FunctionType):
                return function, value.__self__  # a method of another callable
            if not is_own(function):
                return (function.__qualname__,)
            held = function.__defaults__, function.__kwdefaults__, *cells(function)
            code = b"".join(_code_content(function.__code__))
            return (code, *held, getattr(value, "__self__", None))
        if issubclass(kind, functools.partial):
            return value.func, value.args, value.keywords, vars(value)
        if (parts := _parts_of_data(value, kind)) is not None:
            return parts
        is_data = is_own(kind) or issubclass(kind, _BY_ATTRIBUTES)
        if issubclass(kind, NO_DATA) or not (is_data or self._deep):
            return ()
        named = sorted(attributes(value).items(), key=lambda item: str(item[0]))
        parts = itertools.chain.from_iterable(named)
        return itertools.chain(parts, _inside(value)) if self._deep else parts


def _parts_of_data(value: Any, kind: Any) -> Iterable[Any] | None:
    """Return the parts of a date, a fraction, a tensor, ...; None of what is no such data."""
    rules = data_type(kind)
    if rules is None or hasattr(kind, "__next__") or issubclass(kind, weakref.ReferenceType):
        return None  # how far an iterator is need not decide anything
    try:
        return rules.parts(value)
    except NotPlain:
        # Of a tensor that is a view, or has a gradient, the numbers count all the same.
        with contextlib.suppress(Exception):
            return (value.detach().cpu().contiguous().numpy().tobytes(),)
    return None


def _code_content(code: types.CodeType) -> Iterator[bytes]:
    yield code.co_code + repr(code.co_names).encode()
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield from _code_content(part)
        else:
            yield repr(part).encode("utf-8", "backslashreplace")


def _array_content(value: Any) -> Iterator[bytes | memoryview]:
    # Whether it may be written to, states do not hold.
    yield f"{value.dtype.str}{value.shape}{value.flags.writeable}".encode()
    if not value.dtype.hasobject and value.nbytes <= _MOST_BYTES:
        # Of a large one without a copy of its memory.
        large = value.nbytes >= _LARGE and value.flags.c_contiguous
        yield value.reshape(-1).view(np.uint8).data if large else value.tobytes()


@functools.lru_cache(4096)
def _is_memory(kind: Any) -> bool:
    """Return whether instances are bytes that can be written, and no more."""
    return issubclass(kind, _BYTES) or any(module_of(cls) == "_ctypes" for cls in kind.__mro__)


def _inside(value: Any) -> Iterator[Any]:
    """Yield what tells how far an object is that has no attributes for it."""
    if isinstance(value, types.GeneratorType | types.CoroutineType):
        frame = getattr(value, "gi_frame", None) or getattr(value, "cr_frame", None)
        yield (frame.f_lasti, dict(frame.f_locals)) if frame else None
        return
    if isinstance(value, weakref.ReferenceType):
        yield value() is None
        return
    for name in _TELLING:
        with contextlib.suppress(Exception):  # of a closed file, or one that cannot tell
            found = getattr(value, name)
            yield found() if callable(found) else found
    if hasattr(type(value), "__next__"):
        with warnings.catch_warnings(), contextlib.suppress(Exception):
            warnings.simplefilter("ignore")  # that itertools will not be pickled any more
            yield value.__reduce__()[1:]


def attributes(value: Any) -> dict[str, Any]:
    """Return the plain-data attributes of an object, by name."""
    try:
        # Past any code of the class's own.
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        found = {}
    if isinstance(value, threading.local):
        found = value.__dict__  # of this thread
    elif isinstance(value, decimal.Context):
        return {"": repr(value)}
    found = found if type(found) is dict else {}
    for name in copyreg._slotnames(type(value)):  # type: ignore[attr-defined]
        with contextlib.suppress(AttributeError):  # not set yet
            found = {**found, name: object.__getattribute__(value, name)}
    return found


# Marks ------------------------------------------------------------------------------------


Marks = dict[str, Any]


class Marking:
    """Marks of many values, by name; objects that several of them reach are walked once.

    Args:
        deep: as of `Digests`.
    """

    def __init__(self, *, deep: bool = False) -> None:
        self.found: Marks = {}
        self.deep = deep
        self._digests = Digests(deep=deep)

    def add(self, name: str, value: Any) -> None:
        """Add a mark of a value, which shows whether it has changed or only grown."""
        try:
            self.found[name] = self._telling(value)
        except Exception:  # of a proxy whose object is gone, or whatever an object raises
            self.found[name] = None

    def add_parts(self, name: str, value: Any) -> None:
        """Add a mark of each attribute of the env's own objects that a value leads to."""
        waiting = [(name, value)]
        seen: dict[int, str] = {}  # objects, by where they were met first
        for place, one in waiting:  # grows
            kind: Any = type(one)
            parts: dict[str, Any] = {}
            # What is marked here: of what has parts their places, so that one that is gone shows.
            rest: Any = one
            if id(one) in seen:
                rest = (seen[id(one)],)
            elif _has_attributes(kind):
                parts = {f".{key}": part for key, part in attributes(one).items()}
                rest = kind.__qualname__, *sorted(parts)
                seen[id(one)] = place
            elif kind in (list, tuple) and any(_has_attributes(type(part)) for part in one):
                parts = {f"[{i}]": part for i, part in enumerate(one)}
                rest = kind(parts)
            elif kind is dict and any(_has_attributes(type(part)) for part in list(one.values())):
                parts = {f"[{key!r}]": part for key, part in list(one.items())}
                rest = dict.fromkeys(parts)
            if len(waiting) + len(parts) > _MOST_PARTS:
                self.add(place, one)
                continue
            self.add(place, rest)
            waiting += [(f"{place}{end}", part) for end, part in parts.items()]

    def _telling(self, value: Any) -> Any:
        digest = self._digests.of
        if self.deep:
            return digest(value)  # whether it has only grown is not asked then
        if isinstance(value, dict):
            items = list(value.items())
            marks = {repr(key)[:200]: digest(part) for key, part in items[:_MOST_MARKED]}
            return _Entries(marks, len(items), digest(items[_MOST_MARKED:]))
        if isinstance(value, list):
            rest = digest(value[_MOST_MARKED:])
            return _Entries([digest(part) for part in value[:_MOST_MARKED]], len(value), rest)
        if isinstance(value, set | frozenset):
            return {digest(part) for part in list(value)[:_MOST_MARKED]}
        if isinstance(value, SCALARS):
            return Scalar(digest(value))
        return None if value is None else digest(value)


def is_object(kind: Any) -> bool:
    """Return whether instances of a class of the env's own are their attributes, and no more."""
    layout = layout_of(kind)
    return (
        layout is not None
        and layout.base is object
        and is_own(kind)
        and not issubclass(kind, enum.Enum | gym.Env)
        and not is_drawing(kind)
        and data_type(kind) is None
    )


def _has_attributes(kind: Any) -> bool:
    """Return whether the attributes of such objects are data of the env."""
    return is_object(kind) and not issubclass(kind, NO_DATA)


class Scalar(bytes):
    """Digest of a number or a text."""


class _Entries(NamedTuple):
    """Marks of the first entries of a list or dict, their number, and a digest of all others."""

    marks: Any
    length: int
    rest: bytes


def has_grown(before: Any, after: Any) -> bool:
    """Return whether a variable has only gained entries since a mark of it."""
    if before is None:
        return True
    if isinstance(before, _Entries) and isinstance(after, _Entries):
        first, last = before.marks, after.marks
        if before.length == after.length and before.rest != after.rest:
            return False
        if isinstance(first, dict) and isinstance(last, dict):
            return first.items() <= last.items()
        return isinstance(first, list) and isinstance(last, list) and first == last[: len(first)]
    return isinstance(before, set) and isinstance(after, set) and before <= after
