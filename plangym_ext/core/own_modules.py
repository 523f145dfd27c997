"""Import of the user's own modules, classes and constructors by "module:name"."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from typing import Any

from plangym_ext.errors import UnknownName, WrongKind, suggestion


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
    """Return the callable of the user's that "module:name" names; its module is imported.

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
    """Return the class that "module:Class" of the user's names.

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
