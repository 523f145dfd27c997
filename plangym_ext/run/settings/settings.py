"""Conversion between nested mappings (TOML, JSON, command line) and typed settings.

A section is a frozen dataclass. `build` makes it from a mapping and refuses what it does
not know; `plain` turns it back into one that JSON can hold.
"""

from __future__ import annotations

import dataclasses
import tomllib
import types
import typing
from collections.abc import Mapping
from typing import Any, NamedTuple

from plangym_ext.core.inherited_options import described
from plangym_ext.core.options import parsed
from plangym_ext.errors import InvalidOption, UnknownName, suggestion
from plangym_ext.learn.schedule import OwnSchedule, Schedule


class Text(str):
    """A value as typed; its meaning depends on the setting's type."""

    # A class of its own, as a file tells "3" from 3 and a command line does not.
    __slots__ = ()


class Setting(NamedTuple):
    """One value that can be set.

    Attributes:
        key: dotted, such as "algorithm.learning_rate".
        default: its value in what it was listed from.
        help: what it means, in one line.
        free: whether it is a mapping whose keys are not known beforehand.
    """

    key: str
    default: Any
    help: str
    free: bool = False


def build(cls: type[Any], values: Mapping[str, Any], where: str = "") -> Any:
    """Make a section from a mapping; missing keys keep their defaults.

    Args:
        cls: a dataclass; or a class with `from_settings(values, where)` of its own.
        values: by name, nested like the sections.
        where: dotted key of the section, for messages.

    Raises:
        UnknownName: a key is not known; the message has the closest one.
        InvalidOption: a value is of another kind.
    """
    if not isinstance(values, Mapping):
        raise InvalidOption(f"settings: {where or 'they'} must be a section; got {values!r}.")
    if hasattr(cls, "from_settings"):
        return cls.from_settings(values, where)
    # Annotations are texts, as modules import them from `__future__`.
    hints = typing.get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls) if field.init]
    if where == "env":
        for part in (values, values.get("kwargs")):
            check_no_trust(part if isinstance(part, Mapping) else {}, where)
        # Of runs from before: False says nothing.
        values = {key: value for key, value in values.items() if key != "trust"}
    check_names(values, names, where)
    return cls(
        **{key: read(hints[key], value, dotted(where, key)) for key, value in values.items()}
    )


def check_no_trust(values: Mapping[str, Any], where: str) -> None:
    """Refuse env settings from a file that declare states as trusted.

    Raises:
        InvalidOption: they do.
    """
    if values.get("trust", False) is not False:
        raise InvalidOption(
            f"settings: {dotted(where, 'trust')} is no setting, for a file cannot vouch for "
            "itself. If you trust where the states of a run come from, type train --trust "
            "--resume, or give Runner(..., trust=True)."
        )


def check_names(values: Mapping[str, Any], known: list[str], where: str) -> None:
    """Refuse keys that are not known."""
    for key in values:
        if not isinstance(key, str):  # YAML takes `on` and `1` for what they are elsewhere
            raise InvalidOption(
                f"settings: the names in {where or 'the settings'} must be strings; got {key!r}. "
                f"Write it in quotes, if it is one."
            )
        if key not in known:
            having = f"the section {where!r} has" if where else "the settings have"
            raise UnknownName(
                f"settings: {dotted(where, key)!r} is not known{suggestion(key, known)}; "
                f"{having} {', '.join(known)}."
            )


def read(kind: Any, value: Any, where: str) -> Any:
    """Return `value` converted to the annotation `kind`.

    Raises:
        InvalidOption: it is no such value.
    """
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind) or hasattr(kind, "from_settings"):
        return build(typing.cast(type, kind), value, where)
    if origin in (typing.Union, types.UnionType):
        return _read_optional(kind, value, where)
    if origin is tuple:
        parts = _typed_list(value).split(",") if isinstance(value, Text) else value
        if isinstance(parts, list | tuple):
            inner = typing.get_args(kind)[0]
            return tuple(
                read(inner, Text(part.strip()) if isinstance(value, Text) else part, where)
                for part in parts
                # Nothing typed at all is an empty list.
                if part != ""
            )
    elif kind in (Any, origin) or origin is not None:
        found = free(value)
        if origin is not Mapping or isinstance(found, Mapping):
            return found
    else:
        found = _read_plain(kind, value)
        # Not by its truth: False, 0 and an empty text are values.
        if found is not None:
            return found
    raise InvalidOption(f"settings: {where} must be {_called(kind)}; got {str(value)!r}.")


def _typed_list(value: Text) -> str:
    """Return the content of typed brackets, in Python's, TOML's or JSON's form; None without."""
    whole = value.strip()
    return whole[1:-1] if whole[:1] + whole[-1:] in ("[]", "()") else whole


def _read_optional(kind: Any, value: Any, where: str) -> Any:
    kinds = typing.get_args(kind)
    if type(None) in kinds and (
        # A text as well, as TOML has no null.
        value is None or (isinstance(value, str) and value.lower() == "none")
    ):
        return None
    # Before the number: read as a float, a schedule would be refused.
    if Schedule in kinds and (schedule := _read_schedule(value, where)) is not None:
        return schedule
    # Annotations name the plain kind first; None and schedules were looked for above.
    return read(kinds[0], value, where)


