"""Translation of calls of numpy's functions, with numpy's types of results."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from plangym_ext.native.translate.runtime import loop_of
from plangym_ext.native.translate.values import (
    VARIES,
    Arr,
    Const,
    Num,
    Ragged,
    Seq,
    Untranslatable,
    cast,
    literal,
)


def resolved(ufunc: np.ufunc, *numbers: Num) -> list[np.dtype[Any]]:
    """Return the dtypes that numpy computes a ufunc of numbers in; the last one is the result's."""
    kinds = {one.kind for one in numbers}
    if kinds & {"f?", "i?"} and not kinds <= {"f?", "i?", "f8", "i8", "float", "int", "bool"}:
        raise Untranslatable("a number that is Python's or numpy's by turns, with a smaller type")
    python = {"float": float, "int": int}
    given: list[Any] = [python.get(one.kind, one.dtype) for one in numbers]
    if all(isinstance(one, type) for one in given):
        given = [one.dtype for one in numbers]
    try:
        found = ufunc.resolve_dtypes((*given, None))
    except TypeError as error:
        raise Untranslatable(str(error)) from None
    return list(found)


def call_ufunc(walk: Any, ufunc: np.ufunc, *numbers: Num) -> Num:
    """Return a ufunc of numbers, by numpy's own loop."""
    if all(one.const is not VARIES for one in numbers):
        return literal(ufunc(*(one.const for one in numbers)))
    dtypes = resolved(ufunc, *numbers)
    code = dtypes[-1].str[1:]
    kind = "bool" if code == "b1" else code
    given = [cast(one, dtype) for one, dtype in zip(numbers, dtypes, strict=False)]
    if ufunc is np.square:
        a = walk.let(kind, given[0])
        return walk.let(kind, f"np.{dtypes[-1].name}({a.text} * {a.text})")
    if dtypes[-1] == np.bool_:
        simple = {np.isnan: "np.isnan", np.isfinite: "np.isfinite", np.isinf: "np.isinf"}
        if ufunc in simple:
            return walk.let("bool", f"{simple[ufunc]}({given[0]})")
        words = {np.logical_and: "and", np.logical_or: "or"}
        if ufunc in words:
            return walk.both(*map(walk.truth, numbers), words[ufunc])
        raise Untranslatable(f"numpy.{ufunc.__name__}")
    found = loop_of(ufunc, tuple(dtypes))
    if found is None:
        raise Untranslatable(f"numpy.{ufunc.__name__} of these types")
    address = walk.program.loop_text(found)
    given = [
        walk.let(d.str[1:], f"np.{d.name}({g})").text for g, d in zip(given, dtypes, strict=False)
    ]
    return walk.let(kind, f"call_loop({address}, np.{dtypes[-1].name}(0), ({', '.join(given)},))")


def cast_to(walk: Any, value: Any, dtype: np.dtype[Any]) -> Any:
    """Return numbers or arrays as a dtype."""
    kind = "bool" if dtype == np.bool_ else dtype.str[1:]
    if isinstance(value, Arr | Seq):
        return walk.mapped(lambda one: walk.changed(one, kind), walk.as_array(value))

    def one(number: Any) -> Num:
        if not isinstance(number, Num):
            raise Untranslatable("a number of something else")
        return walk.changed(number, kind)

    return walk.each(value, one)


def _dtype(walk: Any, given: Any) -> np.dtype[Any] | None:
    if given is None or given == Const(None):
        return None
    return np.dtype(walk.static(given))


def _array(walk: Any, value: Any, dtype: Any = None) -> Any:
    wanted = _dtype(walk, dtype)
    if isinstance(value, Arr):
        return cast_to(walk, value, wanted or Num(value.kind, "").dtype)
    if isinstance(value, Ragged):
        return value
    if isinstance(value, Num):
        found = walk.changed(value, (wanted or value.dtype).str[1:].replace("b1", "bool"))
        return Arr(found.kind, (), [found])
    return walk.each(value, lambda one: walk.stacked(walk.listed(one), wanted))


def _asarray(walk: Any, value: Any, dtype: Any = None) -> Any:
    wanted = _dtype(walk, dtype)
    if isinstance(value, Arr) and (wanted is None or wanted == Num(value.kind, "").dtype):
        return value
    return _array(walk, value, dtype)


