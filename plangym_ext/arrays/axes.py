"""Fast indexing of array views: a per-axis form with one bounds check per index.

A view holds its *reach*, the numpy view of everything its indices can reach,
and one `Axis` per axis of it. An integer index then costs one bounds check and
one numpy index, a slice costs no numpy call at all.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy.typing as npt

from plangym_ext.arrays.indexing import Entry, Location, Span

Ndarray: TypeAlias = npt.NDArray[Any]

# Which positions of the buffer the reach holds along one axis:
# (axis of the buffer, position of the reach's element 0, positions per element).
Lattice: TypeAlias = tuple[int, int, int]

# Plain tuples: taking a slice makes one, and a named tuple would cost more than
# the rest of the view.
#   0 offset   of index 0 in the reach's axis 0
#   1 size     of the reach's axis 0
#   2 inner    the next axis, or None
#   3 length   visible indices
#   4 whole    whether this axis and the inner ones show all they reach
#   5 lattice  where the reach lies in the buffer
Axis: TypeAlias = "tuple[int, int, Axis | None, int, bool, Lattice]"

# The integer indices taken so far: (earlier ones, outermost axis, key). The key
# is an int, or a tuple of ints and slices that starts at that axis.
Trail: TypeAlias = "tuple[Trail | None, Axis, int | tuple[Any, ...]]"


def sliced(axis: Axis, offset: int, length: int, inner: Axis | None) -> Axis:
    """Return the axis that shows `length` indices from reach element `offset` on."""
    whole = length == axis[1] and (inner is None or inner[4])
    return (offset, axis[1], inner, length, whole, axis[5])


def lay_out(base: Ndarray, location: Location) -> tuple[Ndarray, Axis | None, Trail | None]:
    """Return (reach, axes, trail) of a location without index arrays."""
    index: list[int | slice] = []
    trail: Trail | None = None
    spans: list[tuple[Span, Lattice, int]] = []
    for number, entry in enumerate(location):
        if isinstance(entry, int):
            index.append(entry)
            trail = (trail, (0, 0, None, 0, False, (number, 0, 1)), entry)
            continue
        assert isinstance(entry, Span)
        if entry.step == 1:
            index.append(slice(None))
            spans.append((entry, (number, 0, 1), entry.size))
            continue
        low, high = entry.reach
        reach = Span(entry.start + entry.step * low, entry.step, high - low + 1, entry.size)
        index.append(reach.slice())
        spans.append((entry, (number, reach.start, reach.step), reach.length))
    axes: Axis | None = None
    for span, lattice, size in reversed(spans):
        whole = span.length == size and (axes is None or axes[4])
        offset = (span.start - lattice[1]) // lattice[2]
        axes = (offset, size, axes, span.length, whole, lattice)
    return base[(*index, ...)], axes, trail


def location_of(base: Ndarray, axes: Axis | None, trail: Trail | None) -> Location:
    """Return the view's location in the buffer; the inverse of `lay_out`."""
    entries: list[Entry] = [0] * base.ndim
    axis: Axis | None
    while trail is not None:
        trail, axis, key = trail
        for item in (key,) if isinstance(key, int) else key:
            assert axis is not None
            if isinstance(item, int):
                number, first, step = axis[5]
                entries[number] = first + step * (axis[0] + item)
            axis = axis[2]
    while axes is not None:
        offset, _, inner, length, _, (number, first, step) = axes
        entries[number] = Span(first + step * offset, step, length, base.shape[number])
        axes = inner
    return tuple(entries)


def visible(reach: Ndarray, axes: Axis | None) -> Ndarray:
    """Return the part of the reach that the view shows."""
    index = []
    while axes is not None and not axes[4]:
        index.append(slice(axes[0], axes[0] + axes[3]))
        axes = axes[2]
    return reach[tuple(index)] if index else reach


def place(axes: Axis, key: object) -> int | tuple[int, int] | None:
    """Resolve an int or two ints for writing.

    Returns:
        Index into the reach, or None if the key is anything else or wrong, or
        if the reach holds more there than the view shows.
    """
    if type(key) is int:
        row, rest = axes[0] + key, axes[2]
        return row if 0 <= row < axes[1] and (rest is None or rest[4]) else None
    if type(key) is tuple and len(key) == 2 and (inner := axes[2]) is not None:
        i, j = key
        if type(i) is type(j) is int:
            i, j, rest = axes[0] + i, inner[0] + j, inner[2]
            if 0 <= i < axes[1] and 0 <= j < inner[1] and (rest is None or rest[4]):
                return i, j
    return None


def quick_select(axes: Axis, key: object) -> tuple[tuple[Any, ...], Axis | None] | None:
    """Resolve a tuple of ints and slices without a step, or `...`.

    Returns:
        (index into the reach, axes), or None if the key holds anything else
        or is wrong: then `indexing.select` does it, or says what is wrong.
    """
    if key is Ellipsis:
        return (), axes
    if type(key) is not tuple:
        return None
    index: list[Any] = []
    slices: list[tuple[Axis, int, int]] = []
    rest: Axis | None = axes
    for item in key:
        if rest is None:
            return None
        offset, size, inner, length, _, _ = rest
        if type(item) is int:
            if not 0 <= offset + item < size:
                return None
            index.append(offset + item)
        elif type(item) is slice and item.step is None:
            start, stop = item.start, item.stop
            if start is None:
                start = 0
            if stop is None:
                stop = length
            if type(start) is not int or type(stop) is not int:
                return None
            if not 0 <= offset + start <= offset + stop <= size:
                return None
            index.append(slice(None))
            slices.append((rest, offset + start, stop - start))
        else:
            return None
        rest = inner
    index.append(Ellipsis)
    for axis, first, shown in reversed(slices):
        rest = sliced(axis, first, shown, rest)
    return tuple(index), rest
