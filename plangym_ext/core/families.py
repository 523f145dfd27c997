"""Which simulators the library knows, and where each one's codec is.

A family is named by the module of the simulator's class, so that it is found
whatever id, wrapper or factory the env came from. The table holds names, not
objects: an env family's file is imported when one of its envs is first met.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from plangym_ext.errors import IncompleteState


@dataclass(frozen=True)
class Family:
    """One kind of simulator.

    Attributes:
        name: short name for reports, such as "atari".
        module: module of the simulator's class, or a package that it lies in.
        codec: "module:name" of a callable from the unwrapped env to its `StatePart`, or
            the callable itself; None where a general way of the ladder serves.
        frameskip_argument: keyword of the env's constructor that repeats an action
            inside the simulator, or None when the library has to repeat it.
        approximate: like `codec`, for a way that is not exact; used only when asked for.
    """

    name: str
    module: str
    codec: str | Callable[[Any], Any] | None
    frameskip_argument: str | None = None
    approximate: str | Callable[[Any], Any] | None = None

    def load_codec(self, *, approximate: bool = False) -> Callable[[Any], Any]:
        """The constructor of the exact or the approximate codec, imported on first use.

        Raises:
            IncompleteState: the family has none of that kind.
        """
        codec = self.approximate if approximate else self.codec
        if codec is None:
            kind = "approximate" if approximate else "exact"
            raise IncompleteState(f"{self.name}: this family has no {kind} codec")
        if callable(codec):
            return codec
        module, _, name = codec.partition(":")
        return getattr(importlib.import_module(module), name)


_families: list[Family] = []
_custom: list[Family] = []


def register_family(family: Family, *, builtin: bool = False) -> None:
    """Make `family` known; it is asked before all that were registered earlier."""
    _families.insert(0, family)
    if not builtin:
        _custom.append(family)


def custom_families() -> tuple[Family, ...]:
    """Families that did not come with the library; workers have to be told of them."""
    return tuple(_custom)


def _find(module: str) -> Family | None:
    # The built-in families register themselves when their package is imported;
    # naming it here, not importing it above, keeps `core` below `envs`.
    importlib.import_module("plangym_ext.envs")
    for family in _families:
        if module == family.module or module.startswith(family.module + "."):
            return family
    return None


def family_of(base: Any) -> Family | None:
    """Family of an unwrapped env: of its class, or of the nearest ancestor with one."""
    for cls in type(base).__mro__:
        found = _find(cls.__module__)
        if found is not None:
            return found
    return None


def is_own_class(base: Any) -> bool:
    """Whether a family names the very class of `base`, not just one that it derives from."""
    return _find(type(base).__module__) is not None


def family_of_entry_point(entry_point: Any) -> Family | None:
    """Family of an env that is not built yet, from its gymnasium entry point."""
    if isinstance(entry_point, str):
        return _find(entry_point.partition(":")[0])
    return _find(getattr(entry_point, "__module__", "") or "")
