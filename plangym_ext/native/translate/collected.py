"""Translation of indexing and slicing of arrays, lists and tables."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from plangym_ext.native.translate.arrays import Arrays, code
from plangym_ext.native.translate.values import (
    VARIES,
    Arr,
    Choice,
    Const,
    Info,
    Mixed,
    Num,
    Ragged,
    Seq,
    Untranslatable,
    kind_of,
    known,
    literal,
)


class Collections(Arrays):
    """Translation of parts and items."""

    # Subscripts -----------------------------------------------------------------

    def subscript(self, owner: Any, index: ast.expr, *, view: bool = False) -> Any:
        """Return an element or a part; with `view` an array even for an element."""
        if isinstance(owner, Mixed):
            return self.each(owner, lambda one: self.subscript(one, index, view=view))
        if isinstance(owner, Choice):
            chosen = self.chosen(owner)
            owner = chosen if isinstance(chosen, Arr) else owner
        if isinstance(owner, Arr):
            return self._array_part(owner, self._indices(index), view)
        if isinstance(index, ast.Slice):
            cut = self._slice(index)
            if isinstance(owner, Seq):
                return Seq(owner.items[cut], owner.is_list)
            return self.constant(self.static(owner)[cut])
        key = self.plain(self.eval(index))
        if isinstance(key, Num) and key.const is VARIES:
            return self._by_index(owner, key)
        if isinstance(key, Seq) and any(
            isinstance(one, Num) and one.const is VARIES for one in key.items
        ):
            for one in key.items:  # of an array of objects
                owner = self._by_index(owner, one)
            return owner
        place = self.static(key)
        if isinstance(owner, Choice):
            return Choice([one[place] for one in owner.options], owner.index)
        if isinstance(owner, Seq | Info):
            try:
                return owner.items[place]
            except (LookupError, TypeError):
                raise Untranslatable(f"there is nothing at {place!r}") from None
        return self.constant(self.static(owner)[place])

    def _indices(self, index: ast.expr) -> list[Any]:
        """Return the indices of an array: slices, expressions, or numbers of a tuple."""
        if isinstance(index, ast.Tuple):
            return list(index.elts)
        if isinstance(index, ast.Slice):
            return [index]
        key = self.plain(self.eval(index))
        if isinstance(key, Const) and isinstance(key.value, tuple):
            return self.listed(key)
        return list(key.items) if isinstance(key, Seq) and not key.is_list else [key]

    def _slice(self, node: ast.Slice) -> slice:
        parts = [
            None if n is None else self.static(self.eval(n))
            for n in (node.lower, node.upper, node.step)
        ]
        return slice(*parts)

    def _by_index(self, owner: Any, key: Num) -> Any:
        """Return one of several things, by an index that is only known as it runs."""
        if key.kind[0] not in "iub":
            raise Untranslatable("an index that is no integer")
        if isinstance(owner, Seq):
            array = self.as_array(owner)
            kinds = {one.kind for one in owner.items if isinstance(one, Num)}
            if array.shape != (len(owner.items),) or len(kinds) != 1:
                raise Untranslatable("an element of a list of different things")
            memory = self.memory(array)
            at = self.let("int", f"place({key.text}, {array.size})")
            return self.let(kinds.pop(), f"{memory.base}[{at.text}]")
        options = owner.options if isinstance(owner, Choice) else [self.static(owner)]
        listed = [_things(one) for one in options]
        longest = max(map(len, listed))
        flat = [
            one for things in listed for one in (*things, *things[-1:] * (longest - len(things)))
        ]
        if any(isinstance(one, dict) for one in options):  # nothing is found from the end there
            key = self.let("int", f"within({key.text}, 0, {longest - 1})")
        size = str(longest)
        if isinstance(owner, Choice):
            if len({*map(len, listed)}) > 1:
                size = self.chosen(Choice([len(one) for one in listed], owner.index)).text
            at = self.let("int", f"{owner.index} * {longest} + place({key.text}, {size})")
        else:
            at = self.let("int", f"place({key.text}, {size})")
        return Choice(flat, at.text)

    def chosen(self, choice: Choice) -> Any:
        """Return a choice of numbers or arrays as a value; other choices as they are."""
        first = choice.options[0]
        kinds = {kind_of(one) for one in choice.options}
        if all(one is first for one in choice.options) and not kind_of(first):
            return self.constant(first)
        if "" not in kinds:
            kind = kinds.pop() if len(kinds) == 1 else _common(kinds)
            table = np.array(choice.options, Num(kind, "").dtype)
            return self.let(kind, f"{self.program.table(table)}[{choice.index}]")
        if isinstance(first, np.ndarray) and first.dtype.kind in "biuf" and first.shape:
            if any(getattr(one, "shape", None) != first.shape for one in choice.options):
                return choice
            base = self.program.table(np.array(choice.options).reshape(-1))
            offset = self.let("int", f"{choice.index} * {first.size}")
            index = tuple(range(first.size))
            return Arr(code(first.dtype), first.shape, None, base, offset.text, index, "params")
        return choice

    def _array_part(self, array: Arr, nodes: list[Any], view: bool) -> Any:
        places = np.arange(array.size).reshape(array.shape)
        cuts: list[Any] = []
        moves: list[str] = []
        for axis, node in enumerate(nodes):
            if axis >= len(array.shape):
                raise Untranslatable("more indices than dimensions")
            if isinstance(node, ast.Slice):
                cuts.append(self._slice(node))
                continue
            key = self.plain(self.eval(node) if isinstance(node, ast.expr) else node)
            if not isinstance(key, Num) or key.kind[0] not in "iu":
                raise Untranslatable("an index that is no integer")
            if key.const is not VARIES:
                cuts.append(key.const)
                continue
            stride = int(np.prod(array.shape[axis + 1 :], dtype=int))
            moves.append(f"{stride} * place({key.text}, {array.shape[axis]})")
            cuts.append(0)
        try:
            places = np.asarray(places[tuple(cuts)])
        except IndexError as error:
            raise Untranslatable(str(error)) from None
        if moves:
            if array.items is not None or array.index != tuple(range(array.size)):
                array = self.memory(array)
            offset = self.let("int", " + ".join(moves)).text
            found = self.part(array, places, offset)
        else:
            found = self.part(array, places)
        return found if found.shape or view else self.element(found, 0)

    # Lists ----------------------------------------------------------------------

    def listed(self, value: Any) -> list[Any]:
        """Return the items of a collection whose length is known."""
        if isinstance(value, Seq):
            return list(value.items)
        if isinstance(value, Info):
            return [known(key) for key in value.items]
        if isinstance(value, Arr) and value.shape:
            places = np.arange(value.size).reshape(value.shape)
            parts = [self.part(value, places[k]) for k in range(value.shape[0])]
            return [one if one.shape else self.element(one, 0) for one in parts]
        if isinstance(value, Choice):
            value = self.chosen(value)
            if isinstance(value, Arr):
                return self.listed(value)
            sizes = {len(one) if isinstance(one, list | tuple) else -1 for one in value.options}
            if len(sizes) == 1 and sizes != {-1}:
                count = sizes.pop()
                columns = [[one[k] for one in value.options] for k in range(count)]
                return [self.plain(Choice(column, value.index)) for column in columns]
        if isinstance(value, Const) and isinstance(value.value, list | tuple | range | dict | set):
            return [self.constant(one) for one in value.value]
        raise Untranslatable("the items of something whose length is not known")

    def comprehension(self, node: Any, element: ast.expr) -> Any:
        """Return a list comprehension as a list."""
        if len(node.generators) != 1:
            raise Untranslatable("a comprehension of several loops")
        part = node.generators[0]
        bounds, before = self.range_of(part.iter), dict(self.vars)
        source = self.eval(part.iter) if bounds is None else Const(None)
        if isinstance(source, Choice) and len({len(one) for one in source.options}) > 1:
            return self._ragged(source, part, element)
        items = (
            self.listed(source)
            if bounds is None
            else [literal(k) for k in range(*(self.static(one) for one in bounds))]
        )
        found = []
        for one in items:
            self.assign(part.target, one)
            if all(self._holds(test) for test in part.ifs):
                value = self.plain(self.eval(element))
                found.append(
                    self.let(value.kind, value.text)
                    if isinstance(value, Num) and value.const is VARIES
                    else value
                )
        self._forget(before)
        return Seq(found, True)

    def _forget(self, before: dict[str, Any]) -> None:
        """Take up the variables from before a comprehension; what fields hold has changed."""
        self.vars = before | {k: v for k, v in self.vars.items() if k.startswith("self.")}

    def _holds(self, test: ast.expr) -> bool:
        found = self.truth(self.eval(test))
        if found.const is VARIES:
            raise Untranslatable("a list whose length depends on the state")
        return bool(found.const)

    def _ragged(self, source: Choice, part: ast.comprehension, element: ast.expr) -> Ragged:
        longest = max(len(one) for one in source.options)
        before, found = dict(self.vars), []
        for k in range(longest):
            column = [one[min(k, len(one) - 1)] for one in source.options]
            self.assign(part.target, Choice(column, source.index))
            found.append(self.plain(self.eval(element)))
        self._forget(before)
        if part.ifs or not all(isinstance(one, Num) for one in found):
            raise Untranslatable("a list of a changing length")
        return Ragged(found, self.chosen(Choice([len(o) for o in source.options], source.index)))

    def range_of(self, node: ast.expr) -> list[Num] | None:
        """Return the bounds of a `range(...)`; None for another expression."""
        if not isinstance(node, ast.Call) or self.eval(node.func) != Const(range):
            return None
        bounds = [self.plain(self.eval(one)) for one in node.args]
        if not all(isinstance(one, Num) and one.kind[0] in "iub" for one in bounds):
            raise Untranslatable("a range of these bounds")
        if len(bounds) == 1:
            bounds = [literal(0), *bounds]
        return bounds if len(bounds) == 3 else [*bounds, literal(1)]


def _things(value: Any) -> list[Any]:
    """Return the items of a list, array or dict by number."""
    if isinstance(value, dict):
        if sorted(value) != list(range(len(value))):
            raise Untranslatable("a dict whose keys are not 0, 1, 2, ...")
        return [value[k] for k in range(len(value))]
    if isinstance(value, list | tuple | str | np.ndarray) and len(value):
        return list(value)
    raise Untranslatable("an index into something that is no list or array")


def _common(kinds: set[str]) -> str:
    """Return the kind of a table of numbers of several kinds."""
    if kinds <= {"int", "i8"}:
        return "i?"
    if kinds <= {"int", "i8", "float", "f8"}:
        return "f?"
    raise Untranslatable("one of several numbers of different types")
