"""Draws of the env's generator, as numpy draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from plangym_ext.native.translate.values import (
    Arr,
    Const,
    Num,
    Ragged,
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
    return _between(walk, first, last, size, "pcg64.uniform")


def _between(walk: Any, first: Any, second: Any, size: Any, function: str) -> Any:
    """Return draws that two numbers or arrays say the place and the width of."""

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


def _standard_normal(walk: Any, size: Any = None) -> Any:
    return _draws(walk, size, lambda _: walk.let("float", 'standard_normal(state["rng"])'))


DRAWS: dict[str, Callable[..., Any]] = {
    "random": _random,
    "uniform": _uniform,
    "integers": _integers,
    "choice": _choice,
    "normal": _normal,
    "standard_normal": _standard_normal,
}


def categorical_draw(walk: Any, weights: Any) -> Any:
    """Return a draw of gymnasium's `categorical_sample`."""
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
