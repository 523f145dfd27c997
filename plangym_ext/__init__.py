"""Public API of plangym_ext: batched stepping and planning from exact env states.

The public names are loaded when they are first used, so that importing the package
costs next to nothing and brings in neither numba nor torch.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from plangym_ext.lazy_names import names_of

#: Public name -> module that defines it. The list of the public API.
_PUBLIC = names_of(__file__)

__all__ = [*_PUBLIC, "__version__"]


class _FolderOfCheckout:
    """Finds `plangym_ext.envs` and `plangym_ext.planners` where a checkout has them.

    They lie beside this package there, and in it once it is installed. Python puts the folder
    that it is started in before what is installed, so that a checkout is imported from itself.
    A finder, as an entry of `__path__` would make modules of all folders of the checkout.
    """

    names = ("envs", "planners")

    def __init__(self, checkout: str) -> None:
        self.folders = {f"{__name__}.{name}": os.path.join(checkout, name) for name in self.names}

    def find_spec(self, name: str, *_: Any) -> Any:
        """Return where one of the two is; None: it is another module."""
        if name not in self.folders:
            return None
        file = os.path.join(self.folders[name], "__init__.py")
        return importlib.import_module("importlib.util").spec_from_file_location(name, file)

    @classmethod
    def register(cls) -> None:
        """Find them from now on, if this package lies in a checkout of its project."""
        here = os.path.dirname(os.path.abspath(__file__))
        if os.path.isdir(os.path.join(here, cls.names[0])):  # installed
            return
        checkout = os.path.dirname(here)
        try:
            with open(os.path.join(checkout, "pyproject.toml"), encoding="utf-8") as file:
                ours = 'name = "plangym-ext"' in file.read()
        except OSError:
            ours = False
        if ours:
            # First: another checkout may be installed as editable, whose finder knows these names.
            finder: Any = cls(checkout)
            sys.meta_path.insert(0, finder)


_FolderOfCheckout.register()


def _version() -> str:
    # Reading metadata takes longer than all else here, and no worker needs it.
    metadata = importlib.import_module("importlib.metadata")
    try:
        return str(metadata.version("plangym-ext"))
    except metadata.PackageNotFoundError:  # a checkout that was never installed
        return "0+unknown"


def __getattr__(name: str) -> Any:
    if name == "__version__":
        globals()[name] = _version()
        return globals()[name]
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{_elsewhere(name)}")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    _register_ids()
    return value


def _elsewhere(name: str) -> str:
    """Return a hint to the module of a planner's or a misspelt name."""
    # While the package itself is imported, or for what Python asks of any module, there is none.
    if name.startswith("_"):
        return ""
    planners = importlib.import_module("plangym_ext.planners")
    if name in planners.__all__:
        return f"; it is in plangym_ext.planners: from plangym_ext.planners import {name}"
    errors = importlib.import_module("plangym_ext.errors")
    return str(errors.suggestion(name, _PUBLIC))


def _register_ids() -> None:
    """Make `gymnasium.make("plangym_ext/Sokoban-v0")` and the like work, once gymnasium is there.

    It is not imported for that: so either it was imported before this package, as sorted
    imports have it, or one of the public names has been used.
    """
    # While it is still being imported itself it has no `register` yet.
    if hasattr(sys.modules.get("gymnasium"), "register"):
        importlib.import_module("plangym_ext.ids")


_register_ids()


def __dir__() -> list[str]:
    return sorted(__all__)
