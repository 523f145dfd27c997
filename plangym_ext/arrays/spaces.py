"""SpaceLayout: storage of a gymnasium space's values in leaf arrays; checks of observations."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from plangym_ext.arrays.nested import cells_of
from plangym_ext.errors import InvalidObservation, WrongKind

Path = tuple[str | int, ...]

#: Characters that a text may have whose space does not say how many.
TEXT_LENGTH = 512


@dataclass(frozen=True)
class Leaf:
    """One array of a (possibly nested) space: its path and its shape and dtype."""

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    space: spaces.Space[Any]

    @functools.cached_property
    def bounds(self) -> tuple[Any, Any]:
        """Smallest and largest value: arrays only if they are not the same everywhere."""
        low, high = (np.asarray(bound) for bound in _bounds(self.space))
        alike = (
            low.size and high.size and (low == low.flat[0]).all() and (high == high.flat[0]).all()
        )
        return (low.flat[0], high.flat[0]) if alike else (low, high)

    @functools.cached_property
    def is_object(self) -> bool:
        """Whether its arrays hold Python objects, which shared memory cannot."""
        return self.dtype.hasobject

    @property
    def name(self) -> str:
        """Path as text, for messages; empty for a space that is one array."""
        return "".join(f"[{key!r}]" for key in self.path)


_FIXED = spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary


def _leaves(space: spaces.Space[Any], objects: bool, items: bool, path: Path = ()) -> list[Leaf]:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts: Any = space.items() if isinstance(space, spaces.Dict) else enumerate(space)
        return [leaf for key, sub in parts for leaf in _leaves(sub, objects, items, (*path, key))]
    points = space.feature_space if items and isinstance(space, spaces.Sequence) else space
    if isinstance(points, _FIXED):
        return [Leaf(path, tuple(points.shape or ()), np.dtype(points.dtype), space)]
    # `Text`, or an env's own space of `str`, such as MiniGrid's missions.
    if objects and (isinstance(space, spaces.Text) or space.dtype == np.dtype(str)):
        length = getattr(space, "max_length", TEXT_LENGTH)
        return [Leaf(path, (), np.dtype(f"<U{length}"), space)]
    if objects:
        return [Leaf(path, (), np.dtype(object), space)]
    raise WrongKind(
        f"space{''.join(f'[{key!r}]' for key in path)}: {type(space).__name__} has no fixed-size "
        "array form; expected Box, Discrete, MultiDiscrete, MultiBinary, or Dict and Tuple of "
        "them. Flatten it with a wrapper first."
    )


class SpaceLayout:
    """The leaves of a space in a fixed order; converts values to leaves, and back.

    Args:
        space: Box, Discrete, MultiDiscrete, MultiBinary, or Dict and Tuple of them.
        objects: whether values without a fixed-size array form are leaves too: texts as
            unicode arrays of the space's `max_length`, or `TEXT_LENGTH` where it has none;
            those of any other space, such as Graph and Sequence, as arrays of objects.
        items: whether a Sequence is a leaf, of the shape and dtype of one of its points.

    Raises:
        TypeError: a space within has no fixed-size array form.
    """

    def __init__(
        self, space: spaces.Space[Any], *, objects: bool = False, items: bool = False
    ) -> None:
        self.space = space
        self.leaves = tuple(_leaves(space, objects, items))
        #: True when the space is one array, so values need no unpacking.
        self.is_flat = len(self.leaves) == 1 and not self.leaves[0].path

    def split(self, value: Any) -> tuple[Any, ...]:
        """Return the leaf values of one nested value, or of one nested batch, in leaf order.

        Raises:
            KeyError, IndexError, TypeError: the nesting is not that of the space.
        """
        if self.is_flat:
            return (value,)
        parts = []
        for leaf in self.leaves:
            part = value
            for key in leaf.path:
                part = part[key]
            parts.append(part)
        return tuple(parts)

    def join(self, parts: tuple[Any, ...]) -> Any:
        """Join what `split` returned: nested dicts and tuples around the given leaf values."""
        if self.is_flat:
            return parts[0]
        remaining = iter(parts)
        return self._join(self.space, remaining)

    def stack(self, values: Sequence[Any]) -> Any:
        """Return a batch `[L, ...]` of L single values, nested as the space; a fresh copy.

        Raises:
            KeyError, IndexError, TypeError, ValueError, InvalidObservation: a value is not one
                of the space.
        """
        rows = [self.split(value) for value in values]
        return self.join(
            tuple(_stacked(leaf, [row[k] for row in rows]) for k, leaf in enumerate(self.leaves))
        )

    def _join(self, space: spaces.Space[Any], parts: Any) -> Any:
        if isinstance(space, spaces.Dict):
            return {key: self._join(sub, parts) for key, sub in space.items()}
        if isinstance(space, spaces.Tuple):
            return tuple(self._join(sub, parts) for sub in space)
        return next(parts)


def _stacked(leaf: Leaf, parts: list[Any]) -> np.ndarray:
    if leaf.dtype.kind == "U":  # which numpy would cut to length
        return np.array([_checked_leaf(leaf, part) for part in parts], leaf.dtype)
    if not leaf.is_object:
        return np.array(parts, leaf.dtype)
    # Not np.array: it would look for a common shape within graphs and sequences.
    found = np.empty(len(parts), object)
    for i, part in enumerate(parts):
        # An env may go on writing to what it has returned.
        found[i] = copy.deepcopy(part)
    return found


class ObsWriter:
    """Checks the observations of one env and stores them in rows of leaf arrays."""

    def __init__(self, layout: SpaceLayout) -> None:
        self._layout = layout
        self._flat = layout.is_flat and isinstance(layout.space, spaces.Box)

    def into(self, arrays: tuple[np.ndarray, ...]) -> Callable[[int, Any], None]:
        """Return a function of a row `i` and an observation that stores it there.

        Args:
            arrays: one `[B, *leaf.shape]` array per leaf.

        The function raises `InvalidObservation` if the shape is not the space's, or the dtype
        is another that the space's cannot take without changing a value.
        """
        layout = self._layout
        if not self._flat:
            return functools.partial(_put_leaves, layout, arrays)
        (leaf,), (array,) = layout.leaves, arrays
        shape, dtype = leaf.shape, leaf.dtype
        if len(shape) == 1 and array.flags.c_contiguous:
            cells = cells_of(array.reshape(-1))
            if cells is not None:
                return _vector_writer(layout, array, cells)

        def put(i: int, obs: Any) -> None:
            if type(obs) is np.ndarray and obs.shape == shape and obs.dtype == dtype:
                array[i] = obs
            else:
                _put_leaves(layout, arrays, i, obs)

        return put


def _vector_writer(
    layout: SpaceLayout, array: np.ndarray, cells: Any
) -> Callable[[int, Any], None]:
    """Return the fast `ObsWriter.into` for short vectors; `cells` are the array's memory."""
    size = array.shape[1]

    def put(i: int, obs: Any) -> None:
        if type(obs) is np.ndarray:
            try:
                # Memory takes another vector's only if number and type are the same.
                cells[i * size : i * size + size] = obs
            except ValueError:
                pass
            else:
                return
        _put_leaves(layout, (array,), i, obs)

    return put


