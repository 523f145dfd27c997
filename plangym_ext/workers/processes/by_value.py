"""Cloudpickle of objects for workers, with classes by value under their full names."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import cloudpickle


def dumps(value: Any, named: Callable[[Any], Any] | None = None) -> bytes:
    """Return the cloudpickle of a value; classes that travel by value keep their names.

    cloudpickle makes `Board.Cell` of a script a class `Cell`. States name classes, so those of
    the caller and those of workers have to call them alike.

    Args:
        value: of any kind.
        named: returns the key by which `persistent_load` finds an object, which then is not
            pickled; None for others.

    Raises:
        Exception: whatever a captured object's reduction raises.
    """
    with io.BytesIO() as file:
        pickler = _Pickler(file, protocol=5) if named is None else _NamingPickler(file, named)
        pickler.dump(value)
        return file.getvalue()


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def reducer_override(self, obj: Any) -> Any:
        found = super().reducer_override(obj)
        # Of a class by value. An enumeration is made with its full name anyhow.
        if not (isinstance(found, tuple) and isinstance(obj, type)) or (
            getattr(found[0], "__name__", "") != "_make_skeleton_class"
        ):
            return found
        make, args, (attributes, slots), *others = found
        return make, args, ({**attributes, "__qualname__": obj.__qualname__}, slots), *others


class _NamingPickler(_Pickler):
    def __init__(self, file: io.BytesIO, named: Callable[[Any], Any]) -> None:
        super().__init__(file, protocol=5)
        self._named = named

    def persistent_id(self, obj: Any) -> Any:
        return self._named(obj)
