"""Serialisation of nested Python values for files without pickles.

What `packed` takes, `unpacked` returns: nothing is written that cannot be read again.
"""

from __future__ import annotations

import ast
import datetime
import pathlib
import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from plangym_ext.errors import WrongKind
from plangym_ext.learn.torch_extra import torch

#: Marks what was a numpy array that torch takes, so that it comes back as one.
_ARRAY = "__numpy__"
#: Marks what was something else: `{_KIND: name, _IS: content}`.
_KIND, _IS = "__kind__", "__is__"
#: What is written as it is. Of these very types: an enumeration can be an int, and is an object.
_PLAIN = frozenset({type(None), bool, float, str})
_DEEPEST = 200
_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
_TEXTS: dict[str, Any] = {"date": datetime.date, "time": datetime.time}
_TEXTS |= {"datetime": datetime.datetime}
_PATHS = (pathlib.PurePosixPath, pathlib.PureWindowsPath)


def packed(value: Any, where: str = "", depth: int = 0) -> Any:
    """Return nested values in a form that files can hold.

    Args:
        value: dicts, lists, sets, deques, ranges, arrays, tensors, numbers, texts, paths, dates and
            generators of random numbers. Tuples become lists.
        where: it is, for the message.
        depth: of the nesting so far.

    Raises:
        WrongKind: it is of no kind that can be read again without running code.
    """
    kind = type(value)
    if kind in _PLAIN or (kind is int and -(2**63) <= value < 2**63):
        return value
    if depth > _DEEPEST:
        raise _unknown(value, where, f"nested more than {_DEEPEST} deep")
    # Before mappings and lists are looked for: their classes may be of another's.
    for test, pack in _KINDS:
        if isinstance(value, test) and (found := pack(value, where, depth + 1)) is not None:
            return found
    raise _unknown(value, where)


def unpacked(value: Any) -> Any:
    """Return the original value of a result of `packed`.

    Raises:
        Exception: it was made by something else.
    """
    if isinstance(value, list):
        return [unpacked(one) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_ARRAY}:
        return value[_ARRAY].numpy()
    if value.keys() == {_KIND, _IS}:
        return _UNPACK[value[_KIND]](value[_IS])
    return {key: unpacked(one) for key, one in value.items()}


def is_exact(value: Any) -> bool:
    """Return whether `kept_exact` of a value survives packing with equal content and types."""
    kind = type(value)
    if kind in (list, tuple, deque, set, frozenset):
        return all(map(is_exact, value))
    if kind is dict:
        return all(map(is_exact, value.values())) and all(map(is_exact, value))
    if kind is np.ndarray:
        return not value.dtype.hasobject or all(map(is_exact, value.ravel().tolist()))
    return kind in _EXACT or isinstance(value, np.generic)


def kept_exact(value: Any) -> Any:
    """Return a value such that `packed` keeps its tuples and numpy's scalars."""
    kind = type(value)
    if kind is tuple:
        return _Tuple(map(kept_exact, value))
    if kind is list:
        return list(map(kept_exact, value))
    if kind is deque:
        return deque(map(kept_exact, value), value.maxlen)
    if kind is dict:
        return {key: kept_exact(one) for key, one in value.items()}
    return _Scalar(value) if isinstance(value, np.generic) else value


def _unknown(value: Any, where: str, why: str = "") -> WrongKind:
    kind = type(value)
    return WrongKind(
        f"checkpoint: {where[:200] or 'its content'} is "
        f"{why or f'of {kind.__module__}.{kind.__qualname__}'}, which cannot be read again without "
        f"running code, so nothing is written. Save what it is made of: dicts, lists, arrays, "
        f"tensors, numbers and texts."
    )


def _marked(kind: str, content: Any) -> dict[str, Any]:
    return {_KIND: kind, _IS: content}


# Packing ----------------------------------------------------------------------------------


def _mapping(value: Mapping[Any, Any], where: str, depth: int) -> Any:
    simple = all(type(key) in (str, int, bool, float, type(None)) for key in value)
    if simple and _KIND not in value and _ARRAY not in value and all(map(_is_short, value)):
        return {key: packed(one, f"{where}[{key!r}]", depth) for key, one in value.items()}
    items = [
        [packed(_as_key(key), where, depth), packed(one, f"{where}[{key!r}]", depth)]
        for key, one in value.items()
    ]
    return _marked("items", items)


def _is_short(key: Any) -> bool:
    return type(key) is not int or -(2**63) <= key < 2**63


