"""Command line and training runs (public names).

Names are loaded when they are first used: `Runner` and `Trained` bring torch with them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plangym_ext.run.settings.compose import compose as compose
    from plangym_ext.run.training.callbacks import Callback as Callback
    from plangym_ext.run.training.runner import Runner as Runner
    from plangym_ext.run.training.trained import Trained as Trained

_HOME = {
    "Callback": "training.callbacks",
    "Runner": "training.runner",
    "Trained": "training.trained",
    "compose": "settings.compose",
}

__all__ = ["Callback", "Runner", "Trained", "compose"]


def __getattr__(name: str) -> Any:
    """Import the module that holds `name` (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List public names, loaded or not."""
    return __all__