def _read_schedule(value: Any, where: str) -> Schedule | OwnSchedule | None:
    """Return the schedule that `{start, end, over}` or "module:function" means; else None."""
    # A table in one line, as a TOML file has it: what is typed may be copied from there.
    if isinstance(value, Text) and value.lstrip().startswith("{"):
        value = free(value)
    if isinstance(value, Mapping):
        names = [field.name for field in dataclasses.fields(Schedule)]
        check_names(value, names, where)
        parts = dataclasses.fields(Schedule)
        needed = [one.name for one in parts if one.default is dataclasses.MISSING]
        if missing := [name for name in needed if name not in value]:
            raise InvalidOption(
                f"settings: {where} must be a number, or a schedule with {', '.join(needed)}; it "
                f"has no {missing[0]!r}."
            )
        schedule: Schedule = build(Schedule, value, where)
        return schedule
    if isinstance(value, str) and ":" in value:
        return OwnSchedule(str(value))
    return value if isinstance(value, Schedule | OwnSchedule) else None


def free(value: Any) -> Any:
    """Return a value without a known type: a TOML literal, or else the text."""
    if isinstance(value, Mapping):
        return {key: free(one) for key, one in value.items()}
    if not isinstance(value, Text):
        return value
    # TOML has no null.
    if value.lower() == "none":
        return None
    try:
        # The grammar of files, so that a value means the same there and here.
        return tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return str(value)


def _read_plain(kind: type, value: Any) -> Any:
    """Return a bool, int, float or str; None if it is no such value."""
    if isinstance(value, Text):
        return parsed(value, kind)
    # A bool is an int to Python, and a mistake here.
    whole = isinstance(value, int) and not isinstance(value, bool)
    if kind is float:
        # A whole number is one too: files have 1 where 1.0 is meant.
        return float(value) if whole or isinstance(value, float) else None
    if kind is int:
        return value if whole else None
    return value if isinstance(value, kind) else None


def _called(kind: Any) -> str:
    if typing.get_origin(kind) is tuple:
        return f"a list, each {_called(typing.get_args(kind)[0])}"
    if typing.get_origin(kind) is Mapping:
        return "a section, or a table such as {key = 1}"
    names = {int: "an int", float: "a float", bool: "true or false", str: "a text"}
    return names.get(kind, str(kind))


def plain(section: Any) -> Any:
    """Return a section as nested dicts, lists and plain values."""
    # First, as those that have a form of their own are dataclasses too.
    if hasattr(section, "to_settings"):
        return plain(section.to_settings())
    if dataclasses.is_dataclass(section):
        return {
            field.name: plain(getattr(section, field.name))
            for field in dataclasses.fields(section)
            if field.init and field.name not in _left_out(section)
        }
    if isinstance(section, Mapping):
        return {key: plain(value) for key, value in section.items()}
    if isinstance(section, list | tuple):
        return [plain(value) for value in section]
    return section


def _left_out(section: Any) -> frozenset[str]:
    """Return the fields that mean nothing beside the others of a section."""
    found: frozenset[str] = getattr(section, "left_out", frozenset())
    return found


def merged(
    first: Mapping[str, Any], second: Mapping[str, Any], *, at_once: bool = False
) -> dict[str, Any]:
    """Return two nested mappings merged; values of the second take precedence.

    A section that the second gives another `name` is replaced as a whole: what belonged
    to another planner or algorithm means nothing to the new one.

    Args:
        first: nested settings.
        second: those that count before them.
        at_once: both are meant for the name that the second gives, if it gives one.
    """
    # A copy of this level is enough: what lies below is merged into new ones, and never written to.
    found = dict(first)
    for key, value in second.items():
        old = found.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        if both and (at_once or value.get("name", old.get("name")) == old.get("name")):  # type: ignore[union-attr]
            found[key] = merged(old, value, at_once=at_once)  # type: ignore[arg-type]
        else:
            found[key] = value
    return found


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Turn `{"a.b": 1}` into `{"a": {"b": 1}}`.

    Raises:
        InvalidOption: a key has a value of its own and is a section as well.
    """
    found: dict[str, Any] = {}
    for key, value in flat.items():
        above = [other for other in flat if key.startswith(f"{other}.")]
        if above:
            raise InvalidOption(
                f"settings: {above[0]} must be a value or a section; got {flat[above[0]]!r} and "
                f"{key}={value!r}."
            )
        *path, last = key.split(".")
        section = found
        for name in path:
            section = section.setdefault(name, {})
        section[last] = value
    return found


def differences(mine: Any, theirs: Any, where: str = "") -> list[str]:
    """Return the keys of two nested mappings whose values differ, with both values."""
    if not (isinstance(mine, Mapping) and isinstance(theirs, Mapping)):
        return [] if mine == theirs else [f"{where}: {theirs!r} there, {mine!r} here"]
    found = []
    for key in [*mine, *(key for key in theirs if key not in mine)]:
        found += differences(mine.get(key), theirs.get(key), dotted(where, key))
    return found


def listed(section: Any, where: str = "") -> list[Setting]:
    """List all values of a section, with their descriptions."""
    if hasattr(section, "listed"):
        return list(section.listed(where))
    found: list[Setting] = []
    helps = described(type(section))
    for field in dataclasses.fields(section):
        if field.name in _left_out(section):
            continue
        value, key = getattr(section, field.name), dotted(where, field.name)
        if dataclasses.is_dataclass(value) and not callable(value):  # a schedule is one value
            found += listed(value, key)
        elif field.init:
            free = isinstance(value, Mapping)
            found.append(Setting(key, value, helps.get(field.name, ""), free))
    return found


def dotted(where: str, key: str) -> str:
    """Return the dotted key of `key` in a section."""
    return f"{where}.{key}" if where else key
