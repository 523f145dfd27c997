"""`ArrayDict`: nested named arrays that are indexed, written and rotated together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, TypeAlias, final

import numpy.typing as npt

from plangym_ext.arrays.base import BaseArray
from plangym_ext.arrays.build import build, example_leaf, space_leaf, space_parts
from plangym_ext.arrays.closing import Closing
from plangym_ext.arrays.nested import mapped
from plangym_ext.errors import InvalidOption, WrongKind, suggestion

Leaf: TypeAlias = "BaseArray | ArrayDict | None"


@final
class ArrayDict(Closing, MutableMapping[str, Any]):
    """A mapping from names to arrays, further `ArrayDict` trees, or None for what is not there.

    A string selects by name, as does an attribute that is no method: `tree.obs` is
    `tree["obs"]`. Any other index is applied to every array and gives an `ArrayDict` of
    views. Assigning to such an index writes into all
    arrays: from a mapping, dataclass or named tuple with exactly these names,
    or the same value into every one. Where there is None, values may be left out and are not
    written, and results of methods and functions are None.

    Args:
        items: arrays and mappings of arrays by name.

    Raises:
        TypeError: a name is no string, or a value is neither array nor mapping.
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Any] | None = None, /, **more: Any) -> None:
        self._items: dict[str, Leaf] = {}
        for name, value in {**(items or {}), **more}.items():
            self[name] = value

    # Building

    @classmethod
    def from_space(
        cls,
        space: Any,
        batch_shape: tuple[int, ...],
        *,
        fields: Mapping[str, Mapping[str, Any]] | None = None,
        **spec: Any,
    ) -> ArrayDict:
        """Make zeros with the shapes and dtypes of a gymnasium space.

        Every array is `[*batch_shape, *shape of its part]` in memory of its own: a fresh tree.

        Args:
            space: a Dict or Tuple space (whose names are "0", "1", ...), or a
                mapping from names to spaces.
            batch_shape: leading dimensions of every array.
            fields: arguments of `Array` that differ, by dotted name.
            **spec: arguments of `Array` for every array.

        Raises:
            TypeError: a space has no fixed shape, such as Text or Graph.
            ValueError: `fields` names something that is not there.
        """
        return cls(build(space, space_parts, space_leaf, batch_shape, fields or {}, spec))

    @classmethod
    def from_example(
        cls,
        example: Any,
        batch_shape: tuple[int, ...],
        *,
        fields: Mapping[str, Mapping[str, Any]] | None = None,
        **spec: Any,
    ) -> ArrayDict:
        """Make zeros with the shapes and dtypes of a nested example.

        Every array is `[*batch_shape, *shape of its part]` in memory of its own: a fresh tree.

        Args:
            example: mappings, dataclasses, named tuples and tuples of arrays
                and numbers.
            batch_shape: leading dimensions of every array.
            fields: arguments of `Array.from_numpy` that differ, by dotted name.
            **spec: arguments of `Array.from_numpy` for every array.

        Raises:
            TypeError: a value is not numeric, or the example is not nested.
            ValueError: `fields` names something that is not there.
        """
        return cls(build(example, parts, example_leaf, batch_shape, fields or {}, spec))

    @classmethod
    def from_step(
        cls,
        step: tuple[Any, Any, Any, Any, Mapping[str, Any]],
        batch_shape: tuple[int, ...],
        *,
        action: Any = None,
        info: bool = True,
        fields: Mapping[str, Mapping[str, Any]] | None = None,
        **spec: Any,
    ) -> ArrayDict:
        """Make zeros for the return value of one `env.step`.

        Every array is `[*batch_shape, *shape of its part]` in memory of its own: a fresh tree.

        Args:
            step: (obs, reward, terminated, truncated, info) of one step; these
                are the names. An empty info is left out.
            batch_shape: leading dimensions of every array.
            action: the action taken, stored under "action" if given.
            info: whether to store infos; they must then be numeric.
            fields: arguments of `Array.from_numpy` that differ, by dotted name.
            **spec: arguments of `Array.from_numpy` for every array.
        """
        names = ("obs", "reward", "terminated", "truncated", "info")
        example = {} if action is None else {"action": action}
        example.update(zip(names, step, strict=True))
        if not info or not example["info"]:
            del example["info"]
        return cls.from_example(example, batch_shape, fields=fields, **spec)

    def new_array(self, **overrides: Any) -> ArrayDict:
        """Make zeros like these, array by array; see `Array.new_array`."""
        return ArrayDict(self.apply("new_array", **overrides))

    # Mapping

    def __getitem__(self, key: Any) -> Any:
        """Return the array of a name, or views of all arrays.

        Raises:
            KeyError: no such name.
            IndexError, TypeError: an array refuses the index; the message
                starts with its name.
        """
        if isinstance(key, str):
            return self._items[key]
        return ArrayDict(self._map("", _get, key))

    def __setitem__(self, key: Any, value: Any) -> None:
        """Put an array under a name, or write into all arrays.

        All names are checked before anything is written.

        Raises:
            TypeError: only arrays and mappings of arrays go under a name.
            ValueError: names are missing or unknown, or a value does not fit.
        """
        if not isinstance(key, str):
            # Paired before the first is written: a name that is missing leaves all as they were.
            for leaf, part in _paired(self, value, ""):
                _named(leaf[0], _set, leaf[1], key, part)
        elif value is None or isinstance(value, (BaseArray, ArrayDict)):
            self._items[key] = value
        elif isinstance(value, Mapping):
            self._items[key] = ArrayDict(value)
        else:
            raise WrongKind(
                f"ArrayDict: {key!r} must be an array, a mapping of arrays or None; got "
                f"{type(value).__name__}. To write into the array use tree[{key!r}][...] = value."
            )

    def __getattr__(self, name: str) -> Any:
        """Return the array of a name that is no method or property.

        Raises:
            AttributeError: no such name.
        """
        # Not before the constructor has run, as when copying.
        items = {} if name.startswith("_") else self._items
        if name not in items:
            raise AttributeError(
                f"ArrayDict: there is no array or method {name!r}{suggestion(name, items)}; "
                f"there are the arrays {', '.join(items)}."
            )
        return items[name]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._items})

    def __delitem__(self, key: str) -> None:
        del self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def leaves(self, prefix: str = "") -> Iterator[tuple[str, BaseArray]]:
        """Yield (dotted name, array) for every array, in order; None is left out."""
        for name, leaf in self._items.items():
            if isinstance(leaf, ArrayDict):
                yield from leaf.leaves(f"{prefix}{name}.")
            elif leaf is not None:
                yield prefix + name, leaf

    # All arrays at once

    def apply(self, method: str | Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Call a method of every array, or a function on every array.

        Args:
            method: name of a method or property, or a function that takes the
                array first.
            *args: passed on.
            **kwargs: passed on.

        Returns:
            Nested dict of the results.
        """
        return self._map("", _call, method, *args, **kwargs)

    def _map(
        self, prefix: str, call: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> dict[str, Any]:
        return {
            name: leaf._map(f"{prefix}{name}.", call, *args, **kwargs)
            if isinstance(leaf, ArrayDict)
            else None
            if leaf is None
            else _named(prefix + name, call, leaf, *args, **kwargs)
            for name, leaf in self._items.items()
        }

    def to_ndarray(self) -> dict[str, Any]:
        """Return a nested dict of numpy views; see `Array.to_ndarray`."""
        return self.apply("to_ndarray")

    def to_torch(self) -> dict[str, Any]:
        """Return a nested dict of torch tensors on the same memory."""
        return self.apply("to_torch")

    def to(
        self, device: Any, *, non_blocking: bool = False, pinned: bool = False
    ) -> dict[str, Any]:
        """Return a nested dict of torch tensors on a device.

        Args:
            device: as torch names it, such as "cuda"; "cpu" shares the memory, others have
                copies.
            non_blocking: whether copies may go on after the call, as torch has it.
            pinned: whether they go through page-locked memory, without which those to a GPU
                do not go on; ignored for "cpu".
        """
        return self._map("", _moved, device, non_blocking, pinned)

    @property
    def next(self) -> ArrayDict:
        """Views of every array one row later, `[T, ...]` as it; see `Array.next`."""
        return ArrayDict(self.apply("next"))

    @property
    def previous(self) -> ArrayDict:
        """Views of every array one row earlier, `[T, ...]` as it; see `Array.previous`."""
        return ArrayDict(self.apply("previous"))

    @property
    def full(self) -> ArrayDict:
        """Views of all rows that the windows slide over, `[full_size, ...]`; see `Array.full`."""
        return ArrayDict(self.apply("full"))

    def rotate(self) -> None:
        """Rotate every array."""
        self.apply("rotate")

    def reset(self) -> None:
        """Reset the window of every array."""
        self.apply("reset")

    def close(self) -> None:
        self.apply("close")

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrayDict, (self._items,)

    def __repr__(self) -> str:
        return f"ArrayDict({self._items!r})"


def dict_map(function: Callable[..., Any], tree: Any, *others: Any, **kwargs: Any) -> Any:
    """Return `function(leaf, *leaves of others, **kwargs)` of every leaf, nested as the tree.

    Args:
        function: of one leaf of each argument.
        tree: an `ArrayDict`, or nested mappings and tuples of anything; None stays None.
        others: nested alike.
        **kwargs: for every call.

    Returns:
        Nested dicts and tuples; an `ArrayDict` if the tree is one and every result an array.
    """
    if tree is None:
        return None
    if isinstance(tree, tuple):
        return tuple(
            dict_map(function, *parts, **kwargs) for parts in zip(tree, *others, strict=True)
        )
    if not isinstance(tree, Mapping):
        return function(tree, *others, **kwargs)
    found = {
        name: dict_map(function, part, *(other[name] for other in others), **kwargs)
        for name, part in tree.items()
    }
    arrays = isinstance(tree, ArrayDict) and all(
        part is None or isinstance(part, BaseArray | ArrayDict) for part in found.values()
    )
    return ArrayDict(found) if arrays else found


def part_at(tree: Any, path: Sequence[str | int]) -> Any:
    """Return the array or tree at a path of a space; names of a Tuple's parts are "0", "1", ..."""
    for key in path:
        tree = tree[str(key)]
    return tree


def parts(value: Any) -> dict[str, Any] | None:
    """Return the named parts of a nested value, or None for anything else."""
    if isinstance(value, Mapping):
        return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        # Not asdict: it copies, and turns inner dataclasses into dicts.
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None) or map(str, range(len(value)))
        return dict(zip(names, value, strict=True))
    return None


