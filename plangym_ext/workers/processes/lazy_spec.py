"""LazySpec: gymnasium env spec that is unpickled at its first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gymnasium.envs.registration import EnvSpec, parse_env_id

#: Attribute with what the spec is loaded from, until it is.
UNREAD = "_unread"
#: Attributes that lookups in the registry read of every spec.
_KNOWN = frozenset({"id", "namespace", "name", "version"})


class LazySpec(EnvSpec):
    """Knows only its id; becomes the full spec when another attribute is read.

    A spec may refer to any module, which is imported when the spec is loaded: most workers never
    make an env of it.

    Args:
        name: id of the env.
        unread: what the spec is loaded from.
        load: `(name, unread) -> EnvSpec`.
    """

    def __init__(self, name: str, unread: Any, load: Callable[[str, Any], EnvSpec]) -> None:
        namespace, plain, version = parse_env_id(name)
        known = {"id": name, "namespace": namespace, "name": plain, "version": version}
        vars(self).update(known, _load=load, **{UNREAD: unread})

    def __getattribute__(self, key: str) -> Any:
        if key not in _KNOWN and not key.startswith("_"):
            self._become_loaded()
        return object.__getattribute__(self, key)  # `super()` would want the class it was

    def _become_loaded(self) -> None:
        own = vars(self)
        load, unread = own.get("_load"), own.get(UNREAD)
        if load is None:  # another thread has come first
            return
        loaded = load(own["id"], unread)
        own.update(vars(loaded))
        self.__class__ = type(loaded)
        own.pop("_load", None)
        own.pop(UNREAD, None)
