"""`JaggedArray`: cells with items of varying length, for graphs and point clouds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, final, get_args

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import indexing
from plangym_ext.arrays.array import Array
from plangym_ext.arrays.base import BaseArray
from plangym_ext.arrays.buffer import Storage, checked_dtype, checked_shape
from plangym_ext.arrays.heap import CELL, Heap, OnOverflow
from plangym_ext.arrays.indexing import Location
from plangym_ext.arrays.nested import as_tensor
from plangym_ext.errors import InvalidOption, WrongKind

Ndarray: TypeAlias = npt.NDArray[Any]


@final
class JaggedArray(BaseArray):
    """An `Array` whose cells each hold an item of varying length (any number of points).

    Batch axes are indexed, rotated and sent to other processes as in `Array`.
    The points of the column `[:, b]` share an arena of `max_mean_num_elem`
    points per row, padding and one more window included: a window whose items
    average `max_mean_num_elem` or less always fits, whatever the order of
    writing. Different columns may be written by different processes at once.

    Args:
        batch_shape: leading dimensions, each at least 1, e.g. (T, B).
        dtype: any numpy dtype without Python objects.
        max_mean_num_elem: int >= 1, points per item on average over a window.
        feature_shape: dimensions of one point.
        storage: as in `Array`.
        padding: as in `Array`.
        full_size: as in `Array`.
        on_overflow: when a column is full, "raise" and change nothing; "grow"
            (shared memory at most to 8 times the size); or "drop" the item,
            which leaves the cell empty, and warn.

    Raises:
        ValueError, TypeError: an argument does not fit; the message says why.
        StorageError: there is no shared memory left.
    """

    __slots__ = ("_cells", "_heap", "max_mean_num_elem")

    kind: Literal["default", "jagged"] = "jagged"

    def __init__(
        self,
        batch_shape: tuple[int, ...],
        dtype: npt.DTypeLike,
        *,
        max_mean_num_elem: int,
        feature_shape: tuple[int, ...] = (),
        storage: Storage = "local",
        padding: int = 0,
        full_size: int | None = None,
        on_overflow: OnOverflow = "raise",
    ) -> None:
        # All arguments are checked before any memory is made.
        (mean,) = checked_shape("max_mean_num_elem", (max_mean_num_elem,), 1)
        if on_overflow not in get_args(OnOverflow):
            raise InvalidOption(
                f"JaggedArray: on_overflow must be one of {get_args(OnOverflow)}; "
                f"got {on_overflow!r}."
            )
        feature_shape = checked_shape("feature_shape", feature_shape, 0)
        dtype = checked_dtype(dtype)
        cells: Array = Array(
            batch_shape, CELL, storage=storage, padding=padding, full_size=full_size
        )
        rows, *columns = cells._buffer.open_base("create").shape
        # While a window is rewritten, old and new items of its rows coexist.
        limit = (rows + cells.shape[0]) * mean
        heap = Heap.create(int(np.prod(columns)), limit, feature_shape, dtype, storage, on_overflow)
        self._hold(cells, heap, mean)

    def _hold(self, cells: Array, heap: Heap, mean: int) -> None:
        self._cells = cells
        self._heap = heap
        self._buffer = cells._buffer
        self.max_mean_num_elem = mean

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of one value of a point."""
        return self._heap.dtype

    @property
    def on_overflow(self) -> OnOverflow:
        """Policy for a full column."""
        return self._heap.on_overflow

    @property
    def shape(self) -> tuple[int, ...]:
        """`batch_shape + (max_mean_num_elem,) + feature_shape`; see `lengths`."""
        return (*self._cells.shape, self.max_mean_num_elem, *self._heap.feature_shape)

    @property
    def n_batch_dims(self) -> int:
        return len(self._cells.shape)

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """Shape of one point."""
        return self._heap.feature_shape

    @property
    def last(self) -> int:
        return self._cells.last

    @property
    def nbytes(self) -> int:
        """Bytes of the arenas of all points; pages that were never written to take no room."""
        return self._heap._points.nbytes

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of points of each item, `[*batch]` int64, fresh."""
        return np.array(self._cells.to_ndarray()["length"])

    def _spec(self) -> dict[str, Any]:
        return {
            **self._cells._spec(),
            "dtype": self.dtype,
            "kind": "jagged",
            "max_mean_num_elem": self.max_mean_num_elem,
            "on_overflow": self.on_overflow,
        }

    def _location(self, verb: str) -> Location:
        return self._cells._location(verb)

    def _at(self, location: Location) -> JaggedArray:
        return _jagged(self._cells._at(location), self._heap, self.max_mean_num_elem)

    def __getitem__(self, key: Any) -> JaggedArray:
        """Return a view; batch axes only, points are reached through `to_ndarray`."""
        return _jagged(self._cells[key]._settled(), self._heap, self.max_mean_num_elem)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write items.

        Args:
            key: as in `__getitem__`.
            value: an array `[points, *feature]`, written to every cell; a
                list, which is one item if the view is one cell, and holds
                one value per row otherwise; a `JaggedArray` of the same
                batch shape, or what its `to_ndarray` gave; or 0, no points.

        Raises:
            ValueError: an item has the wrong shape, or its column is full.
            TypeError: the value is none of these.
        """
        view = self[key]
        shape = view.batch_shape
        if isinstance(value, (list, tuple)) and shape:
            if len(value) != shape[0]:
                raise InvalidOption(
                    f"JaggedArray: a list must have one value per row, {shape[0]} for batch shape "
                    f"{shape}; got {len(value)}. One item for every cell must be an array."
                )
            # Row by row, each as if assigned alone: parts may be nested lists again.
            for row, part in enumerate(value):
                view[row] = part
            return
        cells = view._positions()
        for (row, column), item in zip(cells, self._items(value, shape), strict=True):
            view._heap.put(column, view._table(column), row, item)

    def _items(self, value: Any, shape: tuple[int, ...]) -> list[Ndarray]:
        """Return one item per cell of a view of `shape`, each checked."""
        n_cells = int(np.prod(shape))
        if isinstance(value, JaggedArray):
            if value.batch_shape != shape:
                raise InvalidOption(
                    f"JaggedArray: a jagged value must have batch shape {shape}; "
                    f"got {value.batch_shape}."
                )
            value = value.to_ndarray()
        if isinstance(value, Mapping):
            if set(value) != {"pos", "ptr"} or len(value["ptr"]) != n_cells + 1:
                raise InvalidOption(
                    f"JaggedArray: a mapping must have 'pos' and 'ptr' with {n_cells + 1} entries "
                    f"for batch shape {shape}; got "
                    f"{ {name: np.shape(part) for name, part in value.items()} }."
                )
            # `ptr` has an entry more than there are cells: the last one is the end of all.
            starts, ends = value["ptr"][:-1], value["ptr"][1:]
            return [self._item(value["pos"][i:j]) for i, j in zip(starts, ends, strict=True)]
        # One copy for all cells: `put` copies it into each.
        return [self._item(value)] * n_cells

    def _item(self, value: Any) -> Ndarray:
        """Return one item as `[points, *feature]` of the dtype."""
        feature = self._heap.feature_shape
        try:
            item = np.asarray(value)
        except ValueError as error:
            raise InvalidOption(
                f"JaggedArray: an item must have shape (points, *{feature}); got rows of different "
                f"lengths. A list of items needs a view with a row for each."
            ) from error
        if item.ndim == 0 and (item.dtype.kind not in "iu" or item != 0):
            raise WrongKind(
                f"JaggedArray: an item must be an array of points, or 0 for no points; "
                f"got {type(value).__name__} {value!r}. One point is an array of length 1."
            )
        # Numpy makes `(0,)` of an empty list, whatever the shape of a point.
        if item.ndim == 0 or item.shape == (0,):
            return np.zeros((0, *feature), self.dtype)
        if item.ndim != 1 + len(feature) or item.shape[1:] != feature:
            raise InvalidOption(
                f"JaggedArray: an item must have shape (points, *{feature}); got {item.shape}. "
                f"One point is an array of length 1."
            )
        return item.astype(self.dtype)

    def _positions(self) -> list[tuple[int, int]]:
        """Return (row, column) in the buffer of each cell, in C order."""
        location = self._location("write")
        base = self._buffer.open_base("write")
        if all(isinstance(entry, int) for entry in location):
            places = [np.asarray(entry) for entry in location]
        else:
            places = [
                # Every axis's positions, as wide as the buffer, without memory of their own.
                indexing.take(np.broadcast_to(axis, base.shape), location)
                for axis in np.ogrid[tuple(slice(size) for size in base.shape)]
            ]
        if not places:
            return [(0, 0)]
        columns = np.zeros(places[0].shape, np.intp)
        for place, size in zip(places[1:], base.shape[1:], strict=True):
            # The number of a column in C order over all axes but the rows.
            columns = columns * size + place
        return list(zip(places[0].ravel().tolist(), columns.ravel().tolist(), strict=True))

    def _table(self, column: int) -> Ndarray:
        """Return all cells of a column, padding included: a view `[rows]`."""
        base = self._buffer.open_base("write")
        return base.reshape(base.shape[0] if base.ndim else 1, -1)[:, column]

    def to_ndarray(self) -> dict[str, Ndarray]:
        """Return the visible items as positions and pointers.

        Returns:
            "pos", `[points, *feature]`, the points of all cells in C order;
            "ptr", `[cells + 1]` int64: cell i has `pos[ptr[i]:ptr[i + 1]]`.
            Both fresh.
        """
        cells = self._cells.to_ndarray().ravel()
        columns = np.array([column for _, column in self._positions()], np.int64)
        ptr = np.zeros(len(cells) + 1, np.int64)
        # ptr[0] stays 0.
        np.cumsum(cells["length"], out=ptr[1:])
        return {"pos": self._heap.gather(columns, cells), "ptr": ptr}

    def to_torch(self) -> dict[str, Any]:
        """Return `to_ndarray` as torch tensors, fresh."""
        return {name: as_tensor(part) for name, part in self.to_ndarray().items()}

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Ndarray:
        """Return the item of a single cell, `[points, *feature]`, fresh."""
        if self.batch_shape:
            raise WrongKind(
                f"JaggedArray: only a single cell is a numpy array; got batch shape "
                f"{self.batch_shape}. Use to_ndarray() for positions and pointers."
            )
        if copy is False:
            raise InvalidOption(
                "JaggedArray: points are gathered; a view without a copy is not there."
            )
        return np.asarray(self.to_ndarray()["pos"], dtype)

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> Any:
        """Call a numpy function with the items of single cells; several cells raise TypeError."""
        # By itself `np.array_equal` answers False for what it cannot convert.
        del types
        if func is np.shape:
            return self.shape
        return func(*_as_numpy(args), **{name: _as_numpy(part) for name, part in kwargs.items()})

    def rotate(self) -> None:
        """Move the window as `Array.rotate` does."""
        self._cells.rotate()

    def reset(self) -> None:
        """Move the window as `Array.reset` does."""
        self._cells.reset()

    def close(self) -> None:
        """Release the memory; safe to call twice. Views raise from here on."""
        self._cells.close()
        self._heap.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> JaggedArray:
        """Return an array with its own memory; of a view, only the visible part."""
        if self._cells._window is not None:
            cells = self._cells.__deepcopy__(memo)
            return _jagged(cells, self._heap.copy(), self.max_mean_num_elem)
        return self._detach()

    def _detach(self) -> JaggedArray:
        shown = self.to_ndarray()
        rows, *columns = self.batch_shape or (1,)
        # Room for any way of spreading the points over the columns.
        limit = max(2 * rows * self.max_mean_num_elem, len(shown["pos"]))
        heap = Heap.create(
            int(np.prod(columns)),
            limit,
            self.feature_shape,
            self.dtype,
            self.storage,
            self.on_overflow,
        )
        cells = self._cells.__deepcopy__({})
        copy = _jagged(cells, heap, self.max_mean_num_elem)
        # Cells were copied with places in the old heap: they hold no points of the new one.
        copy._buffer.open_base("copy")[...] = 0
        copy[...] = shown
        return copy

    def __reduce__(self) -> tuple[Any, ...]:
        """Refer to shared memory; copy local memory, of a view only what it shows."""
        # A view of local memory would take the whole heap along.
        whole = self._cells._window is not None
        source = self._detach() if self.storage == "local" and not whole else self
        return _jagged, (source._cells, source._heap, self.max_mean_num_elem)

    def __repr__(self) -> str:
        if self.closed:
            return f"JaggedArray(closed, storage={self.storage!r})"
        return f"JaggedArray(lengths={self.lengths.tolist()}, dtype={self.dtype})"


def _jagged(cells: Array, heap: Heap, mean: int) -> JaggedArray:
    array = object.__new__(JaggedArray)
    array._hold(cells, heap, mean)
    return array


def _as_numpy(part: Any) -> Any:
    """Return the same with numpy arrays for jagged ones, at any depth of lists and tuples."""
    if isinstance(part, list | tuple):
        found = [_as_numpy(one) for one in part]
        return tuple(found) if isinstance(part, tuple) else found
    return np.asarray(part) if isinstance(part, JaggedArray) else part
