"""Infos of a batch: numeric fields as columns, other fields per row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import cells_of
from plangym_ext.core.masks import MASK, flat_mask
from plangym_ext.errors import NoSuchIndex


@dataclass(frozen=True)
class InfoColumn:
    """One numeric info field. Only values of exactly `kind` and `shape` are stored in it."""

    key: str
    kind: type
    dtype: str
    shape: tuple[int, ...] = ()


#: The columns that every batch has.
_COUNTS = ("n_step", "dt")
_SCALARS: dict[type, str] = {bool: "|b1", int: "<i8", float: "<f8"}


def _with_flat_mask(info: Mapping[str, Any]) -> Mapping[str, Any]:
    mask = info.get(MASK)
    if mask is None or isinstance(mask, np.ndarray):
        return info
    return {**info, MASK: flat_mask(mask)}


def info_values(infos: Any, name: str, count: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the values of an info of all rows, `[B, ...]`, and `[B]` bool, its presence by row.

    Values of several types come as the one that holds all: 0 beside 12.5 is 0.0. What goes into
    no array of numbers is one of objects. Where nothing was told there are zeros.
    """
    own: Mapping[int, Mapping[str, Any]] = getattr(infos, "own", {})
    column = np.asarray(infos[name]) if name in infos.keys() else None  # noqa: SIM118
    known = np.full(count, column is not None)
    if not own:
        return (np.zeros(count) if column is None else column), known
    # Rows of other fields or types than the first step's have zeros in the columns.
    known[list(own)] = [name in info for info in own.values()]
    told = np.flatnonzero(known).tolist()
    values = [own[row][name] if row in own else column[row] for row in told]  # type: ignore[index]
    if not values:
        return np.zeros(count), known
    if len({np.shape(value) for value in values}) == 1:
        listed = np.array(values)
    else:
        listed = np.empty(len(values), object)
        listed[:] = values
    found = np.zeros((count, *listed.shape[1:]), listed.dtype)
    found[told] = listed
    return found, known


def _column(key: str, value: Any) -> InfoColumn | None:
    if key == MASK:
        value = flat_mask(value)
    # The very type, as a bool is an int, and True would come back as 1.
    kind = type(value)
    if kind in _SCALARS:
        return InfoColumn(key, kind, _SCALARS[kind])
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        return InfoColumn(key, kind, value.dtype.str, value.shape)
    return None


class InfoWriter:
    """Stores the infos of one env in the columns of a batch.

    Args:
        example: info of one step; its numeric fields become the columns.
    """

    def __init__(self, example: Mapping[str, Any]) -> None:
        # Lists and tuples are looked for in each info only if this one has some.
        self._masks_are_arrays = example is _with_flat_mask(example)
        found = [_column(key, value) for key, value in example.items()]
        self.columns = tuple(column for column in found if column is not None)
        # Fields without a column that every step carries do not make a row odd, as long
        # as they hold no number.
        self._plain = set(example)
        self._silent = tuple(self._plain - {column.key for column in self.columns})
        #: Whether the columns hold every field, as far as the example tells.
        self.holds_all = not self._silent

    def into(
        self, arrays: tuple[np.ndarray, ...]
    ) -> Callable[[int, dict[str, Any]], dict[str, Any] | None]:
        """Return a function of a row `i` and an info that stores it there.

        It returns None if the columns hold the info's numeric fields, else those
        fields: a key is new or missing, or a value has another type than its column.

        Args:
            arrays: one `[B, ...]` array per column; others may follow.
        """
        columns = list(zip(self.columns, arrays, strict=False))
        vectors = [(c, a) for c, a in columns if c.kind is np.ndarray]
        scalars: list[tuple[str, type, Any]] = []
        for column, array in columns:
            if column.kind is not np.ndarray:
                cells = cells_of(array)
                scalars.append((column.key, column.kind, array if cells is None else cells))
        silent, size, as_they_are = self._silent, len(self._plain), self._masks_are_arrays

        def put(i: int, info: dict[str, Any]) -> dict[str, Any] | None:
            if not as_they_are:
                info = dict(_with_flat_mask(info))
            # As many keys as there should be, and each of those is found below.
            if len(info) != size:
                return self._odd(columns, i, info)
            try:
                for key, kind, cells in scalars:
                    value = info[key]
                    if type(value) is not kind:
                        return self._odd(columns, i, info)
                    cells[i] = value
                for column, array in vectors:
                    value = info[column.key]
                    if not _fits(column, value):
                        return self._odd(columns, i, info)
                    array[i] = value
                for key in silent:
                    if _column(key, info[key]) is not None:
                        return self._odd(columns, i, info)
            except (KeyError, ValueError, OverflowError):
                # A field is missing, or an int is too large for its column.
                return self._odd(columns, i, info)
            return None

        return put

    def _odd(self, columns: Any, i: int, info: dict[str, Any]) -> dict[str, Any]:
        """Store what fits, and zeros for the rest; returns all numeric fields."""
        info = dict(_with_flat_mask(info))
        for column, array in columns:
            value = info.get(column.key)
            array[i] = value if _fits(column, value) else 0
        return {key: value for key, value in info.items() if _column(key, value) is not None}


