"""ObsBuffer: observations of all sub-envs in one buffer; infos in gymnasium's format.

Observations lie in one buffer that steps write to and that batches are copied from; infos become
one dict of arrays with masks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array

from plangym_ext.arrays.spaces import ObsWriter, SpaceLayout
from plangym_ext.errors import InvalidObservation, WrongKind
from plangym_ext.vector.infos import GroupedInfos
from plangym_ext.vector.results import StepResults

#: Adds one env's info to those of all: gymnasium's `VectorEnv._add_info`.
AddInfo = Callable[[dict[str, Any], dict[str, Any], int], dict[str, Any]]


def layout_of(space: spaces.Space[Any]) -> SpaceLayout | None:
    """Return the layout of a space whose values are arrays of fixed sizes, else None."""
    try:
        return SpaceLayout(space)
    except TypeError:
        return None


def buffer_bytes(layout: SpaceLayout, num_rows: int) -> int:
    """Return the bytes of the memory for the observations of n rows."""
    return max(1, sum(_size(shape, dtype) for shape, dtype in _fields(layout, num_rows)))


def _fields(layout: SpaceLayout, num_rows: int) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
    return [((num_rows, *leaf.shape), leaf.dtype) for leaf in layout.leaves]


def _size(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    # To a cache line: rows of two leaves never share one.
    return -(-int(np.prod(shape)) * dtype.itemsize // 64) * 64


#: Kinds of values that cannot be written to.
_PLAIN = (bool, int, float, str, bytes, np.generic, type(None))


class ObsBuffer:
    """The observations of n rows.

    Args:
        space: of one row.
        num_rows: n.
        memory: uint8 array of at least `buffer_bytes`, such as memory that workers write to;
            None for memory of its own; or a `[n, ...]` array for each leaf of the space.
        strict: refuse observations that do not have the very shape and type of the space.

    Attributes:
        space, num_rows, strict: as given.
        layout: of the space, None if it has no array form.
        is_array: whether observations are kept in arrays; else they are kept as objects, and `put`
            copies observations from elsewhere.
    """

    def __init__(
        self,
        space: spaces.Space[Any],
        num_rows: int,
        memory: np.ndarray | tuple[np.ndarray, ...] | None = None,
        *,
        strict: bool = False,
    ) -> None:
        self.space, self.num_rows, self.strict = space, num_rows, strict
        self.layout = layout_of(space)
        self.is_array = self.layout is not None
        self._leaves: tuple[np.ndarray, ...] = ()
        self._values: list[Any] = [None] * num_rows
        if self.layout is not None:
            given = memory if isinstance(memory, tuple) else None
            self._leaves = given or _views(self.layout, num_rows, memory)
        # Made once for the space: to decide for every row how to copy takes longer than to copy.
        self.put = self._putter()

    def _putter(self) -> Callable[[int, Any], None]:
        """Return a function of a row and an observation that keeps it."""
        layout = self.layout
        if layout is None:
            values = self._values

            def keep(row: int, obs: Any) -> None:
                # An env may go on writing into what it has shown; arrays are copied anyhow.
                values[row] = copy.deepcopy(obs)

            return keep
        if self.strict:
            return ObsWriter(layout).into(self._leaves)
        if not layout.is_flat:
            return self._put_leaves
        (leaf,), (array,) = layout.leaves, self._leaves
        shape, dtype = leaf.shape, leaf.dtype

        def put(row: int, obs: Any) -> None:
            # Exact type: a subclass may mean something else by its elements, so it is converted.
            if type(obs) is np.ndarray and obs.shape == shape and obs.dtype == dtype:
                array[row] = obs
            else:
                self._put_leaves(row, obs)

        return put

    def _put_leaves(self, row: int, obs: Any) -> None:
        assert self.layout is not None
        try:
            parts = self.layout.split(obs)
        except (KeyError, IndexError, TypeError) as error:
            raise InvalidObservation(
                f"row {row}: expected an observation nested as {self.space}; "
                f"got {type(obs).__name__} ({error!r})"
            ) from error
        for leaf, array, part in zip(self.layout.leaves, self._leaves, parts, strict=True):
            value = np.asarray(part)
            # As gymnasium's own vector envs: cast, but only to the same kind of number.
            if value.shape != leaf.shape or not np.can_cast(value.dtype, leaf.dtype, "same_kind"):
                raise InvalidObservation(
                    f"row {row}: observation{leaf.name} must be {leaf.shape} {leaf.dtype}; "
                    f"got {value.shape} {value.dtype}. Correct the env, or cast in a wrapper."
                )
            array[row] = value

    def holds(self, obs: Any) -> bool:
        """Return whether `put` and then `rows` give an observation back as it is."""
        if self.layout is None:
            return False
        if not self.layout.is_flat:
            return is_nested(self.space, obs, _is_leaf)
        leaf = self.layout.leaves[0]
        return _is_array(obs, leaf.shape, leaf.dtype)

    def put_batch(self, rows: Any, obs: Any) -> None:
        """Store a batch of observations, nested as the space, for `rows`, an index."""
        if self.layout is None:
            raise WrongKind(f"put_batch: {self.space} has no array form")
        if self.layout.is_flat:
            self._leaves[0][rows] = obs
            return
        for array, part in zip(self._leaves, self.layout.split(obs), strict=True):
            array[rows] = part

    def batch(self, rows: Sequence[int] | None = None, *, copy: bool = True) -> Any:
        """Return the observations of some rows or of all, nested as the batched space.

        Args:
            rows: which; None for all.
            copy: whether they are the caller's own; without, those of all rows are this
                memory itself, which later steps change.
        """
        if self.layout is not None:
            leaves = self._leaves
            # The usual case first: to join leaves takes as long as to copy a small batch.
            if rows is None and copy and self.layout.is_flat:
                return leaves[0].copy()
            if rows is not None:
                leaves = tuple(leaf[rows] for leaf in leaves)
            elif copy:
                leaves = tuple(leaf.copy() for leaf in leaves)
            return self.layout.join(leaves)
        return self._stacked(range(self.num_rows) if rows is None else rows)

    def _stacked(self, chosen: Sequence[int]) -> Any:
        """Return observations that have no array form as gymnasium batches them."""
        values = [self._values[row] for row in chosen]
        out: Any = create_empty_array(self.space, n=len(values), fn=np.zeros)
        return concatenate(self.space, values, out)

    def taken(self, rows: range) -> tuple[Any, ...]:
        """Return a copy of adjoining rows' observations, for `give`."""
        if self.layout is None:
            return tuple(self._values[rows.start : rows.stop])
        if len(rows) == self.num_rows:  # without views, which cost as much as small copies
            return tuple([leaf.copy() for leaf in self._leaves])
        return tuple([leaf[rows.start : rows.stop].copy() for leaf in self._leaves])

    def give(self, rows: range, shown: tuple[Any, ...]) -> None:
        """Restore observations returned by `taken`."""
        if self.layout is None:
            self._values[rows.start : rows.stop] = shown
            return
        for leaf, part in zip(self._leaves, shown, strict=True):
            leaf[rows.start : rows.stop] = part

    def leaves(self, rows: Any) -> tuple[np.ndarray, ...]:
        """Return `[k, ...]` arrays of the observations of `rows`, an index; views for a slice.

        There are none where observations have no array form.
        """
        return tuple(leaf[rows] for leaf in self._leaves)

    def rows(self, rows: Sequence[int]) -> list[Any]:
        """Return the observation of each row, nested as the space, and the caller's own."""
        if self.layout is None:
            return [self._values[row] for row in rows]
        return [self.layout.join(tuple(leaf[r].copy() for leaf in self._leaves)) for r in rows]


