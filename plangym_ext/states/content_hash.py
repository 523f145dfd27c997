"""Content digests of constructor arguments, arrays, objects and functions.

Two values have the same digest if and only if their contents are equal, in every process. An object
that cannot be taken apart has its own digest in this process, so that a state of an env with it
fits only that object.
"""

from __future__ import annotations

import copyreg
import enum
import functools
import hashlib
import itertools
import os
import pathlib
import re
import sys
import types
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from plangym_ext.states.outside import is_outside, module_of

if TYPE_CHECKING:
    import gymnasium as gym

_SCALARS = (bool, int, float, complex, str, bytes, type(None))
_NAMED = (type, types.ModuleType, types.BuiltinFunctionType, types.WrapperDescriptorType, np.ufunc)
#: Of a function's closure: no parts of envs, and no envs.
_PASSING = (type(None), type)
_CONTAINERS = (dict, list, tuple, set, frozenset)
_BYTES = 16
#: Most values that are taken apart, and how deep they may lie in each other.
_MOST, _DEEPEST = 1_000_000, 200
#: Names that functions give to the number of an env that they make, or to its seed.
_RANK = re.compile(r"(^|_)(seed|rank|i|j|k|id|idx|index|number|worker|row)s?($|_)")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
#: Numbers of objects that cannot be taken apart, and those without weak references themselves.
_tokens: dict[int, tuple[Any, int]] = {}
_count = itertools.count()
#: What the callables that made envs had enclosed, by env.
_enclosed: weakref.WeakKeyDictionary[Any, list[str]] = weakref.WeakKeyDictionary()


def _deciding(keywords: dict[Any, Any]) -> dict[Any, Any]:
    """Return the arguments that decide what an env does: not how it draws, nor where it writes."""
    return {
        key: value
        for key, value in keywords.items()
        if key != "render_mode" and not _is_place(value)
    }


def _is_place(value: Any) -> bool:
    # On another machine the same files lie elsewhere, and states fit there all the same.
    return isinstance(value, str | os.PathLike) and os.path.isabs(value)


def _is_env(value: Any) -> bool:
    gym: Any = sys.modules.get("gymnasium")
    return gym is not None and isinstance(value, gym.Env)


def content_digest(value: Any) -> str:
    """Return a digest, in hexadecimal digits, of all that a value holds."""
    return _Digests().of(value).hex()


def remember_constructor(env: gym.Env[Any, Any], make: Any) -> None:
    """Store digests of a constructor's closure; see `enclosed_by_constructor`."""
    digests = _Digests()
    spec = env.spec
    # Of an env with a spec, numbers and texts are among the arguments that it tells.
    found = digests.enclosed(make, scalars=spec is None)
    told = {digests.of(value) for value in spec.kwargs.values()} if spec is not None else set()
    _enclosed[env.unwrapped] = [one.hex() for one in found if one not in told]


def enclosed_by_constructor(env: gym.Env[Any, Any]) -> list[str]:
    """Return the stored digests of an env's constructor; none without a call."""
    return _enclosed.get(env.unwrapped, [])


