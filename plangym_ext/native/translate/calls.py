"""Translation of calls: choice of the function, methods of values, draws of the generator."""

from __future__ import annotations

import builtins
import inspect
import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.envs.toy_text.utils import categorical_sample

from plangym_ext.native.translate.numpy_calls import NUMPY, call_ufunc, cast_to
from plangym_ext.native.translate.python_calls import BUILTINS, call_math, to_bool, to_float, to_int
from plangym_ext.native.translate.values import (
    Arr,
    Const,
    Info,
    Num,
    Ragged,
    Rng,
    Seq,
    Untranslatable,
    cast,
    literal,
)

_F8 = np.dtype("f8")


def _draws(walk: Any, size: Any, one: Callable[[int], Num]) -> Any:
    """Return draws of a size; one number without."""
    if size is None or size == Const(None):
        return one(0)
    shape = walk.sizes(size)
    count = int(np.prod(shape, dtype=int))
    if count > 64:
        raise Untranslatable("more than 64 draws at once")
    items = [one(k) for k in range(count)]
    return Arr(
        "f8" if not items else items[0].kind.replace("float", "f8").replace("int", "i8"),
        shape,
        [Num({"float": "f8", "int": "i8"}.get(i.kind, i.kind), i.text, i.const) for i in items],
    )


def _random(walk: Any, size: Any = None) -> Any:
    return _draws(walk, size, lambda _: walk.let("float", 'pcg64.random(state["rng"])'))


def _uniform(walk: Any, low: Any = None, high: Any = None, size: Any = None) -> Any:
    first, last = low or literal(0.0), high or literal(1.0)
    return _between(walk, first, last, size, "uniform")


def _between(walk: Any, first: Any, second: Any, size: Any, function: str) -> Any:
    """Return draws of a distribution with two parameters, numbers or arrays."""

    def one(a: Num, b: Num) -> Num:
        return walk.let("float", f'{function}(state["rng"], {cast(a, _F8)}, {cast(b, _F8)})')

    ends = [walk.as_array(one) for one in (first, second)]
    if not any(end.shape for end in ends):
        a, b = (walk.element(end, 0) for end in ends)
        return _draws(walk, size, lambda _: one(a, b))
    shape = np.broadcast_shapes(*(end.shape for end in ends))
    if size is not None and size != Const(None) and walk.sizes(size) != shape:
        raise Untranslatable("draws around arrays, with another size")
    found = walk.mapped(one, *ends)
    return walk.mapped(lambda number: Num("f8", number.text), found)


def _integers(
    walk: Any, low: Any, high: Any = None, size: Any = None, dtype: Any = None, endpoint: Any = None
) -> Any:
    if dtype is not None and np.dtype(walk.static(dtype)) != np.dtype("i8"):
        raise Untranslatable("integers of another type than int64")
    if high is None or high == Const(None):
        low, high = literal(0), low
    if not all(isinstance(one, Num) and one.kind[0] in "iu" for one in (low, high)):
        raise Untranslatable("integers between bounds that are no integers")
    more = 1 if endpoint is not None and walk.static(endpoint) else 0
    count = walk.let("i8", f"{high.text} - {low.text} + {more}")
    walk.emit(f"if {count.text} < 1:")
    with walk.aside() as lines:
        walk.emit("raise ValueError")
    walk.lines += lines
    # Without a size numpy returns an int64 as well.
    draw = f'{low.text} + pcg64.integers(state["rng"], {count.text})'
    return _draws(walk, size, lambda _: walk.let("i8", draw))


def _choice(walk: Any, values: Any, size: Any = None, replace: Any = None, p: Any = None) -> Any:
    if size is not None or p is not None or replace is not None:
        raise Untranslatable("choice with more arguments")
    if isinstance(values, Num):
        return _integers(walk, values)
    array = walk.memory(walk.as_array(values))
    if len(array.shape) != 1:
        raise Untranslatable("choice of rows")
    at = walk.let("int", f'pcg64.integers(state["rng"], {array.size})')
    return walk.let(
        {"int": "i8", "float": "f8"}.get(array.kind, array.kind), f"{array.base}[{at.text}]"
    )


def _normal(walk: Any, loc: Any = None, scale: Any = None, size: Any = None) -> Any:
    mean, deviation = loc or literal(0.0), scale or literal(1.0)
    return _between(walk, mean, deviation, size, "normal")


DRAWS: dict[str, Callable[..., Any]] = {
    "random": _random,
    "uniform": _uniform,
    "integers": _integers,
    "choice": _choice,
    "normal": _normal,
    "standard_normal": lambda walk, size=None: _draws(
        walk, size, lambda _: walk.let("float", 'standard_normal(state["rng"])')
    ),
}


def categorical_draw(walk: Any, weights: Any) -> Any:
    """Return a draw of gymnasium's `categorical_sample`."""
    walk.program.effects[-1].add("np_random")
    if isinstance(weights, Ragged):
        items, length = weights.items, weights.length
    else:
        array = walk.as_array(weights)
        base = walk.memory(array) if array.size > 64 else None
        if base is not None:
            return walk.let("i8", f'categorical(state["rng"], {base.base}, {array.size})')
        items = [walk.element(array, k) for k in range(array.size)]
        length = literal(array.size)
    name = f"m{walk.fresh()}"
    walk.emit(f"{name} = np.empty({len(items)}, np.float64)")
    for k, one in enumerate(items):
        walk.emit(f"{name}[{k}] = {cast(one, _F8)}")
    return walk.let("i8", f'categorical(state["rng"], {name}, {length.text})')


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
    """Call the function that translates a call, if it takes these arguments."""
    try:
        inspect.signature(function).bind(walk, *given, **named)
    except TypeError as error:
        raise Untranslatable(f"these arguments: {error}") from None
    return function(walk, *given, **named)


def method_of(walk: Any, owner: Any, name: str, given: list[Any], named: dict[str, Any]) -> Any:
    """Return what a method of a value gives."""
    given = [walk.plain(one) for one in given]
    if isinstance(owner, Rng):
        walk.program.effects[-1].add("np_random")
        if name not in DRAWS:
            raise Untranslatable(f"np_random.{name}")
        return _applied(DRAWS[name], walk, given, named)
    if isinstance(owner, Seq) and owner.is_list and name in ("append", "extend"):
        # Only a local list, in lines that are run once.
        if owner.held or walk.depth != walk.base:
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
