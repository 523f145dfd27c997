"""`out=`: results written into arrays that the caller gives, such as a row of a sample tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from plangym_ext.arrays import Array, ArrayDict
from plangym_ext.arrays.spaces import Path
from plangym_ext.core.rows import RowLayout, RowResults, outgrown
from plangym_ext.errors import UnknownName, suggestion

#: Fields of a result that can be given, and what `RowBatch` calls them.
_NAMES = {
    "states": "states_out",
    "obs": "obs",
    "rewards": "rewards",
    "terminateds": "terminated",
    "truncateds": "truncated",
    "steps": "steps",
}
_STEP_FIELDS = ("states", "obs", "rewards", "terminateds", "truncateds")


class OutFields:
    """The arrays of one call's `out`, checked, and the results that go into them.

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
        if out is None:
            return
        self._given = _fields(out, where)
        known = _STEP_FIELDS if len(shape) == 1 else tuple(_NAMES)
        for name, value in self._given.items():
            if name not in known:
                raise UnknownName(
                    f"{where}: out has no field {name!r}; fields are {', '.join(known)}"
                    f"{suggestion(str(name), known)}"
                )
            if name == "obs":
                for k, leaf in enumerate(layout.obs.leaves):
                    place = f"{where}: out['obs']{leaf.name}"
                    part = _part(value, leaf.path, place)
                    self.arrays[f"obs{k}"] = _view(
                        part, (shape[0], *leaf.shape), (leaf.dtype,), place
                    )
            else:
                self.arrays[_NAMES[name]] = _view(
                    value, *_expected(layout, name, shape), f"{where}: out[{name!r}]"
                )

    def filled(self, found: RowResults) -> RowResults:
        """Copy what the backend has not written into the given arrays itself."""
        if not self.arrays:
            return found
        results = {
            "states_out": found.states,
            "rewards": found.rewards,
            "terminated": found.terminated,
            "truncated": found.truncated,
            "steps": found.steps,
        }
        results |= {f"obs{k}": leaf for k, leaf in enumerate(found.obs)}
        for name, target in self.arrays.items():
            value = results[name]
            if name == "states_out" and value.shape != target.shape:
                raise outgrown(value.shape, target.shape)
            if value is not target:
                target[...] = value.reshape(target.shape)
        return found

    def field(self, name: str, value: Any) -> Any:
        """Return the caller's own object for a field, if there is one, else the backend's value."""
        return self._given.get(name, value)

    def obs(self, found: RowResults) -> Any:
        """Return the observations, nested as the space."""
        if "obs" in self._given:
            return self._given["obs"]
        return self._layout.obs.join(found.obs)


def _fields(out: Any, where: str) -> dict[str, Any]:
    if not isinstance(out, Mapping):
        raise TypeError(
            f"{where}: out must map names of the result's fields to arrays; got {out!r}"
        )
    return dict(out)


def _part(value: Any, path: Path, where: str) -> Any:
    """Return the array for one leaf; a tree of arrays names what a tuple numbers."""
    for key in path:
        try:
            value = value[str(key) if isinstance(value, ArrayDict) else key]
        except (KeyError, IndexError, TypeError) as error:
            raise ValueError(
                f"{where} is missing: out['obs'] must be nested as the observation space; got "
                f"{type(value).__name__}, which has no {key!r}"
            ) from error
    return value


def _expected(
    layout: RowLayout, name: str, shape: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """Return the shape of a field, and the dtypes that it may have."""
    if name == "states":
        return (shape[0], layout.state_width), (np.uint8,)
    if name == "rewards":
        return shape, (np.float64, np.float32)  # sample trees hold float32, as networks do
    if name == "steps":
        return shape[:1], (np.int32,)
    return shape[:1], (np.bool_,)


def _view(value: Any, shape: tuple[int, ...], dtypes: tuple[Any, ...], where: str) -> np.ndarray:
    try:
        array = value.to_ndarray(copy=False) if isinstance(value, Array) else value
    except ValueError as error:
        raise ValueError(f"{where} must lie in memory of its own; {error}") from error
    kinds = " or ".join(np.dtype(dtype).name for dtype in dtypes)
    if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype not in dtypes:
        got = (
            f"{array.shape} {array.dtype}"
            if isinstance(array, np.ndarray)
            else type(value).__name__
        )
        raise ValueError(f"{where} must be an array {shape} {kinds}; got {got}")
    if not array.flags.writeable:
        raise ValueError(f"{where} must be writable; got a read-only array")
    return array
