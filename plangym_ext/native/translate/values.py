"""Values in translated code: types, known constants, and source text for the rest."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np


class Untranslatable(Exception):
    """Refusal of what cannot be translated; the walk adds the place."""


class _Varies:
    def __repr__(self) -> str:
        return "varies"


VARIES: Any = _Varies()
#: Kinds of Python's own numbers; others are codes of numpy dtypes. "f?" and "i?" are numbers that
#: are Python's or numpy's by turns.
PYTHON = {"bool": bool, "int": int, "float": float}
_CODES = {"f?": "f8", "i?": "i8", "float": "f8", "int": "i8", "bool": "?"}
#: Owner of elements that are a view of another array; the second: in another order than its memory.
PART, LOOSE = "part", "part, loose"
#: Up to so many elements an array is held element by element.
SMALL = 64


@dataclass(frozen=True)
class Num:
    """A number: its kind, its text, and its value if that is known."""

    kind: str
    text: str
    const: Any = VARIES

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the values."""
        return np.dtype(_CODES.get(self.kind, self.kind))


@dataclass(frozen=True)
class Const:
    """An object that does not change: None, a text, a function, a module, a table."""

    value: Any


@dataclass(frozen=True)
class Method:
    """A function bound to the env, or a method of a value."""

    owner: Any
    function: Any


@dataclass(frozen=True)
class Me:
    """The env."""


@dataclass(frozen=True)
class Rng:
    """The env's generator."""


@dataclass
class Seq:
    """A tuple or list whose length is known."""

    items: list[Any]
    is_list: bool = False
    #: A list of the state: what changes it would change a copy.
    held: bool = False


@dataclass
class Info:
    """A dict with known keys."""

    items: dict[str, Any] = field(default_factory=dict)


