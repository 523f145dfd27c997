"""Classes whose signature and docstring include the constructor options of their bases."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

# "name: text", indented as Google's style has it; deeper lines continue the text.
_ENTRY = re.compile(r"^    \*{0,2}(\w+): .*$")
#: Sections that come after `Args`.
_LATER = ("Attributes:", "Returns:", "Raises:", "Source:")
_EMPTY, _KEYWORD = inspect.Parameter.empty, inspect.Parameter.KEYWORD_ONLY
_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class _Signature:
    """The signature of a class, read off its constructors when it is asked for."""

    def __get__(self, instance: Any, owner: type) -> inspect.Signature:
        return inspect.Signature(list(parameters_of(owner).values()))


class InheritedOptions:
    """Abstract; subclasses show all inherited options in their signature and `Args`.

    A subclass describes the options that it adds. The entries of its bases follow them, and
    `**options` of a constructor stand for what the constructor of the next base takes.
    """

    # `inspect`, `help` and Sphinx look here first, and else at `__new__` before `__init__`.
    __signature__ = _Signature()

    def __init_subclass__(cls, **options: Any) -> None:
        """Complete the docstring of the subclass."""
        super().__init_subclass__(**options)
        lines = inspect.cleandoc(inspect.getdoc(cls) or "").splitlines()
        if lines:  # none with `python -OO`
            cls.__doc__ = "\n".join(_completed(lines, _inherited(cls)))


def parameters_of(cls: type) -> dict[str, inspect.Parameter]:
    """Return the constructor parameters of a class by name, without `self`."""
    found: dict[str, inspect.Parameter] = {}
    for base in cls.__mro__:
        if "__init__" not in base.__dict__ or base is object:
            continue
        _, *own = inspect.signature(base.__dict__["__init__"]).parameters.values()
        for one in own:
            if one.kind not in _REST and one.name not in found:
                found[one.name] = one.replace(kind=_KEYWORD) if found and base is not cls else one
        if not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in own):
            break
    # Keywords come last, and of what is positional first what has no default.
    return dict(sorted(found.items(), key=lambda item: item[1].kind))


def described(cls: type) -> dict[str, str]:
    """Read the entries under `Args:` of a class's docstring, each as one line."""
    lines = inspect.cleandoc(cls.__doc__ or "").splitlines()
    return {
        name: " ".join(line.strip() for line in text).partition(": ")[2]
        for name, text in _entries(lines).items()
    }


def _entries(lines: list[str]) -> dict[str, list[str]]:
    """Return the lines of every entry under `Args:`."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in lines[lines.index("Args:") + 1 :] if "Args:" in lines else ():
        if entry := _ENTRY.match(line):
            name = entry[1]
            found[name] = [line]
        elif line.startswith("        ") and name:
            found[name].append(line)
        else:
            break
    return found


def _inherited(cls: type) -> dict[str, list[str]]:
    """Return the entries of all bases that are about options of `cls`, the nearest first."""
    found: dict[str, list[str]] = {}
    for base in cls.__mro__[1:]:
        lines = inspect.cleandoc(base.__dict__.get("__doc__") or "").splitlines()
        for name, text in _entries(lines).items():
            found.setdefault(name, text)
    if "__init__" in cls.__dict__:
        taken = parameters_of(cls)
        return {name: text for name, text in found.items() if name in taken}
    # The constructor of a dataclass is made later than this, of all fields but these.
    fixed = [
        name
        for name, value in vars(cls).items()
        if isinstance(value, dataclasses.Field) and not value.init
    ]
    return {name: text for name, text in found.items() if name not in fixed}


def _completed(lines: list[str], inherited: dict[str, list[str]]) -> list[str]:
    """Return a docstring with entries more under `Args:`."""
    own = _entries(lines)
    more = [line for name, text in inherited.items() if name not in own for line in text]
    if not more:
        return lines
    if own:
        end = lines.index("Args:") + 1 + sum(map(len, own.values()))
        return [*lines[:end], *more, *lines[end:]]
    end = next((lines.index(line) for line in lines if line.startswith(_LATER)), len(lines))
    before, after = lines[:end], lines[end:]
    while before and not before[-1]:
        before.pop()
    return [*before, "", "Args:", *more, *(["", *after] if after else [])]
