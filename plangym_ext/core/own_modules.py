"""Modules of the user's that register envs when they are imported."""

from __future__ import annotations

import importlib

from plangym_ext.errors import UnknownName


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
    """Import a module that the user named; what it raises passes through.

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