@dataclass
class Arr:
    """An array of a known shape: its elements, or the flat memory that it is a view of."""

    kind: str
    shape: tuple[int, ...]
    items: list[Num] | None = None
    base: str = ""
    offset: str = ""
    index: tuple[int, ...] = ()
    #: The field of the state, or the constant, whose memory it is; `PART`: another array's.
    owner: str = ""

    @property
    def size(self) -> int:
        """Count of elements."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def order_is_loose(self) -> bool:
        """Whether its elements lie in memory in another order than in the array."""
        if self.items is not None:
            return self.owner == LOOSE
        return len(self.shape) > 1 and list(self.index) != sorted(self.index)


@dataclass
class Choice:
    """One of several known objects, by an index that is only known as it runs."""

    options: list[Any]
    index: str


@dataclass
class Ragged:
    """The first elements of a list, as many as `length` says."""

    items: list[Num]
    length: Num


@dataclass
class Mixed:
    """One of several kinds of values; `tag` says which."""

    options: list[Any]
    tag: str


def kind_of(value: Any) -> str:
    """Return the kind of a number; "" for another object."""
    if isinstance(value, np.generic) and value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        code = value.dtype.str[1:]
        return "bool" if code == "b1" else code
    return next((name for name, cls in PYTHON.items() if type(value) is cls), "")


def literal(value: Any) -> Num:
    """Return a known number."""
    kind = kind_of(value)
    if not kind:
        raise Untranslatable(f"a number of type {type(value).__name__}")
    if kind == "int" and not -(2**62) < value < 2**62:
        raise Untranslatable("an int beyond 62 bits")
    plain = value.item() if isinstance(value, np.generic) else value
    if kind[0] == "f" and not np.isfinite(plain):
        text = f"float({str(plain)!r})"
        text = {"inf": "np.inf", "-inf": "-np.inf"}.get(str(plain), "np.nan")
    else:
        text = repr(plain)
    num = Num(kind, text, value)
    return num if kind in ("bool", "int", "float", "f8") else Num(kind, cast(num, num.dtype), value)


def known(value: Any) -> Any:
    """Return a Python object as a value."""
    if kind_of(value):
        return literal(value)
    if isinstance(value, enum.IntEnum):
        return literal(int(value))
    return Const(value)


def cast(num: Num, dtype: np.dtype[Any]) -> str:
    """Return the text of a number as another type."""
    if dtype == np.bool_:
        return num.text if num.kind == "bool" else f"({num.text} != 0)"
    if dtype == num.dtype and num.const is VARIES:
        return num.text
    if dtype == np.float64 and num.kind in ("float", "f8"):
        return num.text
    text = num.text
    if dtype.kind in "iu":
        is_float = num.dtype.kind == "f"
        if is_float:  # a compiler may make anything of one that does not fit
            text = f"whole({text})"
        # numpy refuses Python's ints that do not fit.
        if dtype != np.int64 and (is_float or num.kind in ("int", "i?")):
            lowest, highest = int(np.iinfo(dtype).min), min(int(np.iinfo(dtype).max), 2**62)
            if num.const is VARIES or not lowest <= num.const <= highest:
                text = f"within({text}, {lowest}, {highest})"
    return f"np.{dtype.name}({text})"


def parts_in(value: Any) -> Iterator[Any]:
    """Yield a value, and the values that it is made of."""
    yield value
    if isinstance(value, Seq | Info | Mixed):
        items = value.options if isinstance(value, Mixed) else value.items
        for one in items.values() if isinstance(items, dict) else items:
            yield from parts_in(one)


def mark_named(value: Any) -> None:
    """Note that arrays and lists have another name: they may not be changed in place."""
    for one in parts_in(value):
        if isinstance(one, Arr):
            one.owner = one.owner or PART
        elif isinstance(one, Seq):
            one.held = True


# Shapes: what two values must share to be one variable ----------------------------


def form(value: Any) -> Any:
    """Return the form of a value, hashable: the same source text fits all values of a form."""
    if isinstance(value, Num):
        return ("num", value.kind)
    if isinstance(value, Seq):
        return ("seq", value.is_list, tuple(map(form, value.items)))
    if isinstance(value, Info):
        return ("info", tuple((key, form(one)) for key, one in value.items.items()))
    if isinstance(value, Arr):
        if value.items is None and (value.size > SMALL or (value.owner and not value.offset)):
            where = (value.base, value.offset, value.index, value.owner)
            return ("view", value.kind, value.shape, *where)
        return ("arr", value.kind, value.shape)
    if isinstance(value, Mixed):
        return ("mixed", tuple(map(form, value.options)))
    if isinstance(value, Const):
        return ("const", Same(value.value))
    if isinstance(value, Choice):
        return ("choice", tuple(map(Same, value.options)))
    return ("one", value)


@dataclass(frozen=True, eq=False)
class Same:
    """An object, equal to itself and to equal texts and numbers."""

    value: Any

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Same):
            return False
        a, b = self.value, other.value
        return a is b or (type(a) is type(b) and isinstance(a, str | int | float) and a == b)

    def __hash__(self) -> int:
        return hash(self.value if isinstance(self.value, str | int | float) else id(self.value))


def joined(a: Any, b: Any) -> Any:
    """Return the form that holds values of two forms."""
    both = _same_kind(a, b)
    if both is not None:
        return both
    options: list[Any] = []
    for one in (*_options(a), *_options(b)):
        for k, other in enumerate(options):
            both = _same_kind(one, other)
            if both is not None:
                options[k] = both
                break
        else:
            options.append(one)
    return options[0] if len(options) == 1 else ("mixed", tuple(options))


def _same_kind(a: Any, b: Any) -> Any:
    """Return the common form of two that differ only in kinds of numbers; None for others."""
    if a == b:
        return a
    if a[0] != b[0] or a[0] not in ("num", "seq", "info"):
        return None
    if a[0] == "num":
        kind = _joined_kinds(a[1], b[1])
        return ("num", kind) if kind else None
    if a[0] == "seq":
        if a[1] == b[1] and len(a[2]) == len(b[2]):
            return ("seq", a[1], tuple(map(joined, a[2], b[2])))
    elif [key for key, _ in a[1]] == [key for key, _ in b[1]]:
        return ("info", tuple((k, joined(x, y)) for (k, x), (_, y) in zip(a[1], b[1], strict=True)))
    return None


def _options(one: Any) -> tuple[Any, ...]:
    return one[1] if one[0] == "mixed" else (one,)


def _joined_kinds(a: str, b: str) -> str:
    pair = {a, b}
    if len(pair) == 1:
        return a
    if pair <= {"float", "f8", "f?"}:
        return "f?"
    return "i?" if pair <= {"int", "i8", "i?"} else ""


def built(one: Any, name: str) -> Any:
    """Return the value of a form whose parts are variables that begin with `name`."""
    tag, *rest = one
    if tag == "num":
        return Num(rest[0], name)
    if tag == "seq":
        return Seq([built(part, f"{name}_{k}") for k, part in enumerate(rest[1])], rest[0])
    if tag == "info":
        return Info({key: built(part, f"{name}_{k}") for k, (key, part) in enumerate(rest[0])})
    if tag == "arr":
        kind, shape = rest
        size = int(np.prod(shape, dtype=int))
        if size > SMALL:
            return Arr(kind, shape, None, name, "", tuple(range(size)))
        return Arr(kind, shape, [Num(kind, f"{name}_{k}") for k in range(size)])
    if tag == "view":
        return Arr(rest[0], rest[1], None, *rest[2:])
    if tag == "mixed":
        return Mixed([built(part, f"{name}_m{k}") for k, part in enumerate(rest[0])], f"{name}_t")
    if tag == "const":
        return Const(rest[0].value)
    if tag == "choice":
        return Choice([same.value for same in rest[0]], name)
    return rest[0]


def leaves(one: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield the variables of a form, and their numpy kinds; memory has the kind "array"."""
    value = built(one, name)
    yield from _leaves(value)


def _leaves(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Num):
        yield value.text, value.kind
    elif isinstance(value, Choice):
        yield value.index, "int"
    elif isinstance(value, Mixed):
        yield value.tag, "int"
        for part in value.options:
            yield from _leaves(part)
    elif isinstance(value, Seq | Info):
        for part in value.items.values() if isinstance(value, Info) else value.items:
            yield from _leaves(part)
    elif isinstance(value, Arr):
        if value.items is None:
            yield value.base, "array"
            if value.offset:
                yield value.offset, "int"
        for part in value.items or ():
            yield from _leaves(part)


replace = dataclasses.replace