def _put_leaves(layout: SpaceLayout, arrays: tuple[np.ndarray, ...], i: int, obs: Any) -> None:
    try:
        parts = layout.split(obs)
    except (KeyError, IndexError, TypeError) as error:
        raise InvalidObservation(
            f"observation: expected the nesting of {layout.space}; "
            f"got {type(obs).__name__} ({error!r})"
        ) from error
    for leaf, array, part in zip(layout.leaves, arrays, parts, strict=True):
        array[i] = _checked_object(leaf, part) if leaf.is_object else _checked_leaf(leaf, part)


def _checked_object(leaf: Leaf, part: Any) -> Any:
    """Return a copy: an env may go on writing to what it has returned."""
    try:
        fits = leaf.space.contains(part)
    except Exception:  # a space may trip over what it has not been written for
        fits = False
    if not fits:
        raise InvalidObservation(
            f"observation{leaf.name}: expected an element of {leaf.space}; got "
            f"{repr(part)[:200]}. Correct the env, or its observation space."
        )
    return copy.deepcopy(part)


def _checked_leaf(leaf: Leaf, part: Any) -> np.ndarray:
    value = np.asarray(part)
    # numpy would store a longer text cut off, without an error.
    if leaf.dtype.kind == "U" and value.dtype.kind == "U" and value.shape == ():
        if value.itemsize <= leaf.dtype.itemsize:
            return value
        raise InvalidObservation(
            f"observation{leaf.name}: expected at most {leaf.dtype.itemsize // 4} characters; got "
            f"{value.itemsize // 4}. Shorten it with a TransformObservation."
        )
    # A Discrete observation may be a Python int; its value decides, not its type.
    is_int = isinstance(leaf.space, spaces.Discrete) and value.dtype.kind in "iu"
    if value.shape != leaf.shape or not (
        value.dtype == leaf.dtype or is_int or _holds(leaf.dtype, value)
    ):
        raise InvalidObservation(
            f"observation{leaf.name}: expected {leaf.shape} {leaf.dtype} as in its space; "
            f"got {value.shape} {value.dtype}. Correct the env or wrap it with a "
            "TransformObservation that casts."
        )
    return value


def _holds(dtype: np.dtype[Any], value: np.ndarray) -> bool:
    """Whether a dtype takes values as gymnasium's vector envs cast them, and changes none.

    Of floats the types alone decide: values that happen to be short say nothing of the next.
    """
    if dtype.kind not in "biuf" or value.dtype.kind not in "biuf":
        return False
    if value.dtype.kind == "f" or not np.can_cast(value.dtype, dtype, "same_kind"):
        return bool(np.can_cast(value.dtype, dtype, "safe"))
    with np.errstate(all="ignore"):
        # There and back: what has wrapped on the way does not compare equal.
        return bool((value.astype(dtype).astype(value.dtype) == value).all())


def own_copy(action: Any) -> Any:
    """Return a copy of an action, or of a batch, for an env that may write into it."""
    if type(action) is np.ndarray:
        return action.copy()
    return action if isinstance(action, np.generic | int) else copy.deepcopy(action)


def _bounds(space: spaces.Space[Any]) -> tuple[Any, Any]:
    if isinstance(space, spaces.Discrete):
        return int(space.start), int(space.start + space.n - 1)
    if isinstance(space, spaces.MultiDiscrete):
        start = getattr(space, "start", 0)
        return start, start + space.nvec - 1
    if isinstance(space, spaces.Box):
        return space.low, space.high
    return 0, 1
