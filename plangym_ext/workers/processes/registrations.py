"""Registrations: transfer of this process's gymnasium env ids to workers.

Upstream's workers are forks, or run the main script again, and so know every id that the
parent does. A worker program is told instead. Specs travel with names in the place of their
classes wherever there are some: nothing is imported before an env of the kind is made.
"""

from __future__ import annotations

import copy
import pickle
import sys
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from plangym_ext.errors import WrongKind

_MAIN = "__main__"


_PLAIN = (str, int, float, bool, bytes, types.NoneType)


@dataclass(frozen=True)
class Registrations:
    """The registry of a process, to be installed in another one.

    Attributes:
        plain: pickle of the specs that consist of names and numbers.
        others: id and cloudpickle of each other spec, loaded when an env is made of it; or
            what went wrong, as text.
        main: cloudpickle, or what went wrong, of each object of `__main__` that an entry point
            names.
    """

    plain: bytes
    others: tuple[tuple[str, bytes | str], ...]
    main: tuple[tuple[str, bytes | str], ...]

    @classmethod
    def of_this_process(cls) -> Registrations | None:
        """Return all that is registered now; None if gymnasium was not imported."""
        if "gymnasium" not in sys.modules:
            return None
        import gymnasium as gym

        from plangym_ext.workers.processes.lazy_spec import UNREAD

        plain: list[Any] = []
        others: list[tuple[str, bytes | str]] = []
        main: dict[str, None] = {}  # in order
        # Copied: another thread may register meanwhile.
        for name, spec in list(gym.registry.items()):
            if (unread := vars(spec).get(UNREAD)) is not None:  # of the parent of this worker
                others.append((name, unread))
                continue
            named = _with_names(spec)
            if not _is_plain(vars(named)):
                others.append((name, _pickled(named)))
                continue
            plain.append(named)
            if str(named.entry_point).startswith(f"{_MAIN}:"):
                main[named.entry_point.partition(":")[2]] = None
        found = sys.modules[_MAIN]
        objects = [(name, _pickled(getattr(found, name))) for name in main if hasattr(found, name)]
        return cls(pickle.dumps(plain, protocol=5), tuple(others), tuple(objects))

    def install(self) -> None:
        """Register all specs in this process; they replace those with the same ids."""
        import gymnasium as gym

        # A package that the parent has imported registers its ids once more when it is imported
        # for an env. The parent has warned if any were others before.
        warnings.filterwarnings("ignore", message=".*Overriding environment .* already in registry")
        gym.registry.update((spec.id, spec) for spec in pickle.loads(self.plain))
        if self.others:
            from plangym_ext.workers.processes.lazy_spec import LazySpec

            gym.registry.update(
                (name, LazySpec(name, data, _other_spec)) for name, data in self.others
            )
        if self.main:
            _install_main(self.main)


def _with_names(spec: Any) -> Any:
    """Return the spec with "module:name" for entry points that another process can import so."""
    changed = {
        field: named
        for field in ("entry_point", "vector_entry_point")
        if (named := _named(getattr(spec, field))) is not None
    }
    if changed:
        spec = copy.copy(spec)
        vars(spec).update(changed)
    return spec


def _named(entry_point: Any) -> str | None:
    if isinstance(entry_point, str):
        return None
    module, name = (getattr(entry_point, key, None) for key in ("__module__", "__qualname__"))
    found = getattr(sys.modules.get(str(module)), str(name), None)
    if module in {_MAIN, *_by_value()} or found is None or found is not entry_point:
        return None
    return f"{module}:{name}"


def _by_value() -> set[str]:
    """Return the modules whose functions the user has travel by value: workers lack them."""
    pickler = sys.modules.get("cloudpickle")
    return set() if pickler is None else pickler.list_registry_pickle_by_value()


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, value)) and all(map(_is_plain, value.values()))
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return type(value) in _PLAIN


def _pickled(value: Any) -> bytes | str:
    from plangym_ext.workers.processes import by_value  # here: no worker needs cloudpickle

    try:
        return by_value.dumps(value)
    except Exception as error:  # whatever an object's own reduction raises
        return f"it cannot be pickled: {error}"


def _loaded(data: bytes | str) -> Any:
    if isinstance(data, str):
        return data
    try:
        return pickle.loads(data)
    except Exception as error:  # whatever imports and constructors raise
        return f"it cannot be loaded: {type(error).__name__}: {error}"


def _other_spec(name: str, data: bytes | str) -> Any:
    """Load a spec that travelled by value, or make one that says why that cannot be."""
    from gymnasium.envs.registration import EnvSpec

    loaded = _loaded(data)
    return EnvSpec(name, _refusal(name, loaded)) if isinstance(loaded, str) else loaded


def _refusal(name: str, reason: str) -> Callable[..., Any]:
    """Return an entry point that refuses: the env could not travel, and may never be made here."""

    def refuse(**_: Any) -> Any:
        raise WrongKind(
            f"{name}: it is registered in the parent process, but {reason}. Register a name "
            "('module:Class') as its entry point, or create what it captures inside it."
        )

    return refuse


def _install_main(objects: tuple[tuple[str, bytes | str], ...]) -> None:
    """Set `__main__` to the parent's, as far as entry points name it."""
    # A new module: the names of the worker program stay its own.
    found = types.ModuleType(_MAIN)
    for name, data in objects:
        loaded = _loaded(data)
        setattr(found, name, _refusal(name, loaded) if isinstance(loaded, str) else loaded)
    sys.modules[_MAIN] = found
