"""Calls: whose function it is, and methods of values."""

from __future__ import annotations

import builtins
import inspect
import math
import types
from typing import Any

import numpy as np
from gymnasium.envs.toy_text.utils import categorical_sample

from plangym_ext.native.translate.draws import DRAWS, categorical_draw
from plangym_ext.native.translate.numpy_calls import NUMPY
from plangym_ext.native.translate.python_calls import (
    BUILTINS,
    call_math,
    to_bool,
    to_float,
    to_int,
)
from plangym_ext.native.translate.ufuncs import call_ufunc, cast_to
from plangym_ext.native.translate.values import (
    Arr,
    Const,
    Info,
    Num,
    Rng,
    Seq,
    Untranslatable,
    literal,
)

#: Methods of constants that change nothing.
_READING = ("get", "keys", "values", "items", "index", "count", "upper", "lower")


def call_value(walk: Any, function: Any, given: list[Any], named: dict[str, Any]) -> Any:
    """Return what a function gives."""
    given = [walk.plain(one) for one in given]
    target = function.value if isinstance(function, Const) else None
    if isinstance(target, types.MethodType) and isinstance(target.__self__, object):
        return walk.program.call_bound(walk, target, given, named)
    if target is categorical_sample:
        return categorical_draw(walk, given[0])
    if isinstance(target, np.ufunc):
        if named or target.nout != 1 or len(given) != target.nin:
            raise Untranslatable("these arguments of a ufunc")
        arrays = [walk.as_array(one) for one in given]
        return walk.mapped(lambda *numbers: call_ufunc(walk, target, *numbers), *arrays)
    name = getattr(target, "__name__", "")
    if isinstance(target, type) and issubclass(target, np.generic):
        return cast_to(walk, given[0], np.dtype(target))
    if getattr(builtins, name, None) is target and name in BUILTINS:
        return _applied(BUILTINS[name], walk, given, named)
    if getattr(math, name, None) is target:
        return call_math(walk, name, target, given)
    if getattr(np, name, None) is target and name in NUMPY:
        return _applied(NUMPY[name], walk, given, named)
    if isinstance(target, types.FunctionType) and not (target.__module__ or "").startswith("numpy"):
        return walk.program.call(walk, target, given, named)
    if isinstance(target, type) and issubclass(target, Exception):
        return Const(None)
    shown = getattr(target, "__qualname__", name) or "this"
    raise Untranslatable(
        f"a call of {getattr(target, '__module__', '') or ''}.{shown}".replace(" .", " ")
    )


def _applied(function: Any, walk: Any, given: list[Any], named: dict[str, Any]) -> Any:
    """Call what stands for a function, if it takes these arguments."""
    try:
        inspect.signature(function).bind(walk, *given, **named)
    except TypeError as error:
        raise Untranslatable(f"these arguments: {error}") from None
    return function(walk, *given, **named)


def method_of(walk: Any, owner: Any, name: str, given: list[Any], named: dict[str, Any]) -> Any:
    """Return what a method of a value gives."""
    given = [walk.plain(one) for one in given]
    if isinstance(owner, Rng):
        if name not in DRAWS:
            raise Untranslatable(f"np_random.{name}")
        return _applied(DRAWS[name], walk, given, named)
    if isinstance(owner, Seq) and owner.is_list and name in ("append", "extend"):
        if not walk.may_grow(owner):
            raise Untranslatable("a list that grows where it may not")
        owner.items += given if name == "append" else walk.listed(given[0])
        return Const(None)
    if isinstance(owner, Info) and name == "get":
        default = given[1] if len(given) > 1 else Const(None)
        return owner.items.get(walk.static(given[0]), default)
    if isinstance(owner, Arr | Num):
        return _array_method(walk, owner, name, given, named)
    if isinstance(owner, Const):
        if isinstance(owner.value, dict | list | tuple | str) and name in _READING:
            return walk.constant(getattr(owner.value, name)(*map(walk.static, given)))
        if owner.value is walk.program.env.action_space and name == "contains":
            return literal(True)  # actions are checked before
        function = getattr(type(owner.value), name, None)
        inside = getattr(function, "__module__", "") or ""
        if isinstance(function, types.FunctionType) and not inside.startswith(
            ("numpy", "gymnasium")
        ):
            return walk.program.call(walk, function, [owner, *given], named)
    shown = type(owner.value).__name__ if isinstance(owner, Const) else "this"
    raise Untranslatable(f"the method {name} of {shown}: it may change it, or is not known")


def _array_method(walk: Any, owner: Any, name: str, given: list[Any], named: dict[str, Any]) -> Any:
    if name == "item" and not given:
        number = owner if isinstance(owner, Num) else walk.element(owner, 0)
        return (
            to_bool(walk, number)
            if number.kind == "bool"
            else (to_int(walk, number) if number.kind[0] in "iu" else to_float(walk, number))
        )
    if name == "copy":
        return NUMPY["array"](walk, owner)
    if name == "astype":
        return cast_to(walk, owner, np.dtype(walk.static(given[0] if given else named["dtype"])))
    if name in ("flatten", "ravel", "reshape") and isinstance(owner, Arr):
        shape: Any = [walk.static(one) for one in given] if name == "reshape" else [-1]
        shape = shape[0] if len(shape) == 1 else shape
        found = walk.part(owner, np.arange(owner.size).reshape(shape))
        return NUMPY["array"](walk, found) if name == "flatten" else found
    if name == "fill" and isinstance(owner, Arr) and owner.items is None:
        walk.own(owner)
        walk.fill(owner, given[0])
        return Const(None)
    if name in ("sum", "max", "min", "any", "all", "clip") and isinstance(owner, Arr):
        return _applied(NUMPY[name], walk, [owner, *given], named)
    raise Untranslatable(f"the method {name} of an array or number")
