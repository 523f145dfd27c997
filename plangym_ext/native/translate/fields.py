"""Translation of an env's attributes: fields of a record, constants as arrays."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from plangym_ext.native.translate.arrays import code
from plangym_ext.native.translate.record import Record, form_of, record_leaves
from plangym_ext.native.translate.values import (
    LOOSE,
    PART,
    Arr,
    Const,
    Info,
    Mixed,
    Num,
    Same,
    Seq,
    Untranslatable,
    cast,
    joined,
    parts_in,
)

_FLOATS = {"float", "f8", "f?"}
#: A field may hold so many kinds of values by turns.
_MOST = 6


class Fields(Record):
    """Attributes of an env, in its translation.

    Attributes:
        fields: attributes that change, each with the forms that it takes by turns.
        inplace: those whose arrays are changed in place.
        changed: whether a pass has found out more, so that another one is needed.
        draws: whether there is a generator in the state.
        obs: dtype and shape of observations.
    """

    reset_info: dict[str, Any] | None
    effects: list[set[str]]

    def __init__(self, env: Any) -> None:
        self.env = env
        self.fields: dict[str, list[Any]] = {}
        self.inplace: set[str] = set()
        self.changed, self.draws = False, True
        self.obs: tuple[Any, tuple[int, ...]] = (np.dtype("f8"), (1,))

    def begin_pass(self) -> None:
        """Forget constants; what fields are is kept."""
        self.changed = False
        self._hidden: list[float] = []
        self._loops: list[int] = []
        self._tables: dict[Any, tuple[int, np.ndarray]] = {}
        self._labels: dict[str, tuple[str, np.ndarray]] = {}

    # Constants --------------------------------------------------------------------

    def arrays(self) -> tuple[np.ndarray, ...]:
        """Return the constants, as `params`."""
        numbers = np.array(self._hidden or [0.0])
        loops = np.array(self._loops or [0], np.uint64)
        return (numbers, loops, *(array for _, array in self._tables.values()))

    def hidden_number(self, value: float) -> str:
        """Return the text of a number that the compiler does not know: as an exponent, say."""
        if value not in self._hidden:
            self._hidden.append(value)
        return f"params[0][{self._hidden.index(value)}]"

    def loop_text(self, found: tuple[int, int]) -> str:
        """Return the text of the addresses of a C loop."""
        pairs = list(zip(self._loops[::2], self._loops[1::2], strict=True))
        if found not in pairs:
            pairs.append(found)
            self._loops += found
        at = 2 * pairs.index(found)
        return f"(params[1][{at}], params[1][{at + 1}])"

    def table(self, values: np.ndarray) -> str:
        """Return the text of a vector of constants."""
        flat = np.ascontiguousarray(values).reshape(-1).copy()
        key = (flat.dtype.str, flat.tobytes())
        place, _ = self._tables.setdefault(key, (len(self._tables) + 2, flat))
        return f"params[{place}]"

    def constant_array(self, value: np.ndarray, label: str) -> Arr:
        """Return an array that does not change."""
        base = self.table(value)
        owner = f"params:{label}"
        self._labels[owner] = (label, value)
        self._labels[base] = (label, value)
        return Arr(code(value.dtype), value.shape, None, base, "", tuple(range(value.size)), owner)

    def known_element(self, array: Arr, k: int) -> Any:
        """Return an element of a constant array; None for another one."""
        if array.items is None and array.owner.startswith("params:") and not array.offset:
            return self._labels[array.base][1].reshape(-1)[array.index[k]]
        return None

    def make_field(self, array: Arr) -> None:
        """Make a field of an array of the env, as it is changed in place."""
        label = array.owner.partition(":")[2]
        if not label:
            raise Untranslatable("it changes an array that is not the env's own")
        self._add(label)
        self.change_in_place(label)

    def change_in_place(self, name: str) -> None:
        """Note that a field's array is changed in place."""
        if name not in vars(self.env) and hasattr(self.env, name):
            raise Untranslatable(f"{name} is an array of the class, which all its envs change")
        if name not in self.inplace:
            self.inplace.add(name)
            self.changed = True

    # Fields -----------------------------------------------------------------------

    def _add(self, name: str) -> None:
        if name in self.fields:
            return
        self.fields[name] = []
        self.changed = True
        if hasattr(self.env, name):
            self._option(name, form_of(getattr(self.env, name), name))

    def _option(self, name: str, wanted: Any) -> int:
        """Return which of a field's forms a value has; a new one is noted."""
        options = self.fields[name]
        for k, one in enumerate(options):
            both = joined(one, wanted) if one[0] == wanted[0] else ("mixed",)
            if both[0] != "mixed" and not _holds(both, "mixed"):
                if both != one:
                    options[k], self.changed = both, True
                return k
        if len(options) >= _MOST:
            raise Untranslatable(f"the attribute {name} holds ever other kinds of values")
        options.append(wanted)
        self.changed = True
        return len(options) - 1

    def split_fields(self) -> list[tuple[str, int]]:
        """Return the fields whose numbers are of several types, and how many; not too many."""
        found = [
            (name, len(options))
            for name, options in self.fields.items()
            if sum(one[0] != "const" for one in options) > 1
        ]
        return found if np.prod([count for _, count in found], dtype=int) <= 8 else []

    def store(self, walk: Any, name: str, value: Any) -> None:
        """Write `self.name = value`."""
        self._add(name)
        # Their code may keep the value in one place for all envs, or a count of what it is asked.
        cls: Any = type(self.env)
        found = inspect.getattr_static(cls, name, None)
        if cls.__setattr__ is not object.__setattr__ or (
            inspect.isdatadescriptor(found) and not inspect.ismemberdescriptor(found)
        ):
            raise Untranslatable("an attribute that is a property, or whose class has code for it")
        value = walk.plain(value)
        self.effects[-1].add(name)
        self.check_alone(walk, name)
        for one in parts_in(value):
            if isinstance(one, Arr):
                self._check_one_place(walk, name, one, whole=one is value)
        if isinstance(value, Arr) and value.items is None and value.owner not in ("", name):
            value = self._apart(walk, name, value)
        self._spread(walk, value, lambda one: self._store(walk, name, one))

    @staticmethod
    def check_alone(walk: Any, name: str) -> None:
        """Refuse a new array of a field while a variable refers to the one that it had."""
        for value in walk.vars.values():
            if any(isinstance(one, Arr) and one.owner == name for one in parts_in(value)):
                raise Untranslatable(f"another name still refers to the array of {name}")

    def _check_one_place(self, walk: Any, name: str, array: Arr, *, whole: bool) -> None:
        """Refuse an array that is a part of two fields, of which one is changed in place."""
        others = {other for one, other in walk.kept if one is array} - {name}
        if not whole or array.owner in (PART, LOOSE):
            others |= {array.owner}
        if others and ({name} | others) & self.inplace:
            raise Untranslatable("one array under two names, of which one is changed in place")
        walk.kept.append((array, name))

    def _spread(self, walk: Any, value: Any, function: Any) -> None:
        """Call a function with each kind of value that a value may be, its parts included."""
        value = walk.plain(value)
        if isinstance(value, Mixed):
            numbers = [one for one in value.options if isinstance(one, Num)]
            kinds = {one.kind for one in numbers}
            if len(numbers) < len(value.options) or not kinds <= _FLOATS | {"int"}:
                walk.each(value, lambda one: self._spread(walk, one, function))
                return
            # 0 or 0.0 is one number to arithmetic.
            value = walk.each(value, lambda one: Num("f?", walk.changed(one, "f8").text))
        if isinstance(value, Seq):
            for k, one in enumerate(value.items):
                part = walk.plain(one)
                if (isinstance(part, Mixed | Seq) and part is not one) or isinstance(part, Mixed):
                    before, after = value.items[:k], value.items[k + 1 :]

                    def inner(x: Any, before: Any = before, after: Any = after) -> None:
                        self._spread(walk, Seq([*before, x, *after], value.is_list), function)

                    self._spread(walk, part, inner)
                    return
        function(value)

    def _apart(self, walk: Any, name: str, value: Arr) -> Arr:
        """Return an array for a field; refuse one that is changed in place under another name."""
        if value.owner == "·":
            for key, other in walk.vars.items():
                if isinstance(other, Arr) and other.base == value.base:
                    walk.vars[key] = Arr(
                        other.kind, other.shape, None, f'state["{name}"]', "", other.index, "stored"
                    )
            return value
        if not {name, value.owner} & self.inplace:
            return value
        raise Untranslatable("one array under two names, of which one is changed in place")

    def _store(self, walk: Any, name: str, value: Any) -> Any:
        if isinstance(value, Seq) and value.is_list:
            value.held = True
        wanted = stored_form(walk, value)
        k = self._option(name, wanted)
        options = self.fields[name]
        self._write(walk, value, options[k], f"{name}.{k}")
        if len(options) > 1:
            walk.emit(f'state["{name}.tag"] = {k}')
            for other, one in enumerate(options):
                if other != k:
                    for leaf, _, count in record_leaves(one, f"{name}.{other}"):
                        walk.emit(f'state["{leaf}"]{"[:]" * (count is not None)} = 0')
        walk.vars[f"self.{name}"] = frozenset({k})
        return None

    def _write(self, walk: Any, value: Any, one: Any, place: str) -> None:
        value = walk.plain(value)
        if one[0] == "num":
            walk.emit(f'state["{place}"] = {cast(value, Num(one[1], "").dtype)}')
        elif one[0] == "seq":
            parts = walk.listed(value)
            for k, (part, inner) in enumerate(zip(parts, one[2], strict=True)):
                self._write(walk, part, inner, f"{place}.{k}")
        elif one[0] == "arr":
            array = value if isinstance(value, Arr) else walk.as_array(value)
            base = f'state["{place}"]'
            if array.base != base or array.index != tuple(range(array.size)):
                walk.fill(Arr(one[1], one[2], None, base, "", tuple(range(array.size))), array)

    def read(self, walk: Any, name: str) -> Any:
        """Return the value of a field."""
        possible = sorted(walk.vars.get(f"self.{name}", frozenset()))
        if not possible:
            if self.changed and not self.fields[name]:
                raise Untranslatable(f"{name} has no value yet")
            possible = list(range(len(self.fields[name])))
        values = [self._read(walk, name, self.fields[name][k], f"{name}.{k}") for k in possible]
        if len(values) == 1:
            return values[0]
        tag = str(len(possible) - 1)
        for at, k in reversed(list(enumerate(possible[:-1]))):
            tag = f'({at} if state["{name}.tag"] == {k} else {tag})'
        return Mixed(values, walk.let("int", tag).text)

    def _read(self, walk: Any, name: str, one: Any, place: str) -> Any:
        if one[0] == "num":
            text = f'state["{place}"]'
            return walk.let(one[1], f"{text} != 0" if one[1] == "bool" else text)
        if one[0] == "seq":
            parts = [self._read(walk, name, x, f"{place}.{k}") for k, x in enumerate(one[2])]
            found = Seq(parts, one[1])
            found.held = True
            return found
        if one[0] == "arr":
            size = int(np.prod(one[2], dtype=int))
            return Arr(one[1], one[2], None, f'state["{place}"]', "", tuple(range(size)), name)
        return Const(one[1].value)

    def zeros(self, one: Any, name: str) -> list[tuple[str, str]]:
        """Return values for variables that are not used."""
        from plangym_ext.native.translate.values import leaves

        found = []
        for leaf, kind in leaves(one, name):
            if kind == "array":
                if leaf.startswith(name):
                    raise Untranslatable("a large array, or none, by turns")
                continue
            dtype = Num(kind, "").dtype
            found.append((leaf, "False" if kind == "bool" else f"np.{dtype.name}(0)"))
        return found


def stored_form(walk: Any, value: Any) -> Any:
    """Return the form in which a value is a part of the state."""
    value = walk.plain(value)
    if isinstance(value, Num):
        return ("num", value.kind)
    if isinstance(value, Arr):
        return ("arr", value.kind, value.shape)
    if isinstance(value, Seq):
        return ("seq", value.is_list, tuple(stored_form(walk, one) for one in value.items))
    if isinstance(value, Const) and (value.value is None or isinstance(value.value, str)):
        return ("const", Same(value.value))
    if isinstance(value, Info):
        raise Untranslatable("a dict as a part of the state")
    if isinstance(value, Const) and isinstance(value.value, list | tuple):
        return form_of(value.value, "")
    raise Untranslatable("an object that is no number, array or tuple as a part of the state")


def _holds(one: Any, tag: str) -> bool:
    return isinstance(one, tuple) and (one[:1] == (tag,) or any(_holds(part, tag) for part in one))
