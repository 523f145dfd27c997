"""Index rules of array views: positions in the buffer for ints, slices and index arrays.

A view is a tuple with one entry per axis of the buffer (a `Location`): the
position of an integer index, the `Span` of a slice, or the positions of an
index array. Indexing a view gives another location; no data is touched.

Rules, on every axis and through every view: index k means k steps from the
view's first element, so negative numbers reach what lies before it and
numbers past the last reach what lies after it, as far as the buffer goes.
What the buffer does not hold raises.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Positions: TypeAlias = npt.NDArray[np.intp]
Ndarray: TypeAlias = npt.NDArray[Any]


class Span(NamedTuple):
    """An evenly spaced run of positions along one axis of the buffer."""

    start: int  # position of index 0
    step: int  # positions from one index to the next; not 0
    length: int  # visible indices
    size: int  # length of the buffer's axis

    @property
    def reach(self) -> tuple[int, int]:
        """Lowest and highest index whose position the buffer holds."""
        before, after = (
            self.start // abs(self.step),
            (self.size - 1 - self.start) // abs(self.step),
        )
        return (-before, after) if self.step > 0 else (-after, before)

    def slice(self) -> slice:
        """Return the slice of the buffer's axis that the visible indices cover."""
        if not self.length:
            return slice(0, 0)
        stop = self.start + self.step * self.length
        # A negative stop would count from the end of the buffer's axis.
        return slice(self.start, stop if stop >= 0 else None, self.step)


_ALL = slice(None)
_ARRAY = np.ndarray

Entry: TypeAlias = int | Span | Positions
Location: TypeAlias = tuple[Entry, ...]
Item: TypeAlias = int | slice | Positions


def open_axes(location: Location) -> list[int]:
    """Return, for each axis of the view, the buffer axis it comes from, or -1.

    The axes of index arrays (-1) stand in place of the first array.
    """
    kept = [axis for axis, entry in enumerate(location) if not isinstance(entry, int)]
    spans = [axis for axis in kept if isinstance(location[axis], Span)]
    if len(spans) == len(kept):
        return kept
    front = next(at for at, axis in enumerate(kept) if not isinstance(location[axis], Span))
    return spans[:front] + [-1] * len(picked_shape(location)) + spans[front:]


def picked_shape(location: Location) -> tuple[int, ...]:
    """Return the broadcast shape of the location's index arrays; () without any."""
    shapes = [entry.shape for entry in location if isinstance(entry, np.ndarray)]
    return np.broadcast_shapes(*shapes) if shapes else ()


def shape_of(location: Location) -> tuple[int, ...]:
    """Return the visible shape."""
    picked = iter(picked_shape(location))
    spans = (location[axis] if axis >= 0 else None for axis in open_axes(location))
    return tuple([s.length if isinstance(s, Span) else next(picked) for s in spans])


def split(base: Ndarray, location: Location) -> tuple[Ndarray, tuple[Any, ...]]:
    """Return (view of `base`, index into it), so that writing through them works.

    Integers and slices come first, then the arrays: in one expression numpy
    would treat the integers as arrays and could move the picked axes.
    """
    basic: list[Any] = []
    rest: list[Any] = []
    for entry in location:
        if isinstance(entry, int):
            basic.append(entry)
        elif isinstance(entry, Span):
            basic.append(entry.slice())
            rest.append(_ALL)
        else:
            basic.append(_ALL)
            rest.append(entry)
    return base[(*basic, ...)], tuple(rest)


def take(base: Ndarray, location: Location) -> Ndarray:
    """Return the location's part of `base`: a view, or a copy for index arrays."""
    view, rest = split(base, location)
    return view if is_basic(location) else np.asarray(view[rest])


def is_basic(location: Location) -> bool:
    """Return whether the location is a numpy view, that is, has no index arrays."""
    return not any(isinstance(entry, np.ndarray) for entry in location)


def frozen(key: object) -> object | None:
    """Return an index with copies of its arrays, safe from later changes.

    Returns:
        `...`, or the index array or tuple with copies of the arrays; None if
        a tuple holds anything but integers, slices, `...` and arrays.
    """
    if type(key) is not tuple:
        return key.copy() if type(key) is np.ndarray else key if key is Ellipsis else None
    for part in key:
        # The usual tuple, which nothing can change, is not built anew.
        if type(part) is not int and type(part) is not slice:
            break
    else:
        return key
    parts = []
    for part in key:
        kind = type(part)
        if kind is _ARRAY:
            parts.append(part.copy())
        elif kind is int or kind is slice or part is Ellipsis:
            parts.append(part)
        else:
            return None
    return tuple(parts)


