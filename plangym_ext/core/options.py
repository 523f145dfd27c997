"""Declared options: the type, bounds and names of each field of a dataclass.

A field says what it takes in its annotation, such as `wave_size: Count = 8` or
`loss: Annotated[str, OneOf(LOSSES)] = "huber"`. `CheckedOptions` checks all of them when an object
is made. A subclass that changes a default alone, with a plain annotation, keeps the bounds.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import sys
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from plangym_ext.core.inherited_options import InheritedOptions, parameters_of
from plangym_ext.errors import InvalidOption, UnknownOption, suggestion


class Range(NamedTuple):
    """The bounds of a number; of a tuple, those of each element belong to its element type.

    Attributes:
        low: least value.
        high: largest value.
        above: whether `low` itself is refused.
        advice: sentence that ends the message.
    """

    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    advice: str = ""


class OneOf(NamedTuple):
    """The names that a text may be.

    Attributes:
        names: all of them.
        own: whether "module:Class" of a user's class is allowed as well.
    """

    names: Iterable[str]
    own: bool = False


class Function(NamedTuple):
    """The description of a function, such as "a function of states", for messages."""

    what: str = "a function of observations"


#: An integer from 1 on, and one from 0 on.
Count = Annotated[int, Range(1)]
Whole = Annotated[int, Range(0)]
#: Finite numbers: any; from 0 on; above 0; in [0, 1].
Finite = Annotated[float, Range()]
Weight = Annotated[float, Range(0.0)]
Positive = Annotated[float, Range(0.0, above=True)]
Share = Annotated[float, Range(0.0, 1.0)]


class Declared(NamedTuple):
    """The declaration of a field: its types and rules.

    Attributes:
        kinds: types, without None; those of a union in its order.
        optional: whether None is taken.
        rules: `Range`, `OneOf` and `Function` of the annotation.
    """

    kinds: tuple[Any, ...]
    optional: bool
    rules: tuple[Any, ...]

    def rule(self, kind: type[Any]) -> Any:
        """Return the rule of a class, or None."""
        return next((one for one in self.rules if isinstance(one, kind)), None)

    @property
    def text(self) -> str:
        """The annotation without rules, for signatures; empty if it has more than plain types."""
        names = [_type_name(kind) for kind in self.kinds] + ["None"] * self.optional
        return " | ".join(names) if all(names) else ""


def _type_name(kind: Any) -> str:
    if typing.get_origin(kind) is tuple:
        return f"tuple[{declaration(typing.get_args(kind)[0]).text}, ...]"
    return kind.__name__ if isinstance(kind, type) else ""


class _Signature:
    """The signature of a class with plain types, read off its constructors when asked for."""

    def __get__(self, instance: Any, owner: type[Any]) -> inspect.Signature:
        known = declarations(owner) if dataclasses.is_dataclass(owner) else {}
        texts = {name: declared.text for name, declared in known.items()}
        return inspect.Signature(
            [
                one.replace(annotation=texts.get(name) or one.annotation)
                for name, one in parameters_of(owner).items()
            ]
        )


class CheckedOptions(InheritedOptions):
    """Abstract; a dataclass whose fields are checked by their annotations.

    NumPy's numbers become Python's, and sequences tuples, so that equal options are equal and are
    saved alike.

    Raises:
        InvalidOption: a value is of another type, or out of bounds.
        UnknownOption: there is no such option.
    """

    __signature__ = _Signature()
    #: Beginning of an option's name in messages; empty: the class and a colon.
    _called: ClassVar[str] = ""
    #: Error for a text that is none of the names.
    _unknown: ClassVar[type[Exception]] = InvalidOption

    def __new__(cls, *_args: Any, **options: Any) -> Self:
        """Refuse options that there are not, before the constructor is called."""
        known = parameters_of(cls)
        for name in options:
            if name not in known:
                raise UnknownOption(
                    f"{cls.__name__}: there is no option {name!r}{suggestion(name, known)}"
                )
        return super().__new__(cls)

    def __post_init__(self) -> None:
        cls: Any = type(self)
        for name, declared in declarations(cls).items():
            value = getattr(self, name)
            taken = checked(self._option(name), value, declared, self._unknown)
            if taken is not value:
                # Configurations are frozen for their users.
                object.__setattr__(self, name, taken)

    def _option(self, name: str) -> str:
        """Return how messages name an option."""
        return f"{self._called or f'{type(self).__name__}: '}{name}"

    def _narrow(self, name: str, low: float, high: float) -> None:
        """Check an option against narrower bounds, which depend on other options."""
        cls: Any = type(self)
        declared = declarations(cls)[name]._replace(rules=(Range(low, high),))
        taken = checked(self._option(name), getattr(self, name), declared, self._unknown)
        object.__setattr__(self, name, taken)


@functools.cache
def declarations(cls: type[Any]) -> dict[str, Declared]:
    """Return the declarations of a dataclass's fields, by name."""
    # The annotation of each field, and the same without rules.
    found: dict[str, tuple[Any, Any]] = {}
    names = {field.name for field in dataclasses.fields(cls) if field.init}
    for base in reversed(cls.__mro__):
        for name, annotation in inspect.get_annotations(base).items():
            if name not in names:
                continue
            try:
                hint = _evaluated(annotation, base.__module__, rules=True)
                plain = _evaluated(annotation, base.__module__, rules=False)
            except NameError:  # of a class in a function, whose annotations cannot be looked up
                continue
            # A subclass that changes the default alone need not repeat the rules.
            if hint != plain or name not in found or found[name][1] != plain:
                found[name] = hint, plain
    return {name: declaration(hint) for name, (hint, _) in found.items()}


