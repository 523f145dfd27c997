"""Translation of calls of Python's built-in functions and of `math`."""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from plangym_ext.native.translate.values import (
    VARIES,
    Arr,
    Choice,
    Const,
    Info,
    Num,
    Seq,
    Untranslatable,
    cast,
    literal,
)

_F8 = np.dtype("f8")
#: Of Python's `math`, by the same C library.
_MATH = {
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "log", "sqrt"),
    *("fabs", "atan2", "copysign", "expm1", "log1p"),
}


def to_int(walk: Any, value: Any) -> Any:
    """Return `int(value)`."""

    def one(number: Any) -> Num:
        number = walk.element(number, 0) if isinstance(number, Arr) and number.size == 1 else number
        if not isinstance(number, Num):
            raise Untranslatable("int of something that is no number")
        if number.const is not VARIES:
            return literal(int(number.const))
        if number.kind[0] == "f":
            return walk.let("int", f"whole({number.text})")
        return Num("int", cast(number, np.dtype("i8")))

    return walk.each(value, one)


def to_float(walk: Any, value: Any) -> Any:
    """Return `float(value)`."""

    def one(number: Any) -> Num:
        number = walk.element(number, 0) if isinstance(number, Arr) and number.size == 1 else number
        if not isinstance(number, Num):
            raise Untranslatable("float of something that is no number")
        if number.const is not VARIES:
            return literal(float(number.const))
        return Num("float", cast(number, _F8))

    return walk.each(value, one)


def to_bool(walk: Any, value: Any) -> Any:
    """Return `bool(value)`."""
    return walk.truth(value)


def _abs(walk: Any, value: Any) -> Any:
    def one(number: Any) -> Any:
        if isinstance(number, Arr):
            return walk.mapped(one, number)
        if number.const is not VARIES:
            return literal(abs(number.const))
        if number.kind in ("bool", "u1", "u2", "u4"):
            raise Untranslatable("abs of this kind of number")
        return walk.let(number.kind, f"np.{number.dtype.name}(abs({number.text}))")

    return walk.each(value, one)


def _extreme(sign: type) -> Callable[..., Any]:
    def run(walk: Any, *given: Any) -> Any:
        items = list(given) if len(given) > 1 else walk.listed(given[0])
        best = items[0]
        for one in items[1:]:
            best = _better(walk, sign, best, one)
        return best

    return run


def _better(walk: Any, sign: type, best: Any, one: Any) -> Any:
    def two(a: Any, b: Any) -> Any:
        test = walk.truth(walk.compare(sign, b, a))
        if test.const is not VARIES:
            return b if test.const else a
        return walk.fork([(test.text, lambda: b), ("", lambda: a)])

    return walk.each(best, lambda a: walk.each(one, lambda b: two(a, b)))


def _sum(walk: Any, values: Any, start: Any = None) -> Any:
    found, items = start or literal(0), walk.listed(values)
    floats = [
        one for one in (found, *items) if not isinstance(one, Num) or one.kind in ("float", "f?")
    ]
    if sys.version_info >= (3, 12) and len(floats) > 2:
        raise Untranslatable("a sum of three floats or more, which Python rounds once")
    for one in items:
        found = walk.binary(ast.Add, found, one)
    return found


def _length(walk: Any, value: Any) -> Num:
    if isinstance(value, Arr):
        return literal(value.shape[0])
    if isinstance(value, Choice):
        return walk.chosen(Choice([len(one) for one in value.options], value.index))
    return literal(len(value.items) if isinstance(value, Seq | Info) else len(walk.static(value)))


def _all_of(word: str) -> Callable[..., Any]:
    def run(walk: Any, values: Any) -> Num:
        found = literal(word == "and")
        for one in walk.listed(values):
            found = walk.both(found, walk.truth(one), word)
        return found

    return run


def _isinstance(walk: Any, value: Any, classes: Any) -> Num:
    wanted = classes.value if isinstance(classes, Const) else tuple(walk.static(classes))
    # A truth may be Python's or numpy's.
    if isinstance(value, Num) and value.kind != "bool" and value.kind[-1] != "?":
        return literal(
            isinstance({"int": 0, "float": 0.0}.get(value.kind, value.dtype.type(0)), wanted)
        )
    if isinstance(value, Const):
        return literal(isinstance(value.value, wanted))
    if isinstance(value, Seq | Info | Arr):
        example: Any = (
            {}
            if isinstance(value, Info)
            else np.zeros(0)
            if isinstance(value, Arr)
            else ([] if value.is_list else ())
        )
        return literal(isinstance(example, wanted))
    raise Untranslatable("isinstance of a value that is only known as it runs")


BUILTINS: dict[str, Callable[..., Any]] = {
    "int": to_int,
    "float": to_float,
    "bool": to_bool,
    "abs": _abs,
    "min": _extreme(ast.Lt),
    "max": _extreme(ast.Gt),
    "sum": _sum,
    "len": _length,
    "range": lambda walk, *bounds: Const(range(*map(walk.static, bounds))),
    "all": _all_of("and"),
    "any": _all_of("or"),
    "isinstance": _isinstance,
    "zip": lambda walk, *values: Seq(
        [Seq(list(row)) for row in zip(*map(walk.listed, values), strict=False)], True
    ),
    "enumerate": lambda walk, values: Seq(
        [Seq([literal(k), one]) for k, one in enumerate(walk.listed(values))], True
    ),
    "tuple": lambda walk, values=None: Seq(walk.listed(values) if values else []),
    "list": lambda walk, values=None: Seq(walk.listed(values) if values else [], True),
    "reversed": lambda walk, values: Seq(walk.listed(values)[::-1], True),
}


def call_math(walk: Any, name: str, target: Any, given: list[Any]) -> Any:
    """Return what a function of `math` gives."""

    def run(*numbers: Any) -> Num:
        if not all(isinstance(one, Num) for one in numbers):
            raise Untranslatable(f"math.{name} of something that is no number")
        if all(one.const is not VARIES for one in numbers):
            return literal(target(*(one.const for one in numbers)))
        texts = [walk.let("float", cast(one, _F8)).text for one in numbers]
        if name == "pow":
            exponent = numbers[1].const
            hidden = texts[1] if exponent is VARIES else walk.program.hidden_number(float(exponent))
            return walk.let("float", f"power({texts[0]}, {hidden})")
        if name in ("floor", "ceil"):
            return walk.let("int", f"whole(math.{name}({texts[0]}))")
        if name in ("isnan", "isfinite", "isinf"):
            return walk.let("bool", f"math.{name}({texts[0]})")
        if name in ("radians", "degrees"):
            factor = math.pi / 180.0 if name == "radians" else 180.0 / math.pi
            return walk.let("float", f"{texts[0]} * {factor!r}")
        if name not in _MATH:
            raise Untranslatable(f"math.{name}")
        return walk.let("float", f"finite(math.{name}({', '.join(texts)}))")

    def over(done: list[Num], rest: list[Any]) -> Any:
        if not rest:
            return run(*done)
        return walk.each(rest[0], lambda one: over([*done, one], rest[1:]))

    given = [
        walk.element(one, 0) if isinstance(one, Arr) and one.size == 1 else one for one in given
    ]
    return over([], given)
