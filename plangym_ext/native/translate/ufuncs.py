"""Numbers as numpy computes them: types of results, and its own loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.native.translate.runtime import loop_of
from plangym_ext.native.translate.values import (
    VARIES,
    Arr,
    Num,
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
    return walk.each(value, lambda one: _changed(walk, one, kind))


def _changed(walk: Any, value: Any, kind: str) -> Num:
    if not isinstance(value, Num):
        raise Untranslatable("a number of something else")
    if kind[0] in "iu" and value.kind[0] == "f" and value.const is VARIES:
        return walk.changed(walk.let("i8", f"whole({value.text})"), kind)
    return walk.changed(value, kind)