class _Digests:
    """Digests values recursively; a repeated object becomes a reference."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []
        self._depth = 0

    def of(self, value: Any) -> bytes:
        kind: Any = type(value)
        if kind in _SCALARS:
            return _digest(kind.__name__, repr(value))
        if isinstance(value, np.generic):
            return _digest("scalar", value.dtype.str, value.tobytes())
        if isinstance(value, enum.Enum):
            return _digest("enum", _name(kind), value.name)
        if isinstance(value, _NAMED):
            return _digest("named", _name(value))
        if isinstance(value, pathlib.PurePath):
            return _digest("path", str(value))
        if id(value) in self._seen:
            return _digest("seen", str(self._seen[id(value)]))
        if len(self._seen) >= _MOST or self._depth >= _DEEPEST:
            return _token(value)
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)
        self._depth += 1
        try:
            return self._parts(value, kind)
        finally:
            self._depth -= 1

    def _parts(self, value: Any, kind: Any) -> bytes:
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return _digest("array", value.dtype.str, str(value.shape), value.tobytes())
        if kind in (tuple, list):
            return self._all("sequence", value)
        if kind is dict:
            return self._mapping("dict", value)
        if kind in (set, frozenset):
            # Each by itself: their order is no part of it.
            return _digest("set", *sorted(_Digests().of(item) for item in value))
        if isinstance(value, types.FunctionType):
            return _digest("function", *self._code(value.__code__), *self._enclosed(value))
        if isinstance(value, types.MethodType):
            return self._all("method", (value.__func__, value.__self__))
        if isinstance(value, functools.partial):
            return self._all("partial", (value.func, value.args, value.keywords))
        if is_outside(kind):
            return _digest("outside", _name(kind))
        gym: Any = sys.modules.get("gymnasium")  # before it is loaded there are no spaces
        if gym is not None and isinstance(value, gym.Space):
            return self._space(value)
        if module_of(kind).partition(".")[0] == "pandas":
            return self._frame(value, kind)
        return self._reduced(value, kind)

    def _all(self, kind: str, values: Iterable[Any]) -> bytes:
        return _digest(kind, *map(self.of, values))

    def _mapping(self, kind: str, value: Any) -> bytes:
        # The order in which arguments were written does not count.
        items = sorted(value.items(), key=lambda item: repr(item[0]))
        return _digest(kind, *(self.of(part) for item in items for part in item))

    def _space(self, value: Any) -> bytes:
        own = {k: v for k, v in vars(value).items() if k in ("low", "high", "nvec", "start", "n")}
        inner = getattr(value, "spaces", None)
        if "low" in own or inner is not None:
            # The text of a Box has its numbers as numpy printed them when it was made.
            text = f"{type(value).__name__} {value.shape} {value.dtype}"
        else:
            text = _ADDRESS.sub("", repr(value))
        parts = list(inner.items() if isinstance(inner, Mapping) else inner or ())
        return _digest("space", text, self._mapping("space", own), self._all("spaces", parts))

    def _frame(self, value: Any, kind: Any) -> bytes:
        """Return the digest of one of pandas' objects: labels, types and values."""
        if kind.__name__ == "DataFrame":
            columns = [value.iloc[:, i].to_numpy() for i in range(value.shape[1])]
            found = [list(value.columns), value.index.to_numpy(), list(map(str, value.dtypes))]
            return self._all("frame", [*found, *columns])
        if hasattr(value, "to_numpy"):
            labels = value.index.to_numpy() if kind.__name__ == "Series" else None
            dtype = str(getattr(value, "dtype", ""))
            return self._all(_name(kind), [value.to_numpy(), labels, dtype])
        return self._reduced(value, kind)

    def _reduced(self, value: Any, kind: Any) -> bytes:
        """Return the digest of an object: of its attributes, or what a pickle would have."""
        own = getattr(value, "__dict__", None)
        if own is not None and kind.__reduce_ex__ is object.__reduce_ex__ and not _has_base(kind):
            slots = copyreg._slotnames(kind)  # type: ignore[attr-defined]
            own = {**own, **{k: getattr(value, k) for k in slots if hasattr(value, k)}}
            return _digest("object", _name(kind), self._mapping("attributes", own))
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:  # whatever an object raises that cannot be taken apart
            return _token(value)
        if isinstance(reduced, str):
            return _digest("named", _name(kind), reduced)
        parts = [part if not isinstance(part, Iterator) else list(part) for part in reduced]
        return self._all(f"reduced {_name(kind)}", parts)

    def _code(self, code: types.CodeType) -> Iterator[bytes]:
        yield _digest("code", code.co_code, " ".join(code.co_names))
        for value in code.co_consts:
            if isinstance(value, types.CodeType):
                yield from self._code(value)
            else:
                yield self.of(value)

    def _enclosed(self, function: types.FunctionType) -> Iterator[bytes]:
        for value in _held(function):
            yield self.of(value)

    def enclosed(self, make: Any, *, scalars: bool) -> list[bytes]:
        """Return digests of what a constructor brings to the env that it makes.

        Args:
            make: a class brings nothing, a function what it encloses.
            scalars: whether numbers and texts that a function encloses count.
        """
        if _is_told(make):
            return []
        if isinstance(make, functools.partial):
            found = self.enclosed(make.func, scalars=scalars)
            found += [self.of(value) for value in make.args if not _is_place(value)]
            keywords = _deciding(make.keywords)
            return [*found, self.of(keywords)] if keywords else found
        if isinstance(make, types.MethodType):
            return [self.of(make.__self__), *self.enclosed(make.__func__, scalars=scalars)]
        if not isinstance(make, types.FunctionType):
            is_class = isinstance(make, type | types.BuiltinFunctionType)
            return [] if is_class or not getattr(make, "__dict__", None) else [self.of(make)]
        if id(make) in self._seen:
            return []
        self._seen[id(make)] = len(self._seen)
        self._kept.append(make)
        found = []
        for value in (*_held(make), *_named(make, scalars=scalars)):
            # It makes something, and is no function that is given to an env.
            if isinstance(value, types.FunctionType) and "<" not in value.__qualname__:
                found += self.enclosed(value, scalars=scalars)
            elif not (isinstance(value, (*_NAMED, *_PASSING)) or _is_env(value)) and (
                scalars or type(value) not in _SCALARS
            ):
                if isinstance(value, dict):
                    value = _deciding(value)
                    if not scalars:
                        # Told among the arguments of its spec.
                        value = {k: v for k, v in value.items() if type(v) not in _SCALARS}
                # Of `**kwargs` that hold nothing, nothing is enclosed.
                if not (_is_place(value) or (isinstance(value, _CONTAINERS) and not value)):
                    found.append(self.of(value))
        return found