def _evaluated(annotation: Any, module: str, *, rules: bool) -> Any:
    # One at a time: `get_type_hints` of a class gives up all if one cannot be looked up.
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    space = vars(sys.modules[module]) if module in sys.modules else {}
    return typing.get_type_hints(holder, space, include_extras=rules)["it"]


def declared_by(annotation: Any, module: str) -> Declared:
    """Return the declaration of an annotation or of its text; empty if a name is unknown."""
    try:
        return declaration(_evaluated(annotation, module, rules=True))
    except NameError:
        return Declared((), False, ())


def declaration(hint: Any) -> Declared:
    """Return the declaration of an annotation."""
    if typing.get_origin(hint) is Annotated:
        inner, *rules = typing.get_args(hint)
        found = declaration(inner)
        return found._replace(rules=(*rules, *found.rules))
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        parts = [declaration(one) for one in typing.get_args(hint)]
        return Declared(
            tuple(kind for part in parts for kind in part.kinds),
            any(part.optional for part in parts),
            tuple(rule for part in parts for rule in part.rules),
        )
    return Declared((), True, ()) if hint is type(None) else Declared((hint,), False, ())


def checked(where: str, value: Any, declared: Declared, unknown: type[Exception]) -> Any:
    """Return a value converted to its declared type.

    Args:
        where: name of the option, which begins messages.
        value: what was given.
        declared: what the option takes. Types that are no plain ones, functions, tuples or
            dataclasses are not looked at.
        unknown: error for a text that is none of the names.

    Raises:
        InvalidOption: it is of another type, or out of bounds.
    """
    if value is None and declared.optional:
        return None
    if one_of := declared.rule(OneOf):
        return _name(where, value, one_of, unknown)
    bounds = declared.rule(Range) or _ANY
    for kind in declared.kinds[1:]:
        # What stands for a number, such as a schedule, holds its values to the bounds itself.
        if isinstance(kind, type) and kind not in _CHECKS and isinstance(value, kind):
            held = getattr(value, "held_to", None)
            return held(where, bounds.low, bounds.high) if held else value
    kind = declared.kinds[0]
    if check := _CHECKS.get(kind):
        try:
            return check(where, value, bounds)
        except InvalidOption as error:
            if not bounds.advice:
                raise
            raise InvalidOption(f"{error} {bounds.advice}") from None
    if typing.get_origin(kind) in (tuple, Sequence):
        return _tuple(where, value, declaration(typing.get_args(kind)[0]), unknown)
    if typing.get_origin(kind) is Callable:
        _check_function(where, value, declared)
    elif dataclasses.is_dataclass(kind) and not isinstance(value, typing.cast(type, kind)):
        called = getattr(kind, "__name__", "")
        article = "an" if called[:1] in "AEIOU" else "a"
        raise InvalidOption(
            f"{where} must be {article} {called}, such as {called}(); got {value!r:.200}."
        )
    return value


