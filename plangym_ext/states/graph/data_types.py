"""Standard-library value types in object graphs: dates, fractions, paths, iterators, ...

Also ranges, `random.Random` and the like. A value is taken apart into a tuple of plain values,
and built from it again. Only the types of this file are built so, whatever the bytes say: no
name in them is imported or looked up.
"""

from __future__ import annotations

import _random
import array
import collections
import datetime
import decimal
import fractions
import functools
import itertools
import logging
import operator
import pathlib
import random
import sys
import types
import uuid
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from plangym_ext.states.graph.package_types import DataType, Parts
from plangym_ext.states.outside import module_of
from plangym_ext.states.plain import NotPlain

_PLAIN = frozenset((type(None), bool, int, float, str, bytes, np.ndarray))
#: Bytes of a `random.Random`: 624 words and a position.
MERSENNE_BYTES = 2500


def are_plain(parts: Iterable[Any]) -> bool:
    """Return whether parts are numbers, texts, arrays and types of this file, however nested."""
    left = list(parts)
    while left:
        kind = type(part := left.pop())
        if kind is tuple or kind is list:
            left += part
        elif not (kind in _PLAIN or issubclass(kind, np.generic) or data_type(kind) is not None):
            return False
    return True


def data_type(kind: Any) -> DataType | None:
    """Return the rules for exactly this class; None without any."""
    return _BY_TYPE.get(kind) or _of_other_packages(kind)


def named_data_type(name: str) -> DataType:
    """Return the type of that name.

    Raises:
        KeyError: there is none, or its package is not loaded here.
    """
    found = _BY_NAME.get(name)
    if found is not None:
        return found
    package = name.partition(".")[0]
    if package not in sys.modules:
        raise KeyError(name)
    return _types_of(package)[name]


@functools.cache
def _of_other_packages(kind: Any) -> DataType | None:
    package = module_of(kind).partition(".")[0]
    if package not in ("torch", "pandas", "PIL") or package not in sys.modules:
        return None
    return next((t for cls, t in _classes_of(package).items() if cls is kind), None)


@functools.cache
def _types_of(package: str) -> dict[str, DataType]:
    return {found.name: found for found in _classes_of(package).values()}


def _classes_of(package: str) -> dict[Any, DataType]:
    # Imported where one of their values is met: then the package is loaded anyhow.
    from plangym_ext.states.graph import package_types

    return package_types.types_of(package)


# Numbers, dates, paths --------------------------------------------------------------


def _fields(*names: str) -> Callable[[Any], Parts]:
    return lambda value: tuple(getattr(value, name) for name in names)


def _text(value: Any) -> Parts:
    return (str(value),)


def _logger_parts(value: logging.Logger) -> Parts:
    # The process's own: it has levels and handlers that are no state of an env.
    if _logger(value.name) is not value:
        raise NotPlain("a logger that is not the one of its name")
    return (value.name,)


def _logger(name: Any) -> logging.Logger:
    if not isinstance(name, str):
        raise TypeError(f"a logger of the name {name!r}")
    return logging.getLogger(name)


def _made_datetime(*parts: Any) -> datetime.datetime:
    *numbers, tzinfo, fold = parts
    return datetime.datetime(*numbers, tzinfo=tzinfo, fold=fold)  # type: ignore[misc]


def _made_time(*parts: Any) -> Any:
    *numbers, fold = parts
    kind: Any = datetime.time
    return kind(*numbers, fold=fold)


_DATE = ("year", "month", "day")
_TIME = ("hour", "minute", "second", "microsecond", "tzinfo", "fold")


# Weak references --------------------------------------------------------------------


def _reference_parts(value: weakref.ReferenceType[Any]) -> Parts:
    if value.__callback__ is not None:
        raise NotPlain("a weak reference that calls back")
    target = value()
    return () if target is None else (target,)


def _made_reference(*targets: Any) -> weakref.ReferenceType[Any]:
    # To a set that nothing else holds: it is dead at once, as the original reference is.
    return weakref.ref(*targets) if targets else weakref.ref(set())


# Changed in place -------------------------------------------------------------------


def _made_bytearray(data: bytes) -> bytearray:
    if type(data) is not bytes:  # of a number it would be that many zeros
        raise TypeError("a bytearray of no bytes")
    return bytearray(data)


