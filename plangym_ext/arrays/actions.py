"""Check of a caller's actions against the env's action space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from plangym_ext.arrays.spaces import Leaf, SpaceLayout
from plangym_ext.errors import InvalidAction


def check_actions(
    layout: SpaceLayout,
    actions: Any,
    batch_shape: tuple[int, ...],
    where: str,
    *,
    as_given: bool = False,
) -> tuple[np.ndarray, ...]:
    """Return the leaf arrays of a batch of actions, in the space's own dtypes.

    Args:
        layout: of the action space.
        actions: arrays (nested as the space) with shape `batch_shape + leaf.shape`.
        batch_shape: `[B]` or `[B, H]`; -1 stands for any length.
        where: method name, for messages.
        as_given: whether dtypes stay the caller's, and ranges are left to the env.

    Returns:
        One array per leaf; the caller's own array where no cast was needed.

    Raises:
        InvalidAction: wrong nesting, shape, dtype, range, or NaN.
    """
    parts = (actions,) if layout.is_flat else _parts(layout, actions, where)
    return tuple(
        [
            _checked_actions(leaf, part, batch_shape, where, as_given)
            for leaf, part in zip(layout.leaves, parts, strict=True)
        ]
    )


def _parts(layout: SpaceLayout, actions: Any, where: str) -> tuple[Any, ...]:
    """Return the leaf values of actions that are nested as the space."""
    if not _nested_alike(layout.space, actions):
        raise InvalidAction(
            f"{where}: actions must be nested as {layout.space}, with arrays for leaves; "
            f"got {type(actions).__name__}"
        )
    return layout.split(actions)  # nested alike by now, so every key is there


def _nested_alike(space: spaces.Space[Any], value: Any) -> bool:
    """Return whether a value has the keys of every Dict and the lengths of every Tuple."""
    if isinstance(space, spaces.Dict):
        return (
            isinstance(value, Mapping)
            and value.keys() == space.keys()
            and all(_nested_alike(sub, value[key]) for key, sub in space.items())
        )
    if isinstance(space, spaces.Tuple):
        return (
            isinstance(value, tuple | list)
            and len(value) == len(space)
            and all(_nested_alike(sub, part) for sub, part in zip(space, value, strict=True))
        )
    return True


def _checked_actions(
    leaf: Leaf, part: Any, batch_shape: tuple[int, ...], where: str, as_given: bool
) -> np.ndarray:
    try:
        values = np.asarray(part)
    except Exception as error:  # whatever `__array__` of an object raises
        raise _no_array(leaf, where, error) from error
    if not (values.shape == (*batch_shape, *leaf.shape) and values.dtype == leaf.dtype):
        # Flags are taken for 0 and 1 where the env is given what its caller has.
        numbers = values.view(np.uint8) if as_given and values.dtype == np.bool_ else values
        _check_form(leaf, numbers, batch_shape, where)
    if as_given:
        return values
    low, high = leaf.bounds
    # Two reductions instead of four arrays: this is paid for every batch. NaN fails both.
    least, most = np.minimum.reduce, np.maximum.reduce
    plain = (
        low.ndim == 0 and values.size and (values.dtype == leaf.dtype or leaf.dtype.kind in "iu")
    )
    if not (plain and low <= least(values, axis=None) and most(values, axis=None) <= high):
        _check_range(leaf, values, where)
    return values.astype(leaf.dtype, copy=False)


def _no_array(leaf: Leaf, where: str, error: Exception) -> InvalidAction:
    return InvalidAction(
        f"{where}: actions{leaf.name} must be one array; rows differ in shape, or are no "
        f"numbers ({error})"
    )


def _check_form(leaf: Leaf, values: np.ndarray, batch_shape: tuple[int, ...], where: str) -> None:
    """Refuse another shape than a batch of actions has, and types that would change values."""
    ndim = len(batch_shape)
    shape_fits = (
        values.ndim == ndim + len(leaf.shape)
        and values.shape[ndim:] == leaf.shape
        and all(w in (-1, n) for w, n in zip(batch_shape, values.shape, strict=False))
    )
    # Whole numbers may become floats; floats cast to indices would silently lose their fractions.
    is_integer = leaf.dtype.kind in "iu"
    kind_fits = values.dtype.kind in ("iu" if is_integer else "iuf" + leaf.dtype.kind)
    if shape_fits and is_integer and values.dtype.kind == "f":
        raise InvalidAction(
            f"{where}: actions{leaf.name} must be whole numbers of an integer dtype, such as "
            f"{leaf.dtype}, for {leaf.space}; got {values.shape} {values.dtype}. Cast them with "
            ".astype(int)."
        )
    if not shape_fits or not kind_fits:
        names = ("B", "H")
        lead = [names[k] if w == -1 else str(w) for k, w in enumerate(batch_shape)]
        sizes = [*lead, *map(str, leaf.shape)]
        want = f"({', '.join(sizes)}{',' * (len(sizes) == 1)})"  # as numpy writes shapes
        raise InvalidAction(
            f"{where}: actions{leaf.name} must be {want} {leaf.dtype}, one row per state; "
            f"got {values.shape} {values.dtype}. "
            "For one action shared by all rows use np.broadcast_to."
        )


def _check_range(leaf: Leaf, values: np.ndarray, where: str) -> None:
    low, high = leaf.bounds
    cast = values
    if leaf.dtype.kind == "f" and values.dtype != leaf.dtype:
        # The comparison is in the space's dtype: a float64 copy of the bound is in range.
        with np.errstate(over="ignore"):  # too large for the dtype is out of range, too
            cast = values.astype(leaf.dtype)
    good = np.greater_equal(cast, low)  # False for NaN
    good &= cast <= high
    if np.logical_and.reduce(good, axis=None):
        return
    first = tuple(int(k) for k in np.argwhere(~np.asarray(good))[0])
    got = values[first] if values.ndim else values
    raise InvalidAction(
        f"{where}: actions{leaf.name} must lie in {leaf.space}; "
        f"got {got!r} at index {first}. Clip or re-index the actions first."
    )