def _as_key(key: Any) -> Any:
    """Return a key so that it comes back as one: tuples would be lists."""
    return _Tuple(key) if isinstance(key, tuple) else key


class _Tuple(list[Any]):
    """A tuple that is to come back as one."""


class _Scalar:
    """A scalar of numpy's that is to come back as one."""

    def __init__(self, value: np.generic) -> None:
        self.value = value


def _kept_scalar(value: _Scalar, where: str, depth: int) -> Any:
    return _marked("scalar", _array(np.array(value.value), where, depth))


def _tuple(value: _Tuple, where: str, depth: int) -> Any:
    return _marked("tuple", [packed(_as_key(one), where, depth) for one in value])


def _list(value: Iterable[Any], where: str, depth: int) -> Any:
    return [packed(one, f"{where}[{i}]", depth) for i, one in enumerate(value)]


def _deque(value: deque[Any], where: str, depth: int) -> Any:
    return _marked("deque", [_list(value, where, depth), value.maxlen])


def _set(value: Any, where: str, depth: int) -> Any:
    found = [packed(_as_key(one), where, depth) for one in sorted(value, key=repr)]
    return _marked("frozenset" if isinstance(value, frozenset) else "set", found)


def _array(value: np.ndarray[Any, Any], where: str, depth: int) -> Any:
    if value.dtype.hasobject:
        return _marked("objects", [list(value.shape), _list(value.ravel(), where, depth)])
    native = value.dtype.isnative
    if value.dtype.kind in "biufc" and native and value.dtype.itemsize <= _widest(value):
        # A copy only where torch takes nothing else: large arrays would not fit in twice.
        fits = value.flags.c_contiguous and value.flags.writeable and value.ndim
        return {_ARRAY: torch.from_numpy(value if fits else np.array(value, order="C"))}
    descr = repr(np.lib.format.dtype_to_descr(value.dtype))
    data = torch.from_numpy(np.frombuffer(value.tobytes() + b"\0", np.uint8).copy())
    return _marked("array", [descr, list(value.shape), data])


def _widest(value: np.ndarray[Any, Any]) -> int:
    """Return the bytes of the widest numbers that torch takes: long double is wider."""
    return 16 if value.dtype.kind == "c" else 8


def _scalar(value: np.generic, where: str, depth: int) -> Any:
    if (value.dtype.kind in "biufU" and value.dtype.itemsize <= 8) or value.dtype.kind == "U":
        return packed(value.item(), where, depth)
    return _marked("scalar", _array(np.array(value), where, depth))


def _generator(value: np.random.Generator, where: str, depth: int) -> Any:
    bits = value.bit_generator
    if type(bits).__name__ not in _BIT_GENERATORS:
        return None
    return _marked("generator", packed(dict(bits.state), where, depth))


def _path(value: pathlib.PurePath, where: str, depth: int) -> Any:  # noqa: ARG001
    windows = isinstance(value, pathlib.PureWindowsPath)
    return _marked("path", [str(value), windows, isinstance(value, pathlib.Path)])


def _text(value: Any, where: str, depth: int) -> Any:
    name = type(value).__name__
    if _TEXTS.get(name) is not type(value) or not _has_plain_zone(value):
        return None
    return _marked(name, packed(value.isoformat(), where, depth))


def _has_plain_zone(value: Any) -> bool:
    zone = getattr(value, "tzinfo", None)
    return zone is None or type(zone) is datetime.timezone