def _paired(tree: ArrayDict, value: Any, prefix: str) -> list[tuple[tuple[str, BaseArray], Any]]:
    """Return ((dotted name, array), value to write) for every array of the tree."""
    given = parts(value)
    if given is None:
        return [(leaf, value) for leaf in tree.leaves(prefix)]
    there = {name for name, leaf in tree.items() if leaf is not None}
    missing, unknown = sorted(there - set(given)), sorted(set(given) - set(tree))
    if missing or unknown:
        raise InvalidOption(
            f"ArrayDict: a value for {prefix or 'the tree'!r} must have the names {list(tree)}; "
            f"missing {missing}, unknown {unknown}. Select fewer names, or pass all of them."
        )
    pairs = []
    for name, leaf in tree.items():
        if isinstance(leaf, ArrayDict):
            pairs += _paired(leaf, given[name], f"{prefix}{name}.")
        elif leaf is not None:
            pairs.append(((prefix + name, leaf), given[name]))
    return pairs


def _get(leaf: BaseArray, key: Any) -> Any:
    return leaf[key]


def _moved(leaf: Any, device: Any, non_blocking: bool, pinned: bool) -> Any:
    pinned = pinned and not str(device).startswith("cpu")

    def moved(part: Any) -> Any:
        part = part.pin_memory() if pinned else part
        return part.to(device, non_blocking=non_blocking)

    # A jagged array is several tensors.
    return mapped(moved, leaf.to_torch())


def _set(leaf: Any, key: Any, value: npt.ArrayLike) -> None:
    leaf[key] = value


def _call(leaf: BaseArray, method: str | Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if not isinstance(method, str):
        return method(leaf, *args, **kwargs)
    result = getattr(leaf, method)
    return result(*args, **kwargs) if callable(result) else result


def _named(name: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call, and put the name in front of what goes wrong."""
    try:
        result = call(*args, **kwargs)
        # On first use a wrong index could no longer say which leaf it was for.
        return result._settled() if isinstance(result, BaseArray) else result
    except (IndexError, TypeError, ValueError) as error:
        for kind in (IndexError, TypeError, ValueError):
            if isinstance(error, kind):
                # One of the three itself: a class derived from it may take other arguments.
                raise kind(f"{name}: {error}") from error
        raise