def parsed(text: str, kind: type[Any]) -> Any:
    """Return the bool, int, float or str that a typed text means; None if it means none."""
    if kind is bool:
        # `bool` would take every text for True that is not empty.
        return {"true": True, "false": False}.get(text.lower())
    try:
        return kind(text)
    except ValueError:
        return _whole(text) if kind is int else None


def _whole(text: str) -> int | None:
    """Return the whole number that a text such as 1e6 means; None: it means none."""
    try:
        number = float(text)
    except ValueError:
        return None
    # A fraction is none, and where floats have gaps the text may mean another number.
    return int(number) if "e" in text.lower() and number.is_integer() and number < 2**53 else None


def _integer(where: str, value: Any, bounds: Range) -> int:
    # Numbers bring NumPy along, without which the command line lists its options.
    from plangym_ext.core.numbers import at_least

    taken = at_least(where, value, bounds.low)
    if taken > bounds.high:
        raise InvalidOption(f"{where} must be at most {bounds.high}; got {value!r}.")
    return taken


def _number(where: str, value: Any, bounds: Range) -> float:
    from plangym_ext.core.numbers import finite_between

    try:
        taken = finite_between(where, value, bounds.low, bounds.high)
    except InvalidOption:
        if not bounds.above:
            raise
        taken = bounds.low
    if bounds.above and taken == bounds.low:
        raise InvalidOption(f"{where} must be a finite number above {taken:g}; got {value!r}.")
    # Adding 0 makes -0.0 the 0.0 that it equals: generators refuse it as a standard deviation.
    return taken + 0.0


def _flag(where: str, value: Any, _: Range) -> bool:
    # NumPy's bool by its name.
    if not isinstance(value, bool) and type(value).__name__ not in ("bool", "bool_"):
        raise InvalidOption(f"{where} must be True or False; got {value!r:.80}.")
    return bool(value)


def _text(where: str, value: Any, _: Range) -> str:
    if not isinstance(value, str):
        raise InvalidOption(f"{where} must be a text; got {value!r}.")
    return value


def _name(where: str, value: Any, one_of: OneOf, unknown: type[Exception]) -> str:
    names = tuple(one_of.names)
    # By type first: lists have no hash, and comparing an array makes another array.
    if not isinstance(value, str) or not (value in names or (one_of.own and ":" in value)):
        own = ", or module:Class" if one_of.own else ""
        close = suggestion(str(value), names)
        raise unknown(f"{where} must be one of {', '.join(names)}{own}; got {value!r}{close}.")
    return value


def _tuple(where: str, value: Any, each: Declared, unknown: type[Exception]) -> tuple[Any, ...]:
    # A text is a sequence of its letters, and a mistake here.
    if isinstance(value, str) or not (isinstance(value, Sequence) or getattr(value, "ndim", 0) > 0):
        called = _CALLED.get(each.kinds[0], "value")
        raise InvalidOption(
            f"{where} must be a tuple, each {called}; got {value!r}. Write ({value!r},)."
        )
    taken = tuple(checked(f"{where}[{i}]", one, each, unknown) for i, one in enumerate(value))
    return value if isinstance(value, tuple) and taken == value else taken


def _check_function(where: str, value: Any, declared: Declared) -> None:
    # A text is the name of a function where one may be given.
    if callable(value) or (isinstance(value, str) and str in declared.kinds):
        return
    what = (declared.rule(Function) or Function("a function")).what
    none = " or None" if declared.optional else ""
    raise InvalidOption(f"{where} must be {what}{none}; got {value!r}.")


_ANY = Range()
_CALLED = {int: "an integer", float: "a finite number", str: "a text"}
_CHECKS: dict[Any, Callable[[str, Any, Range], Any]] = {
    bool: _flag,
    int: _integer,
    float: _number,
    str: _text,
}
#: Types whose values are checked, whatever else is declared.
CHECKED_KINDS = frozenset(_CHECKS)