def _filled(number: Any) -> Callable[..., Any]:
    def run(walk: Any, shape: Any, value: Any = None, dtype: Any = None) -> Arr:
        if number is not None:
            value, dtype = literal(number), value if dtype is None else dtype
        wanted = _dtype(walk, dtype) or (np.dtype("f8") if number is not None else value.dtype)
        kind = wanted.str[1:].replace("b1", "bool")
        return fill_of(walk, walk.sizes(shape), walk.changed(value, kind))

    return run


def fill_of(walk: Any, shape: tuple[int, ...], value: Num) -> Arr:
    """Return a new array of a number."""
    count = int(np.prod(shape, dtype=int))
    small = Arr(value.kind, (), [value])
    if count <= 64:
        return Arr(value.kind, shape, [value] * count)
    name = f"m{walk.fresh()}"
    walk.emit(f"{name} = np.empty({count}, np.{value.dtype.name.replace('bool', 'bool_')})")
    found = Arr(value.kind, shape, None, name, "", tuple(range(count)))
    walk.fill(found, small)
    return found


def _like(number: float) -> Callable[..., Any]:
    def run(walk: Any, value: Any, dtype: Any = None) -> Arr:
        kind = walk.as_array(value).kind
        wanted = _dtype(walk, dtype) or Num(kind, "").dtype
        return fill_of(walk, walk.as_array(value).shape, literal(wanted.type(number)))

    return run


def _clip(walk: Any, value: Any, low: Any = None, high: Any = None, **named: Any) -> Any:
    low, high = named.pop("a_min", low), named.pop("a_max", high)
    if named or Const(None) in (low, high):
        raise Untranslatable("clip with these arguments")
    clip: Any = importlib.import_module("numpy._core.umath").clip
    arrays = [walk.as_array(one) for one in (value, low, high)]

    def clipped(*numbers: Num) -> Num:
        known = all(one.const is not VARIES for one in numbers)
        dtypes = [] if known else resolved(clip, *numbers)
        # Between bounds that are numbers numpy's loop compares as below, else as it is called
        # here: they differ in the sign of zero.
        if known or arrays[1].shape or arrays[2].shape or dtypes[-1].kind != "f":
            return call_ufunc(walk, clip, *numbers)
        kind = dtypes[-1].str[1:]
        pairs = zip(numbers, dtypes, strict=False)
        x, least, most = (walk.let(kind, f"np.{d.name}({cast(one, d)})").text for one, d in pairs)
        low = walk.let(kind, f"({least} if {x} < {least} else {x})").text
        both = f"({most} if {low} > {most} else {low})"
        return walk.let(
            kind, f"({least} if {least} != {least} else {most} if {most} != {most} else {both})"
        )

    return walk.mapped(clipped, *arrays)


def _reduced(op: type, start: Any) -> Callable[..., Any]:
    def run(walk: Any, value: Any) -> Any:
        array = walk.as_array(value)
        if op is ast.Add and array.kind == "bool":
            array = cast_to(walk, array, np.dtype("i8"))
        if array.kind not in ("f8", "i8", "float", "int") or array.size > 64:
            raise Untranslatable("a sum of this kind of array")
        if array.kind in ("f8", "float") and array.size >= 8:
            raise Untranslatable("a sum of 8 floats or more, whose order is numpy's own")
        if array.kind in ("f8", "float") and array.order_is_loose:
            raise Untranslatable("a sum of floats in the order of memory, which is another one")
        kind = {"float": "f8", "int": "i8"}.get(array.kind, array.kind)
        found = literal(np.dtype(kind).type(start))
        for k in range(array.size):
            one = walk.element(array, k)
            found = (
                walk.binary(op, found, Num(kind, one.text, one.const))
                if k or kind[0] == "i"
                else (Num(kind, one.text))
            )
        return found

    return run


def _best(ufunc: np.ufunc) -> Callable[..., Any]:
    def run(walk: Any, value: Any) -> Any:
        array = walk.as_array(value)
        if array.kind[0] == "f":
            raise Untranslatable("the extreme of an array of floats")
        found = walk.element(array, 0)
        for k in range(1, array.size):
            found = call_ufunc(walk, ufunc, found, walk.element(array, k))
        return found

    return run


