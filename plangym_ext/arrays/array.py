"""`Array`: rows of data with a sliding window, padding and index-aware views."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, final

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import indexing
from plangym_ext.arrays.axes import Axis, Trail, lay_out, location_of, place, quick_select, visible
from plangym_ext.arrays.base import BaseArray, make
from plangym_ext.arrays.buffer import Buffer, Storage, Window, misfit
from plangym_ext.arrays.indexing import Location, Span, frozen
from plangym_ext.arrays.nested import as_tensor
from plangym_ext.errors import InvalidOption, WrongKind

Ndarray: TypeAlias = npt.NDArray[Any]

_new = object.__new__


@final
class Array(BaseArray):
    """An array for storing data, indexed relative to a window of its rows.

    The leading batch axis has `batch_shape[0]` visible rows out of
    `full_size`, with `padding` more on either side; `rotate` moves the window.
    Index 0 is the first visible row, -1 the row before it, `last + 1` the row
    after the last. Indexing gives a view, whatever the index: writing into
    it writes here, in this process and in those the view was sent to. A view
    keeps pointing at the data it was taken from when the window rotates.

    Args:
        batch_shape: leading dimensions, each at least 1, e.g. (T, B).
        dtype: any numpy dtype without Python objects.
        feature_shape: trailing dimensions of one element.
        kind: "default", or "jagged" for items of varying length; the result
            is then a `JaggedArray`, which takes more arguments.
        storage: "local" memory of this process (a pickle copies); "shared"
            memory (a pickle refers to it); "inherited", shared memory that
            only crosses as an argument of a multiprocessing Process.
        padding: hidden rows on either side, at most `batch_shape[0]`.
        full_size: rows that the window slides over, a multiple of
            `batch_shape[0]`; by default that one number.

    The memory starts as zeros and lives until the array and its last view are
    gone.

    Raises:
        ValueError, TypeError: an argument does not fit; the message says why.
        StorageError: there is no shared memory left.
    """

    __slots__ = ("_axes", "_data", "_pending", "_picked", "_reach", "_trail", "_window")

    _reach: Ndarray | None  # all that basic indices can reach; None if picked by arrays
    _axes: Axis | None  # None for a single element, and if picked by arrays
    _trail: Trail | None
    _data: Ndarray | None  # the visible part of the reach, once asked for
    _window: Window | None  # of an array that can rotate; None in views
    _picked: Location | None  # where a view picked by arrays lies
    # (array, its axes back then, index, rows later) of a view whose first use finds where it lies
    _pending: tuple[Array, Axis | None, Any, int] | None

    kind: Literal["default", "jagged"] = "default"

    def __new__(
        cls,
        batch_shape: tuple[int, ...],
        dtype: npt.DTypeLike,
        *,
        feature_shape: tuple[int, ...] = (),
        kind: str = "default",
        storage: Storage = "local",
        padding: int = 0,
        full_size: int | None = None,
        **jagged: Any,
    ) -> Any:
        """Return an `Array`, or a `JaggedArray` for kind "jagged"."""
        if kind != "default":
            return make(
                kind=kind,
                batch_shape=batch_shape,
                dtype=dtype,
                feature_shape=feature_shape,
                storage=storage,
                padding=padding,
                full_size=full_size,
                **jagged,
            )
        if jagged:
            raise WrongKind(
                f"Array: unknown arguments {sorted(jagged)} for kind 'default'. Items of varying "
                "length need kind='jagged'."
            )
        created = Buffer.create(batch_shape, dtype, feature_shape, storage, padding, full_size)
        return _whole(*created)

    def _spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"dtype": self.dtype, "storage": self.storage}
        if self._window is not None:
            spec.update(padding=self.padding, full_size=self.full_size)
        return spec

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of one value."""
        return self._buffer.open_base("read the dtype of").dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Visible shape: `batch_shape + feature_shape`."""
        self._settled()
        if self._picked is not None:
            return indexing.shape_of(self._picked)
        shape, axes = [], self._axes
        while axes is not None:
            shape.append(axes[3])
            axes = axes[2]
        return tuple(shape)

    def __getitem__(self, key: Any) -> Array:
        """Return a view; nothing is copied. The rules are those of `indexing`.

        A wrong row, element or window raises at once, others on first use at the latest.
        """
        # One int, two ints and one slice are what loops over time and rows
        # use. Whatever takes longer to find is put off until it is needed.
        axes = self._axes
        reach = self._reach
        if axes is None or reach is None or self._buffer.base is None:
            return self._settled()._select(key, self._axes)
        view = _new(Array)
        view._buffer = self._buffer
        view._data = view._window = view._picked = view._pending = None
        offset, size, inner, length, _, lattice = axes
        if type(key) is int:
            if not 0 <= (at := offset + key) < size:
                return self._select(key, axes)
            view._reach = data = reach[at, ...]
            view._axes = inner
            view._trail = (self._trail, axes, key)
            if inner is None or inner[4]:
                view._data = data
            return view
        if type(key) is tuple and len(key) == 2 and inner is not None:
            i, j = key
            if type(i) is type(j) is int:
                if not (0 <= (i := offset + i) < size and 0 <= (j := inner[0] + j) < inner[1]):
                    return self._select(key, axes)
                view._reach = data = reach[i, j, ...]
                view._axes = rest = inner[2]
                view._trail = (self._trail, axes, key)
                if rest is None or rest[4]:
                    view._data = data
                return view
        elif type(key) is slice and key.step is None:
            start = 0 if key.start is None else key.start
            stop = length if key.stop is None else key.stop
            if not type(start) is type(stop) is int:
                return self._select(key, axes)
            if not 0 <= (at := offset + start) <= offset + stop <= size:
                return self._select(key, axes)
            whole = stop - start == size and (inner is None or inner[4])
            view._axes = (at, size, inner, stop - start, whole, lattice)
            view._reach = reach
            view._trail = self._trail
            return view
        if (kept := key if type(key) is slice else frozen(key)) is None:
            return self._select(key, axes)
        view._reach = view._axes = view._trail = None
        view._pending = (self, axes, kept, 0)
        return view

    def _settled(self) -> Array:
        """Return this view once it is known where it lies."""
        if (pending := self._pending) is not None:
            array, axes, key, by = pending
            view = array._select(key, axes, by)
            self._trail, self._picked = view._trail, view._picked
            # Last, since another thread takes axes or no pending index for done.
            self._reach, self._axes = view._reach, view._axes
            self._pending = None
        return self

    def _select(self, key: Any, axes: Axis | None, by: int = 0) -> Array:
        """Return the view for any index from `axes`, or say what is wrong with it."""
        reach = self._reach
        base = self._buffer.open_base("index")
        if axes is not None and reach is not None and not by and (found := quick_select(axes, key)):
            index, inner = found
            trail = (self._trail, axes, key) if isinstance(key, tuple) else self._trail
            return _view(self._buffer, reach[index] if index else reach, inner, trail)
        location = self._picked or location_of(base, axes, self._trail)
        if by:
            return self._at(indexing.shifted(location, by, base.shape[0]))
        return self._at(indexing.select(location, key, self._buffer.n_batch))

    def _shifted(self, by: int) -> Array:
        self._settled()._buffer.open_base("view")
        view = _view(self._buffer, None, None, None)
        view._pending = (self, self._axes, None, by)
        return view

    def _at(self, location: Location) -> Array:
        return _view_at(self._buffer, location)

    def _location(self, verb: str) -> Location:
        base = self._settled()._buffer.open_base(verb)
        return self._picked or location_of(base, self._axes, self._trail)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write into the visible part of `self[key]`; numpy's rules for the value.

        Raises:
            ValueError, TypeError: the value does not broadcast or convert.
        """
        axes = self._axes
        at = None if axes is None or self._buffer.base is None else place(axes, key)
        if at is None:
            (self if key is Ellipsis else self[key])._write(value)
            return
        if type(value) is Array:
            # numpy would ask it for int() or float() if a single value is set.
            value = value.to_ndarray()
        try:
            self._reach[at] = value  # type: ignore[index]
        except (TypeError, ValueError) as error:
            raise misfit(self[key].shape, self.dtype, value, error) from error

    def _write(self, value: Any) -> None:
        self._settled()
        try:
            if self._picked is None:
                self.to_ndarray()[...] = value
            else:
                view, index = indexing.split(self._buffer.open_base("write"), self._picked)
                view[index] = value
        except (TypeError, ValueError) as error:
            raise misfit(self.shape, self.dtype, value, error) from error

    def to_ndarray(self, *, copy: bool | None = None) -> Ndarray:
        """Return the visible part as a numpy array.

        Args:
            copy: False raises rather than copy; True copies always; None copies where it must.

        Returns:
            `[*shape]` of the array's dtype: a writable view of the same memory, valid for
            as long as the caller keeps it, 0-dimensional for a single element; a copy if
            one is asked for, or the view was picked by arrays or masks.

        Raises:
            ValueError: `copy` is False and the view was picked by arrays or masks.
        """
        data = self._data
        if data is None or self._buffer.base is None:
            base = self._settled()._buffer.open_base("read")
            if self._picked is not None:
                if copy is False:
                    raise InvalidOption(
                        f"Array: a view picked by arrays or masks, here of shape {self.shape}, has "
                        f"no memory of its own. Pick with slices, or copy it."
                    )
                return indexing.take(base, self._picked)
            assert self._reach is not None
            axes = self._axes
            whole = axes is None or axes[4]
            self._data = data = self._reach if whole else visible(self._reach, axes)
        return data.copy() if copy else data

    def to_torch(self) -> Any:
        """Return the visible part as a torch tensor; see `tensors.as_tensor`."""
        return as_tensor(self.to_ndarray())

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Ndarray:
        """Return `to_ndarray`, converted or copied as numpy asks."""
        if dtype is None and not copy:
            data = self._data
            return self.to_ndarray() if data is None or self._buffer.base is None else data
        return np.array(self.to_ndarray(), dtype=dtype, copy=copy)

    def __eq__(self, other: object) -> Any:
        return self.to_ndarray() == np.asarray(other)

    def __ne__(self, other: object) -> Any:
        return self.to_ndarray() != np.asarray(other)

    __hash__ = None  # type: ignore[assignment]

    def rotate(self) -> None:
        """Move the window to the next `batch_shape[0]` rows, or to the first after the last.

        Going back to the first rows copies the 2 * padding rows around the
        end of the full size to its beginning, so that the rows before and
        after the window stay at hand. Everything else stays as it was.

        Raises:
            ValueError: this is a view; only the array that owns the memory
                rotates, in the process that made it.
        """
        window = self._rotatable("rotate").rotated()
        if window.start == 0 and window.padding:
            carried = 2 * window.padding
            base = self._buffer.open_base("rotate")
            base[:carried] = base[window.full_size : window.full_size + carried]
        self._move(window)

    def reset(self) -> None:
        """Move the window so that the next `rotate` lands on row 0. Clears nothing.

        Raises:
            ValueError: this is a view.
        """
        self._move(self._rotatable("reset").rewound())

    def _rotatable(self, verb: str) -> Window:
        self._buffer.open_base(verb)
        if self._window is None:
            raise InvalidOption(
                f"Array.{verb}: must be called on the whole array, in the process that made it; "
                f"got a view of shape {self.shape}. Call it there and take the view again."
            )
        return self._window

    def _move(self, window: Window) -> None:
        assert self._axes is not None
        self._window, self._data = window, None
        self._axes = (window.offset, *self._axes[1:])

    def close(self) -> None:
        """Release the memory; safe to call twice.

        From here on this array and its views raise `ArrayClosed`. Numpy
        arrays taken from them stay valid, as does what other processes hold;
        the memory goes with the last view and numpy array.
        """
        self._buffer.close()
        self._reach = self._data = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        """Return an array with its own memory; of a view, only the visible part."""
        if self._window is not None:
            return _whole(self._buffer.copy(), self._window)
        return _detached(self.to_ndarray(), self.n_batch_dims, self.storage)

    def __reduce__(self) -> tuple[Any, ...]:
        """Refer to shared memory; copy local memory, of a view only what it shows."""
        if self.storage != "local":
            return _restore_view, (self._buffer, indexing.packed(self._location("pickle")))
        if self._window is not None:
            return _whole, (self._buffer, self._window)
        return _detached, (self.to_ndarray(), self.n_batch_dims, self.storage)

    def __repr__(self) -> str:
        if self.closed:
            return f"Array(closed, storage={self.storage!r})"
        # "array(" and "Array(" are equally long, so numpy's columns still line up.
        return "A" + repr(self.to_ndarray())[1:]

    def __str__(self) -> str:
        return repr(self) if self.closed else str(self.to_ndarray())