def select(location: Location, key: object, n_batch: int) -> Location:
    """Return the location of `view[key]` for the view at `location`.

    Args:
        location: the view; its index arrays are not changed.
        key: integers, slices, `...`, integer arrays or lists, boolean masks,
            or a tuple of them.
        n_batch: leading axes of the buffer that arrays and masks may pick on.

    Raises:
        IndexError: a position outside the buffer, too many indices, a mask
            of another shape, arrays that do not broadcast.
        TypeError: an index of another type.
    """
    axes = open_axes(location)
    shape = shape_of(location)
    items = _items(key, shape)
    if is_basic(location):
        return _select_basic(location, axes, items, n_batch, key)
    return _select_picked(location, axes, shape, items, key)


def shifted(location: Location, by: int, rows: int) -> Location:
    """Return the location `by` rows later along axis 0, which has `rows` rows.

    Raises:
        IndexError: part of it would lie outside the buffer.
    """
    entry = location[0]
    if isinstance(entry, Span):
        # One position, not one step: the neighbours in time of every second
        # row are the rows between. A reversed view counts the other way.
        start = entry.start + (by if entry.step > 0 else -by)
        moved: Entry = entry._replace(start=start)
        ends = [start, start + entry.step * (entry.length - 1)] if entry.length else []
    elif isinstance(entry, int):
        moved = entry + by
        ends = [moved]
    else:
        moved = entry + by
        ends = [int(moved.min()), int(moved.max())] if moved.size else []
    if ends and (min(ends) < 0 or max(ends) >= rows):
        name, side = ("next", "after") if by > 0 else ("previous", "before")
        raise IndexError(
            f"Array.{name}: every row must have a row {side} it in the buffer of {rows} rows; "
            f"got positions {min(ends)}..{max(ends)}. "
            f"Create the array with more padding, or take fewer rows."
        )
    return (moved, *location[1:])


def packed(location: Location) -> tuple[Any, ...]:
    """Return the location in few bytes for a pickle."""
    return tuple(
        tuple(entry)
        if isinstance(entry, Span)
        # A memory view of an array pickles many times larger than its bytes.
        else (entry.shape, entry.tobytes())
        if isinstance(entry, np.ndarray)
        else entry
        for entry in location
    )


def unpacked(entries: tuple[Any, ...]) -> Location:
    """Return the location that `packed` made small."""
    return tuple(
        entry
        if isinstance(entry, int)
        # A span has four numbers, an array its shape and its bytes.
        else Span(*entry)
        if len(entry) == 4
        else np.frombuffer(entry[1], np.intp).reshape(entry[0])
        for entry in entries
    )


def _items(key: object, shape: tuple[int, ...]) -> list[Item]:
    """Return one item per axis of a view of `shape`."""
    parts = [_part(part, key) for part in (key if isinstance(key, tuple) else (key,))]
    dots = sum(part is Ellipsis for part in parts)
    # A boolean mask stands for as many axes as it has.
    used = sum(part.ndim if _is_mask(part) else 1 for part in parts) - dots
    if dots > 1 or used > len(shape):
        raise IndexError(
            f"Array: an index of a view of shape {shape} must have at most {len(shape)} parts "
            f"and one '...'; got {key!r}."
        )
    if not dots:
        parts.append(Ellipsis)
    items: list[Item] = []
    for part in parts:
        if part is Ellipsis:
            items.extend([_ALL] * (len(shape) - used))
        elif _is_mask(part):
            want = shape[len(items) : len(items) + part.ndim]
            if part.shape != want:
                raise IndexError(
                    f"Array: a mask must have the shape {want} of the visible axes it stands "
                    f"for; got {part.shape}. Masks do not reach into the padding."
                )
            items.extend(np.nonzero(part))
        else:
            items.append(part)
    return items


def _is_mask(part: Any) -> bool:
    return isinstance(part, np.ndarray) and part.dtype == bool


def _part(part: Any, key: object) -> Any:
    """Return an int, a slice, `...`, or an array of integers or booleans."""
    if part is Ellipsis or isinstance(part, slice):
        return part
    if isinstance(part, list):
        # numpy makes an empty list float64.
        part = np.asarray(part, np.intp if not part else None)
    elif hasattr(part, "__array__") and not isinstance(part, np.generic):
        part = np.asarray(part)
    # A bool is an int to Python, and a mask to numpy: it is refused below.
    elif not isinstance(part, (bool, np.bool_)) and hasattr(part, "__index__"):
        return operator.index(part)
    if isinstance(part, np.ndarray):
        if part.dtype.kind in "iu":
            # A copy of its own: a location must not change with the caller's array.
            return part.astype(np.intp)
        # A mask without an axis would add one.
        if part.dtype == bool and part.ndim:
            return part
    raise TypeError(
        f"Array: an index must be integers, slices, '...', integer arrays or boolean masks; got "
        f"{getattr(part, 'dtype', type(part).__name__)} in {key!r}. "
        f"For a new axis or names use to_ndarray() or an ArrayDict."
    )


