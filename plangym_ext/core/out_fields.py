"""The `out=` argument: batch results written into the caller's arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from plangym_ext.arrays import Array, ArrayDict
from plangym_ext.arrays.spaces import Path
from plangym_ext.core.results import (
    RESULT_FIELDS,
    Rollouts,
    RowResults,
    StateTransitions,
    shapes_by_axis,
)
from plangym_ext.core.rows import RowLayout, Shown, outgrown
from plangym_ext.errors import InvalidOption, UnknownName, WrongKind, suggestion


def _names_in(kind: type[Any]) -> tuple[str, ...]:
    """Return the fields of what a call returns that can be given."""
    return tuple(name for name in kind._fields if name != "infos")


class OutFields:
    """The checked arrays of one call's `out`, which receive the results.

    Args:
        layout: of the env's rows.
        out: what the caller gave, by the names of the result's fields; None for nothing.
        shape: `(B,)`, or `(B, H)` for a rollout.
        where: method name, for messages.

    Raises:
        UnknownName: a key is not a field of the result.
        ValueError: an array has another shape or dtype, cannot be written to, or was
            picked by index arrays, so that it has no memory of its own.

    Attributes:
        arrays: views by `RowBatch`'s names; those of a nested observation by leaf.
    """

    def __init__(
        self, layout: RowLayout, out: Mapping[str, Any] | None, shape: tuple[int, ...], where: str
    ) -> None:
        self._layout = layout
        self.arrays: dict[str, np.ndarray] = {}
        self._given: dict[str, Any] = {}
        if out is not None:
            self._check(out, shape, where)

    def _check(self, out: Mapping[str, Any], shape: tuple[int, ...], where: str) -> None:
        """Take the arrays of `out` that are given."""
        layout, self._given = self._layout, _fields(out, where)
        known = _names_in(StateTransitions if len(shape) == 1 else Rollouts)
        by_name = {one.shown: one for one in RESULT_FIELDS}
        shapes = shapes_by_axis(shape, layout.state_width)
        for name, value in self._given.items():
            check_name(name, known, where)
            if name == "obs":
                for k, leaf in enumerate(layout.obs.leaves):
                    place = f"{where}: out['obs']{leaf.name}"
                    part = part_at(value, leaf.path, place)
                    self.arrays[f"obs{k}"] = view_of(
                        part, (shape[0], *leaf.shape), (leaf.dtype,), place
                    )
            else:
                one = by_name[name]
                self.arrays[one.stored] = view_of(
                    value, shapes[one.axis], one.dtypes, f"{where}: out[{name!r}]"
                )

    def _fill(self, found: RowResults) -> None:
        """Copy results that the backend has not written directly into the given arrays."""
        results = {one.stored: getattr(found, one.name) for one in RESULT_FIELDS}
        results |= {f"obs{k}": leaf for k, leaf in enumerate(found.obs)}
        for name, target in self.arrays.items():
            value = results[name]
            if name == "states_out" and value.shape != target.shape:
                # States have grown wider than the array that was checked before the batch.
                raise outgrown(value.shape, target.shape)
            # Who wrote there returns the very array. Else one copy, which also casts rewards.
            if value is not target:
                target[...] = value.reshape(target.shape)

    def shown(self, kind: type[Shown], found: RowResults) -> Shown:
        """Return results as a call does, with the caller's own objects where there are some.

        Args:
            kind: of named tuple.
            found: results; those that were not written to the given arrays are copied there.

        Raises:
            ValueError: states have outgrown the array given for them.
        """
        if self.arrays:
            self._fill(found)
        shown = self._layout.shown(kind, found)
        # States may be given where they are not returned.
        given = {name: array for name, array in self._given.items() if name in kind._fields}
        return shown._replace(**given) if given else shown


def _fields(out: Any, where: str) -> dict[str, Any]:
    if not isinstance(out, Mapping):
        raise WrongKind(
            f"{where}: out must map names of the result's fields to arrays; got {out!r}"
        )
    return dict(out)


# Checks of any `out`, that of a vector env, too ---------------------------------------


def check_name(name: Any, known: Sequence[str], where: str) -> None:
    """Refuse a field that no result has.

    Raises:
        UnknownName: it is none of those known.
    """
    if name not in known:
        raise UnknownName(
            f"{where}: out has no field {name!r}; fields are {', '.join(known)}"
            f"{suggestion(str(name), known)}"
        )


def part_at(value: Any, path: Path, where: str) -> Any:
    """Return the array for one leaf; tuple positions have names in a tree of arrays.

    Raises:
        ValueError: it is not there.
    """
    for key in path:
        try:
            value = value[str(key) if isinstance(value, ArrayDict) else key]
        except (KeyError, IndexError, TypeError) as error:
            raise InvalidOption(
                f"{where} is missing: it must be nested as the observation space; got "
                f"{type(value).__name__}, which has no {key!r}"
            ) from error
    return value


def ndarray_of(value: Any, where: str, wanted: str = "") -> np.ndarray:
    """Return the numpy view of an array's memory; `wanted` is the requirement in messages.

    Raises:
        ValueError: it is no array, or was picked by index arrays and has no memory of its own.
    """
    try:
        # No copy: it would be filled in place of the caller's memory, and thrown away.
        array = value.to_ndarray(copy=False) if isinstance(value, Array) else value
    except ValueError as error:
        raise InvalidOption(f"{where} must lie in memory of its own; {error}") from error
    if not isinstance(array, np.ndarray):
        raise InvalidOption(f"{where} must be an array{wanted}; got {type(value).__name__}")
    return array


def view_of(
    value: Any, shape: tuple[int, ...], dtypes: Sequence[np.dtype[Any]], where: str
) -> np.ndarray:
    """Return an array that results can be written to, a view.

    Raises:
        ValueError: it is none, has another shape or dtype, or cannot be written to.
    """
    wanted = f" {shape} {' or '.join(dtype.name for dtype in dtypes)}"
    array = ndarray_of(value, where, wanted)
    if array.shape != shape or array.dtype not in dtypes:
        raise InvalidOption(f"{where} must be an array{wanted}; got {array.shape} {array.dtype}")
    check_writable(array, where)
    return array


def check_writable(array: np.ndarray, where: str) -> None:
    """Refuse an array that cannot be written to.

    Raises:
        ValueError: it is read-only.
    """
    if not array.flags.writeable:
        raise InvalidOption(f"{where} must be writable; got a read-only array")
