"""Checks of a call's arguments by their annotations, before the call reads them."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from plangym_ext.core.options import CHECKED_KINDS, Declared, checked, declared_by
from plangym_ext.errors import InvalidOption, UnknownOption, WrongKind, suggestion

_Call = typing.TypeVar("_Call", bound=Callable[..., Any])
_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def checking_arguments(call: _Call) -> _Call:
    """Return a function, or a constructor, that checks its arguments before it reads them.

    Numbers, flags, texts, functions, classes, arrays, objects of a class, and sequences and
    mappings of one of them are checked. What protocols promise, the call finds out itself.

    Raises:
        InvalidOption: a number, flag, text or function is another one.
        WrongKind: an argument is of another class.
        UnknownOption: there is no argument of that name.
    """
    parameters = inspect.signature(call).parameters
    names = list(parameters)
    is_method = call.__name__ == "__init__"
    takes_more = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())

    @functools.cache
    def declared(name: str) -> Declared:
        annotation = parameters[name].annotation
        if annotation is inspect.Parameter.empty:
            return Declared((), False, ())
        return declared_by(annotation, call.__module__)

    @functools.wraps(call)
    def checking(*args: Any, **kwargs: Any) -> Any:
        where = type(args[0]).__name__ if is_method else call.__name__
        given = [*zip(names, args, strict=False)][is_method:]
        for name, value in [*given, *kwargs.items()]:
            if name in parameters and parameters[name].kind not in _REST:
                _check(f"{where}: {name}", value, declared(name))
            elif name not in parameters and not takes_more:
                known = suggestion(name, names[is_method:])
                raise UnknownOption(f"{where} got an unexpected keyword argument {name!r}{known}")
        return call(*args, **kwargs)

    return typing.cast(_Call, checking)


def _check(where: str, value: Any, known: Declared) -> None:
    if not known.kinds or (value is None and known.optional):
        return
    if len(known.kinds) == 1 and _is_plain(known.kinds[0]):
        checked(where, value, known, InvalidOption)
    elif not any(_fits(value, kind) for kind in known.kinds):
        expected = " or ".join(map(_called, known.kinds))
        raise WrongKind(f"{where}: expected {expected}; got {value!r:.80}.")


def _is_plain(kind: Any) -> bool:
    """Return whether `checked` knows all about a type."""
    if typing.get_origin(kind) in (tuple, Sequence):
        first, *others = typing.get_args(kind)
        return first in CHECKED_KINDS and set(others) <= {first, ...}
    return kind in CHECKED_KINDS or typing.get_origin(kind) is Callable


def _fits(value: Any, kind: Any) -> bool:
    """Return whether a value is of a type, as far as one can see that; see `checking_arguments`."""
    origin, inner = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is Callable:
        return callable(value)
    if origin is type:
        return isinstance(value, type) and (not inner or _derives(value, inner[0]))
    if not isinstance(origin, type) or origin is Any or getattr(origin, "_is_protocol", False):
        return True
    if origin.__name__ == "ndarray":
        return _is_array(value)
    if origin in CHECKED_KINDS:
        try:
            checked("", value, Declared((origin,), False, ()), InvalidOption)
        except InvalidOption:
            return False
        return True
    if origin in (tuple, list, Sequence):
        # Arrays and tensors are sequences of their rows; a text is one of its letters, a mistake.
        rows = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        if not rows:
            numbers = not inner or inner[0] is Any or inner[0] in CHECKED_KINDS
            return numbers and hasattr(value, "ndim") and _is_array(value)
        if inner and type(inner[0]) is type and inner[0] not in CHECKED_KINDS:
            # A class is decided by type: a step of an agent has a generator for each row.
            value = {type(one): one for one in value}.values()
        return not inner or all(_fits(one, inner[0]) for one in value)
    fits = isinstance(value, origin)
    if fits and isinstance(value, Mapping) and len(inner) == 2:
        return all(_fits(one, inner[1]) for one in value.values())
    return fits


def _derives(value: type[Any], base: Any) -> bool:
    return not isinstance(base, type) or base is Any or issubclass(value, base)


def _is_array(value: Any) -> bool:
    import numpy as np  # the command line lists planners without it

    try:
        array = value if hasattr(value, "ndim") else np.asarray(value)
    except ValueError:  # rows of several lengths
        return False
    return bool(array.ndim > 0 and getattr(array.dtype, "kind", "f") not in "OUS")


def _called(kind: Any) -> str:
    """Return a type as messages name it."""
    origin = typing.get_origin(kind) or kind
    if inner := [one for one in typing.get_args(kind) if isinstance(one, type) and one is not Any]:
        return f"{getattr(origin, '__name__', origin)} of {inner[-1].__name__}"
    name = getattr(origin, "__name__", str(origin))
    return f"{'an' if name[:1] in 'AEIOUaeiou' else 'a'} {name}"