def _narrow(span: Span, item: Item, axis: int) -> Entry:
    """Return what `item` selects of `span`, in positions."""
    if isinstance(item, slice):
        return span if item == _ALL else _narrow_slice(span, item, axis)
    low, high = span.reach
    if isinstance(item, int):
        ends = (item, item)
    elif item.size:
        ends = (int(item.min()), int(item.max()))
    else:
        # Nothing is picked, so nothing can lie outside.
        ends = (low, high)
    if not low <= ends[0] <= ends[1] <= high:
        raise _outside(span, axis, ends[0] if ends[0] < low else ends[1])
    return span.start + span.step * item


def _narrow_slice(span: Span, item: slice, axis: int) -> Span:
    try:
        step = 1 if item.step is None else operator.index(item.step)
        first, end = (0, span.length) if step > 0 else (span.length - 1, -1)
        start = first if item.start is None else operator.index(item.start)
        stop = end if item.stop is None else operator.index(item.stop)
    except TypeError as error:
        raise TypeError(
            f"Array: slice bounds on axis {axis} must be integers or None; got {item}."
        ) from error
    if step == 0:
        raise ValueError(f"Array: the step of a slice on axis {axis} must not be 0; got {item}.")
    # Bounds name edges between elements, so one more than the last is fine.
    low, high = span.reach
    low, high = (low, high + 1) if step > 0 else (low - 1, high)
    for bound in (start, stop):
        if not low <= bound <= high:
            raise _outside(span, axis, bound, item)
    # In indices of this view; positions go by the span's own step.
    count = len(range(start, stop, step))
    return Span(span.start + span.step * start, span.step * step, count, span.size)


def _outside(span: Span, axis: int, index: int, part: slice | None = None) -> IndexError:
    low, high = span.reach
    what = "indices"
    if part is not None:
        what = "slice bounds"
        low, high = (low - 1, high) if (part.step or 1) < 0 else (low, high + 1)
    return IndexError(
        f"Array: {what} on axis {axis} must lie in {low}..{high} (0..{span.length - 1} are "
        f"visible); got {index}{'' if part is None else f' in {part}'}. Negative indices count "
        f"from the first element into what lies before it; the last is {span.length - 1}."
    )


def _select_basic(
    location: Location, axes: list[int], items: list[Item], n_batch: int, key: object
) -> Location:
    new = list(location)
    picks = any(isinstance(item, np.ndarray) for item in items)
    for at, (axis, item) in enumerate(zip(axes, items, strict=True)):
        span = location[axis]
        assert isinstance(span, Span)
        if isinstance(item, np.ndarray) and axis >= n_batch:
            raise IndexError(
                f"Array: arrays and masks must pick on batch axes (buffer axes below {n_batch}); "
                f"got one for the feature axis {axis} in {key!r}. Use to_ndarray()[...]."
            )
        entry = _narrow(span, item, at)
        # As in numpy, an integer beside index arrays broadcasts with them.
        new[axis] = (
            np.asarray(entry) if picks and isinstance(entry, int) and axis < n_batch else entry
        )
    if picks:
        _check_arrays(new, key)
    return tuple(new)


def _check_arrays(location: list[Entry], key: object) -> None:
    kept = [entry for entry in location if not isinstance(entry, int)]
    at = [i for i, entry in enumerate(kept) if not isinstance(entry, Span)]
    # numpy would move the picked axis in front of an axis that came before it.
    if at[0] > 0 and at[-1] - at[0] >= len(at):
        raise IndexError(
            f"Array: index arrays must be neighbours, or the first must come first; got arrays "
            f"on axes {at} of the result in {key!r}. Use to_ndarray()[...]."
        )
    try:
        picked_shape(tuple(location))
    except ValueError as error:
        shapes = [entry.shape for entry in location if isinstance(entry, np.ndarray)]
        raise IndexError(
            f"Array: index arrays must broadcast together; got shapes {shapes} in {key!r}."
        ) from error


def _select_picked(
    location: Location, axes: list[int], shape: tuple[int, ...], items: list[Item], key: object
) -> Location:
    """Index a view that arrays picked: its picked axes have no neighbours."""
    new = list(location)
    inner: list[Any] = []
    for at, (axis, item) in enumerate(zip(axes, items, strict=True)):
        if axis < 0:
            entry = _narrow(Span(0, 1, shape[at], shape[at]), item, at)
            inner.append(entry.slice() if isinstance(entry, Span) else entry)
            continue
        span = location[axis]
        assert isinstance(span, Span)
        if isinstance(item, np.ndarray):
            raise IndexError(
                f"Array: a view picked by arrays must be picked again on its picked axes only; "
                f"got an array for axis {at} in {key!r}. Pick both in one index."
            )
        new[axis] = _narrow(span, item, at)
    picked = picked_shape(location)
    for axis, entry in enumerate(location):
        if isinstance(entry, np.ndarray):
            value = np.broadcast_to(entry, picked)[tuple(inner)]
            new[axis] = value if isinstance(value, np.ndarray) else int(value)
    return tuple(new)