def _is_leaf(space: spaces.Space[Any], obs: Any) -> bool:
    return _is_array(obs, space.shape, space.dtype)


def _is_array(obs: Any, shape: Any, dtype: Any) -> bool:
    # A number of an array comes back as a scalar, which is something else.
    return type(obs) is np.ndarray and obs.ndim > 0 and obs.shape == shape and obs.dtype == dtype


def _views(layout: SpaceLayout, num_rows: int, memory: Any) -> tuple[np.ndarray, ...]:
    if memory is None:
        memory = np.zeros(buffer_bytes(layout, num_rows), np.uint8)
    views, start = [], 0
    for shape, dtype in _fields(layout, num_rows):
        views.append(np.ndarray(shape, dtype, memory, start))
        start += _size(shape, dtype)
    return tuple(views)


# Infos -----------------------------------------------------------------------------


def infos_of(
    rows: Sequence[int], results: StepResults, num_envs: int, add_info: AddInfo
) -> dict[str, Any]:
    """Return infos in gymnasium's form, `{key: [n, ...] array, "_key": [n] bool}`.

    Args:
        rows: `[k]`, the number of each row of the results among the n.
        results: with the infos.
        num_envs: n.
        add_info: what defines the result; it is asked unless a quicker way gives the same.
    """
    infos, finals = results.infos, results.finals
    if isinstance(infos, GroupedInfos):
        return infos.batched(num_envs, rows)
    by_env = {rows[k]: info for k, info in infos}
    if not isinstance(rows, range):  # the caller's order, in which actions came
        by_env = dict(sorted(by_env.items()))
    # The usual step: every env says the same fields. To add them one env after another
    # takes longer and gives the same.
    if not finals and len(by_env) == num_envs > 1:
        columns = _columns(list(by_env.values()))
        if columns is not None:
            return columns
    ended = {rows[k]: (obs, info) for k, obs, info in finals}
    return _added(by_env, ended, add_info)


