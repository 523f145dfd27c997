"""Nest: flattening and rebuilding of nested values, such as recurrent carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Path = tuple[Any, ...]


class Nest:
    """The form of a nested value: dicts and tuples, named or not, of arrays.

    Args:
        example: a value of the form; None has no leaves.

    Attributes:
        paths: the way to each leaf: keys of dicts and numbers of tuples.
    """

    def __init__(self, example: Any) -> None:
        self._example = example
        self.paths = _paths(example)
        self._is_flat = all(len(path) == 1 for path in self.paths)
        self._names = [path[0] for path in self.paths if path]

    def split(self, value: Any) -> list[Any]:
        """Return the leaves of a value.

        Raises:
            KeyError, IndexError, TypeError: it has another form.
        """
        # Most carries are one dict or tuple of arrays, and this is done in every step.
        if self._is_flat:
            return [value[name] for name in self._names]
        found = []
        for path in self.paths:
            leaf = value
            for key in path:
                leaf = leaf[key]
            found.append(leaf)
        return found

    def join(self, leaves: Sequence[Any]) -> Any:
        """Return the value that has these leaves."""
        left = iter(leaves)
        return _joined(self._example, left)


def _paths(value: Any, path: Path = ()) -> list[Path]:
    if value is None:
        return []
    if isinstance(value, Mapping):
        return [one for key, part in value.items() for one in _paths(part, (*path, key))]
    if isinstance(value, tuple):
        return [one for key, part in enumerate(value) for one in _paths(part, (*path, key))]
    return [path]


def _joined(value: Any, left: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {key: _joined(part, left) for key, part in value.items()}
    if isinstance(value, tuple):
        parts = [_joined(part, left) for part in value]
        # Named tuples take their parts one by one.
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return next(left)
