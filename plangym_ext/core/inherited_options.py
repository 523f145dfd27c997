"""Constructor options inherited by subclasses, and import of users' classes by "module:name"."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import re
import sys
from collections.abc import Iterable
from typing import Any

from plangym_ext.errors import UnknownName, WrongKind, suggestion

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


def import_module_of(name: str) -> str:
    """Import the module of an id such as "my_module:Corridor-v0"; return the id without it.

    Raises:
        UnknownName: there is no such module.
    """
    module, colon, rest = name.partition(":")
    if not colon:
        return name
    import_own(module, f"environment: expected an id, or its module and the id; got {name!r}")
    return rest


def import_own(module: str, asked_by: str) -> None:
    """Import a user's module; its exceptions pass through.

    Args:
        module: its name, with dots.
        asked_by: what was expected and what came, for the message.

    Raises:
        UnknownName: there is no such module.
    """
    try:
        importlib.import_module(module)
    except (ModuleNotFoundError, ValueError, TypeError) as error:
        # An import inside of the module that fails is that module's fault, and stays as it is.
        missing = getattr(error, "name", None) or module
        if module != missing and not module.startswith(f"{missing}."):
            raise
        raise UnknownName(
            f"{asked_by}. There is no module {module!r} in sys.path, to which the command line "
            f"adds the current folder ({error})."
        ) from error


def load_own(target: str, where: str, kind: str, which: str) -> Any:
    """Import a user's module, and return the callable that "module:name" names.

    Args:
        target: "module:name".
        where: who asks, for messages.
        kind: "function" or "class".
        which: what it has to do, such as "which takes the env".

    Raises:
        UnknownName: there is no such module, or nothing of that name in it that can be called.
    """
    module, _, name = target.partition(":")
    expected = f"{where}: expected module:{kind}; got {target!r}"
    import_own(module, expected)
    if not name:
        raise UnknownName(f"{expected}. Name the {kind}, {which}.")
    found = getattr(sys.modules[module], name, None)
    if not callable(found):
        known = suggestion(name, dir(sys.modules[module]))
        raise UnknownName(
            f"{where}: module {module!r} must have a {kind} {name!r}, {which}; it has none{known}."
        )
    return found


def load_own_class(target: str, where: str, base: type) -> Any:
    """Import a user's module, and return the class that "module:Class" names.

    Args:
        target: "module:Class".
        where: who asks, for messages.
        base: what it derives from.

    Raises:
        UnknownName: there is no such module, or nothing of that name in it.
        WrongKind: it is no such class.
    """
    which = f"which derives from {base.__module__}.{base.__qualname__}"
    found = load_own(target, where, "class", which)
    # Before it is called: the name may come from a checkpoint of another's.
    if not (isinstance(found, type) and issubclass(found, base)):
        raise WrongKind(f"{where}: {target} must be a class {which}; got {found!r}.")
    return found


def search_current_folder() -> None:
    """Append the current folder to Python's module search path.

    Last in the path, so that no file there hides another module.
    """
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.append(folder)


def check_factory(where: str, factory: Any, kwargs: dict[str, Any]) -> None:
    """Refuse values that are not constructors, and arguments for registered envs only."""
    import gymnasium as gym

    if isinstance(factory, gym.Env):
        raise WrongKind(
            f"{where}: expected a name or a callable that makes the env; got the env "
            f"{factory}. Pass its class, or `lambda: ...`, so that more can be made."
        )
    if not callable(factory) and (where == "make" or not isinstance(factory, Iterable)):
        raise WrongKind(
            f"{where}: expected a registered gymnasium id such as 'CartPole-v1', or a callable "
            f"that returns a gymnasium env; got {factory!r}"
        )
    if kwargs:
        raise WrongKind(
            f"{where}: {', '.join(kwargs)} can be given with a name only; got {factory!r}. "
            "Give them to what makes the envs: functools.partial(MyEnv, size=5)."
        )


# Errors for options that a constructor does not take --------------------------


_OF_MAKE = "It is for plangym_ext.make, which takes n_workers too."
#: Options that have another place here, and what to write.
_ELSEWHERE = {
    "threads": "It is for the kernel and the mujoco backend: leave it out, or choose "
    "backend='kernel' or 'mujoco'.",
    "obs_type": 'Games alone have "ram"; make has "coords", "rgb" and "grayscale" for any env that '
    "draws.",
    "state": "Console games alone start where it says; how states are captured is capture.",
    **dict.fromkeys(("clone_seeds", "domain_name", "remove_time_limit", "return_image"), _OF_MAKE),
    **dict.fromkeys(("task_name", "wrappers"), _OF_MAKE),
}


def raise_if_unknown(
    error: TypeError, called: Any, given: Iterable[str], spec: Any, options: Iterable[str] = ()
) -> None:
    """Raise `UnknownName` for an env constructor's error about an unknown argument.

    Args:
        error: of the constructor.
        called: the function or class that was given the options.
        given: their names.
        spec: of the env.
        options: of its family.

    Raises:
        UnknownName: the constructor does not take one of them.
    """
    import gymnasium as gym
    from gymnasium.envs.registration import load_env_creator

    found = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    if found is None or found[1] not in given:
        return
    name = found[1]
    text = f"{called.__name__}: {spec.id} has no option {name!r}"
    if name in _ELSEWHERE:
        raise UnknownName(f"{text}. {_ELSEWHERE[name]}") from error
    entry = spec.entry_point
    constructor = load_env_creator(entry) if isinstance(entry, str) else entry
    # The first argument of a call is the env's name, which was given.
    known = [*_named(called)[1:], *options, *_named(constructor), *_named(gym.make)[1:]]
    raise UnknownName(f"{text}{suggestion(name, known)}") from error


def _named(function: Any) -> list[str]:
    """Return the arguments that a function can be given by name."""
    parameters = inspect.signature(function).parameters.values()
    return [
        one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    ]