def _added(
    by_env: dict[int, dict[str, Any]],
    ended: dict[int, tuple[Any, dict[str, Any]]],
    add_info: AddInfo,
) -> dict[str, Any]:
    """Return infos, and observations and infos of envs that ended, added one after another."""
    batch: dict[str, Any] = {}
    # By number: which env comes first decides the dtype of a key's array.
    for env in sorted({*ended, *by_env}):
        for info in (*([_final(*ended[env])] if env in ended else []), by_env.get(env, {})):
            _keep_as_objects(batch, info)
            batch = add_info(batch, info, env)
    return batch


def _keep_as_objects(batch: dict[str, Any], info: dict[str, Any]) -> None:
    """Make columns of objects where an env tells an array of another shape than those before it."""
    for key, value in info.items():
        column = batch.get(key)
        if isinstance(value, dict) and isinstance(column, dict):
            _keep_as_objects(column, value)
        elif (
            isinstance(value, np.ndarray)
            and isinstance(column, np.ndarray)
            and column.dtype != object
            and column.shape[1:] != value.shape
        ):
            kept = np.full(len(column), None, object)
            for env in np.flatnonzero(batch[f"_{key}"]):
                kept[env] = column[env]
            batch[key] = kept


def _final(obs: Any, info: dict[str, Any]) -> dict[str, Any]:
    """Return the infos of an ending; its observation is left out if it is not wanted."""
    return {"final_info": info} if obs is None else {"final_obs": obs, "final_info": info}


def _columns(infos: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return one column a key, if all infos have the same keys, and values of one kind for each."""
    first = infos[0]
    if any(info.keys() != first.keys() for info in infos):
        return None
    # A key that is called as the mask of another one: gymnasium's way decides which it is.
    if any(key[:1] == "_" and key[1:] in first for key in first if isinstance(key, str)):
        return None
    found: dict[str, Any] = {}
    for key in first:
        column = _column([info[key] for info in infos])
        # gymnasium has a form of its own for that key: an array of objects.
        if column is None or key == "final_obs":
            return None
        found[key] = column
        found[f"_{key}"] = np.ones(len(infos), bool)
    return found


def _column(values: list[Any]) -> Any:
    kind = type(values[0])
    # Exact types: a mix, say of bool and int, would be cast to one of them.
    if any(type(value) is not kind for value in values):
        return None
    if kind in (int, float, bool) or issubclass(kind, np.number):
        return np.array(values, dtype=kind)
    if kind is np.ndarray:
        shape, dtype = values[0].shape, values[0].dtype
        same = all(value.shape == shape and value.dtype == dtype for value in values)
        return np.stack(values) if same else None
    if kind is dict:
        return _columns(values) if values[0] else None
    return None


def some_infos(infos: dict[str, Any], rows: Sequence[int]) -> dict[str, Any]:
    """Return the infos of some envs, for a call that stepped only those."""
    picked = list(rows)
    return {
        key: some_infos(value, rows) if isinstance(value, dict) else value[picked]
        for key, value in infos.items()
    }


def _own(value: Any) -> Any:
    """Return a value of an info as the caller's: an env may go on writing into what it told."""
    return value if isinstance(value, _PLAIN) else copy.deepcopy(value)


def listed_infos(num_rows: int, results: StepResults) -> list[dict[str, Any]]:
    """Return infos as one dict per row, unchanged.

    A row that was reset in the same step has `final_obs` and `final_info` beside its own.
    """
    found: list[dict[str, Any]] = [{} for _ in range(num_rows)]
    for k, info in results.infos:
        found[k] = {key: _own(value) for key, value in info.items()}
    finals = results.finals
    if isinstance(results.infos, GroupedInfos):
        finals = results.infos.finals()
    for k, obs, info in finals:
        found[k] |= _final(obs, info)
    return found


# Check that a value is nested as its Dict or Tuple space says -----------------


def is_nested(
    space: spaces.Space[Any], value: Any, is_leaf: Callable[[spaces.Space[Any], Any], bool]
) -> bool:
    """Return whether a value has exactly the nesting of a space.

    Args:
        space: nested or not.
        value: an element of it, or something else.
        is_leaf: whether a value is one of a space that is not nested.
    """
    if isinstance(space, spaces.Dict):
        known = type(value) is dict and list(value) == list(space)
        return known and all(is_nested(sub, value[key], is_leaf) for key, sub in space.items())
    if isinstance(space, spaces.Tuple):
        known = type(value) is tuple and len(value) == len(space)
        pairs = zip(space, value, strict=True) if known else ()
        return known and all(is_nested(sub, part, is_leaf) for sub, part in pairs)
    return is_leaf(space, value)