def _view(buffer: Buffer, reach: Ndarray | None, axes: Axis | None, trail: Trail | None) -> Array:
    view = _new(Array)
    view._buffer, view._reach, view._axes, view._trail = buffer, reach, axes, trail
    view._data = view._window = view._picked = view._pending = None
    return view


def _view_at(buffer: Buffer, location: Location) -> Array:
    if indexing.is_basic(location):
        return _view(buffer, *lay_out(buffer.open_base("view"), location))
    view = _view(buffer, None, None, None)
    view._picked = location
    return view


def _whole(buffer: Buffer, window: Window) -> Array:
    """Return the array that owns `buffer` and can rotate."""
    window = Window(*window)
    size, *inner = buffer.open_base("view").shape
    rows = Span(window.offset, 1, window.rows, size)
    array = _view_at(buffer, (rows, *(Span(0, 1, n, n) for n in inner)))
    array._window = window
    return array


def _detached(data: Ndarray, n_batch: int, storage: Storage) -> Array:
    """Return a view of all of a copy of `data`."""
    buffer = Buffer.filled(data, n_batch, storage)
    return _view_at(buffer, tuple(Span(0, 1, size, size) for size in data.shape))


def _restore_view(buffer: Buffer, packed: tuple[Any, ...]) -> Array:
    return _view_at(buffer, indexing.unpacked(packed))