def _made_array(typecode: str, data: bytes) -> array.array[Any]:
    if type(data) is not bytes or len(typecode) != 1:
        raise ValueError(f"an array of typecode {typecode!r}")
    return array.array(typecode, data)


def random_parts(value: random.Random) -> Parts:
    """Return the state of a `random.Random` as bytes, and its pending Gaussian or None."""
    if len(vars(value)) != 1:
        raise NotPlain("a random.Random with attributes of its own")
    words = _random.Random.getstate(value)
    return array.array("I", words).tobytes(), value.gauss_next  # type: ignore[attr-defined]


def made_random(words: bytes, gauss: float | None) -> random.Random:
    """Return a generator of such parts.

    Raises:
        ValueError: there is none.
    """
    if len(words) != MERSENNE_BYTES or not isinstance(gauss, float | None):
        raise ValueError(f"a random.Random of {len(words)} bytes")
    # A seed, or the system is asked for entropy; the state replaces it.
    kind: Any = random.Random
    made: Any = kind.__new__(kind, 0)
    _random.Random.setstate(made, tuple(array.array("I", words)))
    made.gauss_next = gauss
    return made


def _default_parts(value: collections.defaultdict[Any, Any]) -> Parts:
    return value.default_factory, list(value), list(value.values())


def _made_default(made: Any, factory: Any, keys: list[Any], values: list[Any]) -> Any:
    if not isinstance(factory, type | types.FunctionType | None):
        raise TypeError(f"a defaultdict of {factory!r}")
    made.clear()
    made.default_factory = factory
    made.update(zip(keys, values, strict=True))
    return made


def _counter_parts(value: collections.Counter[Any]) -> Parts:
    if vars(value):
        raise NotPlain("a Counter with attributes of its own")
    return list(value), list(value.values())


def _made_counter(made: Any, keys: list[Any], values: list[Any]) -> Any:
    dict.clear(made)
    dict.update(made, zip(keys, values, strict=True))
    return made


def _namespace_parts(value: types.SimpleNamespace) -> Parts:
    return list(vars(value)), list(vars(value).values())


def _made_namespace(made: Any, names: list[str], values: list[Any]) -> types.SimpleNamespace:
    vars(made).update(zip(names, values, strict=True))
    return made


# Iterators --------------------------------------------------------------------------


def _iterator_parts(value: Any) -> Parts:
    try:
        with warnings.catch_warnings():
            # Python 3.14 no longer needs it; until then they are made of this.
            warnings.simplefilter("ignore", DeprecationWarning)
            _, arguments, *state = value.__reduce__()
    except TypeError as error:
        raise NotPlain(f"a {type(value).__qualname__}: {error}") from error
    if type(value) in _OVER and not state:
        # It has ended, and does not go on if more is put in what it went over.
        return (), None
    if type(value) is itertools.cycle:
        saved, goes_round = state[0]
        # A restored one stands at the end of its round where others are at the next one's begin.
        if goes_round and not operator.length_hint(arguments[0]):
            arguments = (iter(saved),)
    return arguments, state[0] if state else None


def _made_over(kind: type, begun: Callable[..., Any], *over: type) -> Callable[..., Any]:
    """Return a constructor of iterators over instances of exactly the classes `over`."""

    def made(arguments: Parts, state: Any) -> Any:
        if not arguments:
            ended = begun(over[0]())
            next(ended, None)
            return ended
        (held,) = arguments
        # Of anything else, code of its class would run.
        if type(held) not in over:
            raise TypeError(f"a {kind.__qualname__} over a {type(held).__qualname__}")
        found = begun(held)
        if state is not None:
            found.__setstate__(state)
        return found

    return made


def _made_of(kind: Any, num_iterators: int | None) -> Callable[..., Any]:
    """Return a constructor of iterators from some iterators (None: all) and other arguments."""

    def made(arguments: Parts, state: Any) -> Any:
        held = [*arguments[:num_iterators]]
        if kind is itertools.chain and state is not None:
            held = [*state]
        counted = arguments if kind is itertools.count else ()
        if any(type(one) not in _ITERATORS for one in held) or any(
            type(one) not in _NUMBERS and not isinstance(one, np.generic) for one in counted
        ):
            raise TypeError(f"a {kind.__qualname__} of what is no iterator")
        found = kind(*arguments)
        if state is not None:
            found.__setstate__(state)
        elif kind is itertools.chain:  # it has ended
            next(found, None)
        return found

    return made