def _is_told(make: Any) -> bool:
    """Return whether an env's spec tells what a constructor brings: of this library, gymnasium's.

    The registry that `gymnasium.make` looks into differs between processes; the spec does not.
    """
    inner = make.func if isinstance(make, functools.partial) else make
    package = (getattr(inner, "__module__", None) or "").partition(".")[0]
    return isinstance(inner, types.FunctionType) and package in ("plangym_ext", "gymnasium")


def _held(function: types.FunctionType) -> Iterator[Any]:
    """Yield what a function was made with: defaults, and variables from around it.

    Numbers of the sub-env that it makes, and their seeds, are left out: states of one fit all.
    """
    for name, value in _variables(function):
        if not (type(value) is int and _RANK.search(name)):
            yield value


def _variables(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    code = function.__code__
    defaults = function.__defaults__ or ()
    first = code.co_argcount - len(defaults)
    yield from zip(code.co_varnames[first:], defaults, strict=False)
    yield from (function.__kwdefaults__ or {}).items()
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not set yet
            yield name, None


def _named(function: types.FunctionType, *, scalars: bool) -> Iterator[Any]:
    """Yield the module's variables that a function names, and numbers and texts in its code."""
    codes = [function.__code__]
    for code in codes:  # which grows
        for name in code.co_names:
            if name in function.__globals__:
                yield function.__globals__[name]
        for value in code.co_consts:
            if isinstance(value, types.CodeType):
                codes.append(value)
            elif scalars and type(value) in _SCALARS:
                yield value


def _digest(*parts: str | bytes) -> bytes:
    found = hashlib.blake2b(digest_size=_BYTES)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        # The length before each, so that no two lists of parts are one text.
        found.update(len(data).to_bytes(8, "little") + data)
    return found.digest()


def _name(thing: Any) -> str:
    name = getattr(thing, "__qualname__", getattr(thing, "__name__", type(thing).__qualname__))
    return f"{getattr(thing, '__module__', '')}.{name}"


def _has_base(kind: Any) -> bool:
    """Return whether instances are more than their attributes: a list, a dict, an extension's."""
    return any(not cls.__flags__ & (1 << 9) for cls in kind.__mro__[:-1])


def _token(value: Any) -> bytes:
    """Return a digest that is this object's alone."""
    found = _tokens.get(id(value))
    if found is None:
        # Kept, so that no other object gets its `id`.
        found = _tokens[id(value)] = value, next(_count)
    return _digest("unknown", _name(type(value)), _process(), str(found[1]))


@functools.cache
def _process() -> str:
    import secrets

    return secrets.token_hex(16)
