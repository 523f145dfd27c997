"""Translation of arrays of known shapes: element access, elementwise operations."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from plangym_ext.native.translate.values import (
    LOOSE,
    PART,
    SMALL,
    VARIES,
    Arr,
    Choice,
    Const,
    Mixed,
    Num,
    Seq,
    Untranslatable,
    cast,
    literal,
)


class Arrays:
    """Translation of collections."""

    program: Any
    node: ast.AST
    vars: dict[str, Any]
    emit: Callable[[str], None]
    let: Callable[[str, str], Num]
    fresh: Callable[[], str]
    aside: Callable[[], contextlib.AbstractContextManager[list[str]]]
    eval: Callable[[ast.expr], Any]
    static: Callable[[Any], Any]
    truth: Callable[[Any], Num]
    each: Callable[..., Any]
    assign: Callable[[ast.expr, Any], None]
    constant: Callable[[Any], Any]
    lines: list[str]
    chosen: Callable[[Choice], Any]

    def plain(self, value: Any) -> Any:
        """Return a value; a choice of numbers or arrays as what was chosen."""
        return self.chosen(value) if isinstance(value, Choice) else value

    def element(self, array: Arr, k: int) -> Num:
        """Return an element of an array, by its place in C order."""
        if array.items is not None:
            return array.items[k]
        place = f"{array.offset} + {array.index[k]}" if array.offset else str(array.index[k])
        known_value = self.program.known_element(array, k)
        if known_value is not None:
            return literal(known_value)
        return self.let(array.kind, f"{array.base}[{place}]")

    def memory(self, array: Arr, *, copy: bool = False) -> Arr:
        """Return an array whose elements lie in memory in C order."""
        whole = tuple(range(array.size))
        if array.items is None and array.index == whole and not array.offset and not copy:
            return array
        name = f"m{self.fresh()}"
        self.emit(f"{name} = np.empty({array.size}, np.{_memory_type(array.kind)})")
        found = Arr(array.kind, array.shape, None, name, "", whole)
        self.fill(found, array)
        return found

    def fill(self, target: Arr, value: Any) -> None:
        """Write a number or an array to the memory of an array."""
        source = self.as_array(value)
        shown = np.broadcast_to(np.arange(source.size).reshape(source.shape), target.shape)
        places, dtype = shown.reshape(-1).tolist(), Num(target.kind, "").dtype
        head = f"{target.offset} + " if target.offset else ""
        if target.size <= SMALL:
            texts = [cast(self.element(source, k), dtype) for k in places]
            for place, text in zip(target.index, texts, strict=True):
                self.emit(f"{target.base}[{head}{place}] = {text}")
            return
        counter = self.fresh()
        self.emit(f"for {counter} in range({target.size}):")
        with self.aside() as lines:
            one = self._running(source, counter) if source.size > 1 else self.element(source, 0)
            at = self._running_place(target, counter)
            self.emit(f"{target.base}[{at}] = {cast(one, dtype)}")
        self.lines += lines

    def _running(self, array: Arr, counter: str) -> Num:
        """Return the element at a place that is only known as it runs."""
        if array.items is not None:
            raise Untranslatable("arrays of different shapes, of more than 64 elements")
        return self.let(array.kind, f"{array.base}[{self._running_place(array, counter)}]")

    @staticmethod
    def _running_place(array: Arr, counter: str) -> str:
        first = array.index[0]
        if array.index != tuple(range(first, first + array.size)):
            raise Untranslatable("a part of an array that is not contiguous")
        return " + ".join([*([array.offset] if array.offset else []), str(first), counter])

    def as_array(self, value: Any) -> Arr:
        """Return a value as numpy makes an array of it; a Python number keeps its kind."""
        value = self.plain(value)
        if isinstance(value, Arr):
            return value
        if isinstance(value, Num):
            return Arr(value.kind, (), [value])
        if isinstance(value, Const) and isinstance(value.value, list | tuple):
            value = Seq([self.constant(one) for one in value.value])
        if isinstance(value, Seq):
            return self.stacked(value.items, None)
        raise Untranslatable("no array of numbers can be made of it")

    def stacked(self, parts: list[Any], dtype: np.dtype[Any] | None) -> Arr:
        """Return `np.array(parts, dtype)`."""
        for k, one in enumerate(parts):
            if isinstance(one, Mixed):
                return self._stacked_mixed(parts[:k], one, parts[k + 1 :], dtype)
        arrays = [self.as_array(one) for one in parts]
        if any(one.shape != arrays[0].shape for one in arrays):
            raise Untranslatable("an array of parts of different shapes")
        dtypes = [Num(one.kind, "").dtype for one in arrays]
        common = dtype or (np.result_type(*dtypes) if dtypes else np.dtype("f8"))
        kind = code(common)
        items = [self.changed(self.element(a, k), kind) for a in arrays for k in range(a.size)]
        return Arr(kind, (len(arrays), *(arrays[0].shape if arrays else ())), items)

    def _stacked_mixed(
        self, before: list[Any], one: Mixed, after: list[Any], dtype: np.dtype[Any] | None
    ) -> Arr:
        """Return the array for each kind of values that a part may have."""
        if dtype is not None and all(isinstance(part, Num) for part in one.options):
            part = self.each(one, lambda part: self.changed(part, code(dtype)))
            return self.stacked([*before, part, *after], dtype)
        return self.each(one, lambda part: self.stacked([*before, part, *after], dtype))

    def sizes(self, value: Any) -> tuple[int, ...]:
        """Return a known shape."""
        found = self.static(value)
        return (int(found),) if np.ndim(found) == 0 else tuple(map(int, found))

    def changed(self, one: Num, kind: str) -> Num:
        """Return a number as another kind."""
        if one.kind == kind:
            return one
        if one.const is not VARIES:
            return literal(Num(kind, "").dtype.type(one.const))
        text = cast(one, Num(kind, "").dtype)
        return Num(kind, text) if text == one.text else self.let(kind, text)

    def mapped(self, function: Callable[..., Num], *arrays: Arr) -> Any:
        """Return what a function of elements gives for arrays that are broadcast."""
        shape = np.broadcast_shapes(*(one.shape for one in arrays))
        size = int(np.prod(shape, dtype=int))
        places = [
            np.broadcast_to(np.arange(one.size).reshape(one.shape), shape).reshape(-1).tolist()
            for one in arrays
        ]
        if size <= SMALL:
            items = [
                function(*(self.element(a, p[k]) for a, p in zip(arrays, places, strict=True)))
                for k in range(size)
            ]
            return Arr(items[0].kind, shape, items) if shape else items[0]
        name, counter = f"m{self.fresh()}", self.fresh()
        with self.aside() as lines:
            given = [
                self._running(a, counter) if a.size > 1 else self.element(a, 0) for a in arrays
            ]
            if any(a.size > 1 and a.shape != shape for a in arrays):
                raise Untranslatable("arrays of different shapes, of more than 64 elements")
            found = function(*given)
            self.emit(f"{name}[{counter}] = {found.text}")
        self.emit(f"{name} = np.empty({size}, np.{_memory_type(found.kind)})")
        self.emit(f"for {counter} in range({size}):")
        self.lines += lines
        return Arr(found.kind, shape, None, name, "", tuple(range(size)))

    def transposed(self, array: Arr) -> Arr:
        """Return `array.T`."""
        return self.part(array, np.arange(array.size).reshape(array.shape).T)

    def part(self, array: Arr, places: Any, offset: str = "") -> Arr:
        """Return the elements at places, an array of places in C order."""
        flat = places.reshape(-1).tolist()
        if array.items is not None:
            loose = array.order_is_loose or (places.ndim > 1 and flat != sorted(flat))
            items = [array.items[k] for k in flat]
            return Arr(array.kind, places.shape, items, owner=LOOSE if loose else PART)
        index = tuple(array.index[k] for k in flat)
        head = " + ".join(one for one in (array.offset, offset) if one)
        return Arr(array.kind, places.shape, None, array.base, head, index, array.owner)


def code(dtype: np.dtype[Any]) -> str:
    """Return the kind of a dtype."""
    if dtype.kind not in "biuf" or dtype.itemsize > 8 or dtype == np.float16:
        raise Untranslatable(f"numbers of {dtype}")
    return "bool" if dtype == np.bool_ else dtype.str[1:]


def _memory_type(kind: str) -> str:
    name = Num(kind, "").dtype.name
    return "bool_" if name == "bool" else name