def _made_selection(kind: Any) -> Callable[..., Any]:
    """Return a constructor of iterators over selections of tuples' items."""

    def made(arguments: Parts, state: Any) -> Any:
        if any(type(one) not in (tuple, int) for one in arguments):
            raise TypeError(f"a {kind.__qualname__} of what is no tuple")
        found = kind(*arguments)
        if state is not None:
            found.__setstate__(state)
        return found

    return made


_OVER: dict[Any, tuple[Any, ...]] = {
    type(iter([])): (iter, list),
    type(reversed([])): (reversed, list),
    type(iter(())): (iter, tuple),
    type(iter("")): (iter, str),
    type(iter("\u20ac")): (iter, str),
    type(iter(b"")): (iter, bytes),
}
_OF: dict[Any, int | None] = {
    itertools.count: 0,
    itertools.repeat: 0,
    itertools.cycle: 1,
    itertools.islice: 1,
    itertools.chain: None,
    enumerate: 1,
    zip: None,
}
_RANGES = {type(iter(range(0))): (iter, range), type(iter(range(1 << 70))): (iter, range)}
_SELECTIONS = (itertools.product, itertools.permutations, itertools.combinations)
#: Of a description, how many come before what makes an empty value.
_EMPTY = 3
#: What may be counted.
_NUMBERS = (int, float, complex, fractions.Fraction, decimal.Decimal)
_ITERATORS = frozenset((*_OVER, *_RANGES, *_OF, *_SELECTIONS))


def _standard_types() -> dict[Any, DataType]:
    found: dict[Any, tuple[Any, ...]] = {
        complex: (_fields("real", "imag"), complex),
        range: (_fields("start", "stop", "step"), range),
        slice: (_fields("start", "stop", "step"), slice),
        type(...): (lambda _: (), lambda: ...),
        datetime.date: (_fields(*_DATE), datetime.date),
        datetime.time: (_fields(*_TIME), _made_time),
        datetime.datetime: (_fields(*_DATE, *_TIME), _made_datetime),
        datetime.timedelta: (_fields("days", "seconds", "microseconds"), datetime.timedelta),
        datetime.timezone: (lambda zone: tuple(zone.__getinitargs__()), datetime.timezone),
        fractions.Fraction: (_fields("numerator", "denominator"), fractions.Fraction),
        decimal.Decimal: (_text, decimal.Decimal),
        uuid.UUID: (_fields("int"), lambda number: uuid.UUID(int=number)),
        bytearray: (lambda value: (bytes(value),), _made_bytearray, True),
        array.array: (lambda value: (value.typecode, value.tobytes()), _made_array, True),
        random.Random: (random_parts, made_random, True),
        collections.defaultdict: (_default_parts, _made_default, True, collections.defaultdict),
        collections.Counter: (_counter_parts, _made_counter, True, collections.Counter),
        types.SimpleNamespace: (_namespace_parts, _made_namespace, True, types.SimpleNamespace),
    }
    for logger in (logging.Logger, logging.RootLogger):
        found[logger] = (_logger_parts, _logger)
    for path in ("PurePosixPath", "PureWindowsPath", "PosixPath"):
        found[getattr(pathlib, path)] = (_text, getattr(pathlib, path))
    for kind, (begun, *over) in (_OVER | _RANGES).items():
        found[kind] = (_iterator_parts, _made_over(kind, begun, *over), True)
    for kind, num_iterators in _OF.items():
        found[kind] = (_iterator_parts, _made_of(kind, num_iterators), True)
    # Its address is of no memory of its own: with a rule for it no plan is made.
    found[weakref.ReferenceType] = (_reference_parts, _made_reference, True, None, lambda _: 0)
    for kind in _SELECTIONS:
        found[kind] = (_iterator_parts, _made_selection(kind), True)
    open_types = {slice, *_ITERATORS, *(kind for kind, how in found.items() if len(how) > _EMPTY)}
    return {
        kind: DataType(kind.__qualname__, *how)._replace(holds_any=kind in open_types)
        for kind, how in found.items()
    }


_BY_TYPE = _standard_types()
_BY_NAME = {found.name: found for found in _BY_TYPE.values()}