def _truths(word: str) -> Callable[..., Any]:
    def run(walk: Any, value: Any) -> Num:
        array = walk.as_array(value)
        if array.size > 64:
            raise Untranslatable("any or all of more than 64 elements")
        found = literal(word == "and")
        for k in range(array.size):
            found = walk.both(found, walk.truth(walk.element(array, k)), word)
        return found

    return run


def _joined(walk: Any, *parts: Any) -> Any:
    if len(parts) > 1:  # append

        def over(value: Any) -> Any:
            arrays = [walk.as_array(one) for one in (value, parts[1])]
            items = [Arr(a.kind, (), [walk.element(a, k)]) for a in arrays for k in range(a.size)]
            return _of_dtype(walk, items, arrays)

        return walk.each(parts[0], over)
    arrays = [walk.as_array(one) for one in walk.listed(parts[0])]
    if any(len(one.shape) != 1 for one in arrays):
        raise Untranslatable("concatenate of arrays of several dimensions")
    items = [Arr(a.kind, (), [walk.element(a, k)]) for a in arrays for k in range(a.size)]
    return _of_dtype(walk, items, arrays)


def _of_dtype(walk: Any, items: list[Arr], arrays: list[Arr]) -> Arr:
    return walk.stacked(items, np.result_type(*(Num(one.kind, "").dtype for one in arrays)))


def _where(walk: Any, test: Any, a: Any, b: Any) -> Any:
    dtype = np.result_type(
        *(
            walk.as_array(one).dtype if False else Num(walk.as_array(one).kind, "").dtype
            for one in (a, b)
        )
    )
    kind = "bool" if dtype == np.bool_ else dtype.str[1:]

    def one(t: Num, x: Num, y: Num) -> Num:
        x, y = walk.changed(x, kind), walk.changed(y, kind)
        return walk.let(kind, f"{x.text} if {walk.truth(t).text} else {y.text}")

    if {walk.as_array(a).kind, walk.as_array(b).kind} & {"float", "int"} and kind not in (
        "f8",
        "i8",
    ):
        raise Untranslatable("where of Python's and numpy's numbers")
    return walk.mapped(one, *map(walk.as_array, (test, a, b)))


def _arange(walk: Any, *bounds: Any) -> Any:
    found = np.arange(*map(walk.static, bounds))
    return walk.stacked([literal(one) for one in found], found.dtype)


def _unravel(walk: Any, index: Any, shape: Any) -> Seq:
    found: list[Any] = []
    sizes = walk.sizes(shape)
    walk.let("int", f"place({index.text}, {int(np.prod(sizes))})")
    for size in reversed(sizes):
        found.append(Num("i8", walk.binary(ast.Mod, index, literal(int(size))).text))
        index = walk.binary(ast.FloorDiv, index, literal(int(size)))
    return Seq(found[::-1])


def _ravel(walk: Any, parts: Any, shape: Any) -> Any:
    found: Any = literal(0)
    for part, size in zip(walk.listed(parts), walk.sizes(shape), strict=True):
        found = walk.binary(ast.Mult, found, literal(int(size)))
        at = walk.let("i8", f"place({part.text}, {int(size)})")
        walk.emit(f"if {part.text} < 0:")
        with walk.aside() as lines:
            walk.emit("raise ValueError")
        walk.lines += lines
        found = walk.binary(ast.Add, found, at)
    return found


def _array_equal(walk: Any, a: Any, b: Any) -> Num:
    x, y = walk.as_array(a), walk.as_array(b)
    if x.shape != y.shape:
        return literal(False)
    return _truths("and")(walk, walk.compare(ast.Eq, x, y))


NUMPY: dict[str, Callable[..., Any]] = {
    "array": _array,
    "asarray": _asarray,
    "zeros": _filled(0),
    "ones": _filled(1),
    "full": _filled(None),
    "zeros_like": _like(0),
    "ones_like": _like(1),
    "copy": _array,
    "clip": _clip,
    "sum": _reduced(ast.Add, 0),
    "max": _best(np.maximum),
    "min": _best(np.minimum),
    "any": _truths("or"),
    "all": _truths("and"),
    "append": _joined,
    "concatenate": _joined,
    "where": _where,
    "arange": _arange,
    "unravel_index": _unravel,
    "ravel_multi_index": _ravel,
    "array_equal": _array_equal,
}