def _fits(column: InfoColumn, value: Any) -> bool:
    """Return whether a column can hold a value as it is."""
    if type(value) is not column.kind:
        return False
    if isinstance(value, np.ndarray):
        return value.shape == column.shape and value.dtype == column.dtype
    # What int64 holds; a Python int has no bounds.
    return not isinstance(value, int) or -(2**63) <= value < 2**63


class InfoBatch(Sequence[dict[str, Any]]):
    """The infos of a batch: numeric fields as columns, and dicts by row.

    `infos["lives"]` is a `[B]` array; `infos[3]` is the dict of row 3; iterating
    gives one dict a row, as a list of infos would. Every batch has the columns
    `n_step` (env steps taken) and `dt` (control steps asked for).

    Args:
        columns: arrays `[B, ...]` by field.
        own: rows whose fields differ from the columns (their entries there are 0).
    """

    def __init__(
        self, columns: Mapping[str, np.ndarray], own: Mapping[int, Mapping[str, Any]]
    ) -> None:
        self._columns = dict(columns)
        self._own = {i: dict(row) for i, row in own.items()} if own else {}
        self._size = len(self._columns["n_step"])

    @property
    def own(self) -> Mapping[int, dict[str, Any]]:
        """Infos of the rows whose fields differ from the columns, by row."""
        return self._own

    def keys(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._columns)

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, key: str) -> np.ndarray: ...
    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, key: str | int | slice) -> Any:
        if isinstance(key, str):
            if key not in self._columns:
                raise KeyError(f"infos: no column {key!r}; columns are {self.keys()}")
            return self._columns[key]
        if isinstance(key, slice):
            return [self._row(i) for i in range(*key.indices(self._size))]
        row = key + self._size if key < 0 else key
        if not 0 <= row < self._size:
            raise NoSuchIndex(f"infos: row {key} of {self._size}")
        return self._row(row)

    def _row(self, i: int) -> dict[str, Any]:
        own = self._own.get(i)
        keys = _COUNTS if own is not None else tuple(self._columns)
        row = dict(own or {})
        for key in keys:
            column = self._columns[key]
            value = column[i]
            # Python's own number types where it has them; numpy's narrower ones stay what
            # the env made them, as in the info of a single step.
            usual = key in _COUNTS or column.dtype.str in _SCALARS.values()
            row[key] = value.item() if column.ndim == 1 and usual else value.copy()
        return row

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self._row(i) for i in range(self._size))

    def __repr__(self) -> str:
        return f"InfoBatch({self._size} rows, columns {self.keys()})"