def _exactly(kind: type, name: str, content: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return what packs values of a class, but not of classes that derive from it."""

    def pack(value: Any, where: str, depth: int) -> Any:
        if type(value) is not kind:
            return None
        return _marked(name, packed(content(value), where, depth))

    return pack


def _tensor(value: torch.Tensor, where: str, depth: int) -> Any:  # noqa: ARG001
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        return None
    return value.detach()


_KINDS: tuple[tuple[Any, Callable[[Any, str, int], Any]], ...] = (
    (torch.Tensor, _tensor),
    (np.ndarray, _array),
    (np.generic, _scalar),
    (_Tuple, _tuple),
    (_Scalar, _kept_scalar),
    (Mapping, _mapping),
    (list | tuple, _list),
    (deque, _deque),
    (set | frozenset, _set),
    (np.random.Generator, _generator),
    (
        np.random.RandomState,
        _exactly(np.random.RandomState, "random state", lambda r: r.get_state()),
    ),
    (random.Random, _exactly(random.Random, "random", lambda r: r.getstate())),
    (torch.Generator, _exactly(torch.Generator, "torch generator", lambda g: g.get_state())),
    (torch.dtype, _exactly(torch.dtype, "dtype", lambda one: str(one).removeprefix("torch."))),
    (torch.device, _exactly(torch.device, "device", str)),
    (range, _exactly(range, "range", lambda r: [r.start, r.stop, r.step])),
    (slice, _exactly(slice, "slice", lambda s: [s.start, s.stop, s.step])),
    (pathlib.PurePath, _path),
    (datetime.date | datetime.time, _text),
    (
        datetime.timedelta,
        _exactly(datetime.timedelta, "timedelta", lambda d: [d.days, d.seconds, d.microseconds]),
    ),
    (int, _exactly(int, "int", hex)),
    (complex, _exactly(complex, "complex", lambda c: [c.real, c.imag])),
    (bytes, _exactly(bytes, "bytes", lambda b: np.frombuffer(b, np.uint8).copy())),
    (bytearray, _exactly(bytearray, "bytearray", lambda b: np.frombuffer(b, np.uint8).copy())),
)


_EXACT = {type(None), bool, int, float, complex, str, bytes, bytearray, range, slice}
_EXACT |= {datetime.date, datetime.time, datetime.datetime, datetime.timedelta}
_EXACT |= {np.random.Generator, np.random.RandomState, random.Random, torch.Generator}
_EXACT |= {torch.Tensor, torch.nn.Parameter, torch.dtype, torch.device, type(pathlib.Path())}


# Unpacking --------------------------------------------------------------------------------


def _to_array(content: Any) -> Any:
    descr, shape, data = content
    # The format's own function takes what `dtype_to_descr` returns, and no names of classes.
    dtype = np.lib.format.descr_to_dtype(ast.literal_eval(descr))
    if dtype.hasobject:
        raise ValueError("an array of objects cannot be bytes")
    return np.frombuffer(data.numpy().tobytes()[:-1], dtype).reshape(shape).copy()


def _to_objects(content: Any) -> Any:
    shape, items = content
    found = np.empty(len(items), object)
    for i, one in enumerate(items):
        found[i] = unpacked(one)
    return found.reshape(shape)


def _to_generator(content: Any) -> Any:
    state = unpacked(content)
    if state["bit_generator"] not in _BIT_GENERATORS:
        raise ValueError(f"{state['bit_generator']!r} is no generator")
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = state
    return np.random.Generator(bits)


def _to_random_state(content: Any) -> Any:
    found = np.random.RandomState()
    found.set_state(tuple(unpacked(content)))
    return found


def _to_random(content: Any) -> Any:
    version, numbers, gauss = unpacked(content)
    found = random.Random()
    found.setstate((version, tuple(numbers), gauss))
    return found


def _to_torch_generator(content: Any) -> Any:
    found = torch.Generator()
    found.set_state(content)
    return found


def _to_path(content: Any) -> Any:
    text, windows, concrete = content
    return pathlib.Path(text) if concrete else _PATHS[bool(windows)](text)


def _to_dtype(content: Any) -> Any:
    found = getattr(torch, content)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"{content!r} is no dtype")
    return found


_UNPACK: dict[str, Callable[[Any], Any]] = {
    "items": lambda items: {unpacked(key): unpacked(one) for key, one in items},
    "tuple": lambda items: tuple(map(unpacked, items)),
    "deque": lambda content: deque(unpacked(content[0]), content[1]),
    "set": lambda items: set(map(unpacked, items)),
    "frozenset": lambda items: frozenset(map(unpacked, items)),
    "objects": _to_objects,
    "array": _to_array,
    "scalar": lambda content: unpacked(content)[()],
    "generator": _to_generator,
    "random state": _to_random_state,
    "random": _to_random,
    "torch generator": _to_torch_generator,
    "dtype": _to_dtype,
    "device": lambda content: torch.device(content),
    "range": lambda content: range(*content),
    "slice": lambda content: slice(*unpacked(content)),
    "path": _to_path,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "datetime": datetime.datetime.fromisoformat,
    "timedelta": lambda content: datetime.timedelta(*content),
    "int": lambda content: int(content, 16),
    "complex": lambda content: complex(*content),
    "bytes": lambda content: unpacked(content).tobytes(),
    "bytearray": lambda content: bytearray(unpacked(content).tobytes()),
}
