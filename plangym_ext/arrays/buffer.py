"""Buffer: the memory block of one array, shared by all its views."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.storage import SharedBlock, spawning
from plangym_ext.errors import ArrayClosed, InvalidOption, StorageError, WrongKind

Storage: TypeAlias = Literal["local", "shared", "inherited"]


class Buffer:
    """Rows of memory, padding included, in one process's address space.

    Views hold the buffer, and numpy arrays made from it hold the memory
    itself: closing makes every view raise and leaves those arrays valid.
    """

    __slots__ = ("base", "block", "full_size", "n_batch", "padding", "storage")

    def __init__(
        self,
        base: npt.NDArray[Any],
        block: SharedBlock | None,
        storage: Storage,
        n_batch: int,
        padding: int,
        full_size: int,
    ) -> None:
        self.base: npt.NDArray[Any] | None = base  # None once closed
        self.block = block
        self.storage = storage
        self.n_batch = n_batch  # leading axes of base that are batch axes
        self.padding = padding
        self.full_size = full_size

    @classmethod
    def create(
        cls,
        batch_shape: tuple[int, ...],
        dtype: npt.DTypeLike,
        feature_shape: tuple[int, ...],
        storage: Storage,
        padding: int,
        full_size: int | None,
    ) -> tuple[Buffer, Window]:
        """Return zeros for the arguments of `Array`, which are checked here."""
        batch_shape = checked_shape("batch_shape", batch_shape, 1)
        feature_shape = checked_shape("feature_shape", feature_shape, 0)
        if not batch_shape:
            raise InvalidOption(
                "Array: batch_shape must have at least one dimension; got (). "
                "For a single element write batch_shape=(1,)."
            )
        window = Window.checked(batch_shape[0], padding, full_size)
        shape = (window.buffer_rows, *batch_shape[1:], *feature_shape)
        base, block = allocate(shape, checked_dtype(dtype), storage)
        return cls(base, block, storage, len(batch_shape), padding, window.full_size), window

    @classmethod
    def filled(cls, data: npt.NDArray[Any], n_batch: int, storage: Storage) -> Buffer:
        """Return a buffer without padding that holds a copy of `data`."""
        # Rows of a copy have no neighbours, so there is no padding to keep.
        base, block = allocate(data.shape, data.dtype, storage)
        base[...] = data
        return cls(base, block, storage, n_batch, 0, data.shape[0] if n_batch else 0)

    def open_base(self, verb: str) -> npt.NDArray[Any]:
        """Return the base, or raise `ArrayClosed` with the attempted action."""
        if self.base is None:
            raise ArrayClosed(
                f"Array: cannot {verb} an array of storage {self.storage!r} that was closed in "
                f"this process. Close it after the last use of it and of its views."
            )
        return self.base

    def __reduce__(self) -> tuple[Any, ...]:
        """Refer to shared memory, copy local memory.

        Raises:
            ArrayClosed: the array was closed.
            StorageError: inherited storage outside the start of a process.
        """
        base = self.open_base("pickle")
        rest = (self.storage, self.n_batch, self.padding, self.full_size)
        if self.block is None:
            return Buffer, (base, None, *rest)
        if self.storage == "inherited" and not spawning():
            raise StorageError(
                "Array: storage 'inherited' must cross as an argument of a multiprocessing "
                "Process; got pickled elsewhere. Use storage='shared' for pipes and queues."
            )
        # Two letters instead of a pickled dtype, unless it has fields.
        dtype = base.dtype if base.dtype.names else base.dtype.str
        return _attach, (self.block, base.shape, dtype, *rest)

    def copy(self) -> Buffer:
        """Return a buffer of the same storage with memory of its own."""
        base = self.open_base("copy")
        copy, block = allocate(base.shape, base.dtype, self.storage)
        copy[...] = base
        return Buffer(copy, block, self.storage, self.n_batch, self.padding, self.full_size)

    def close(self) -> None:
        """Release the memory; safe to call twice."""
        # Not block.close(): another array unpickled here may use the block,
        # and its last owner closes it anyway.
        self.base = self.block = None


def _attach(block: SharedBlock, shape: tuple[int, ...], dtype: npt.DTypeLike, *rest: Any) -> Buffer:
    return Buffer(block.ndarray(shape, dtype), block, *rest)


def allocate(
    shape: tuple[int, ...], dtype: np.dtype[Any], storage: Storage
) -> tuple[npt.NDArray[Any], SharedBlock | None]:
    """Return zeros `shape` of `dtype`, and the shared block that they lie in, or None.

    Raises:
        InvalidOption: the storage has another name.
        StorageError: the system refuses that much memory.
    """
    if storage not in get_args(Storage):
        raise InvalidOption(
            f"Array: storage must be one of {get_args(Storage)}; got {storage!r}. "
            f"Use 'shared' to reach it from other processes."
        )
    if storage == "local":
        return np.zeros(shape, dtype), None
    # As Python ints: a product of int64 may wrap and come to a small mapping.
    nbytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
    # Spaces may have empty shapes; a mapping may not.
    block = SharedBlock.create(max(1, nbytes))
    return block.ndarray(shape, dtype), block


def misfit(
    shape: tuple[int, ...], dtype: np.dtype[Any], value: Any, error: Exception
) -> TypeError | ValueError:
    """Return the error for a value that cannot be written to a view of that shape."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    got = getattr(value, "shape", None)
    return kind(
        f"Array: a value written to a view of shape {shape} {dtype} must broadcast "
        f"and convert to it; got {type(value).__name__} "
        f"{repr(value)[:60] if got is None else f'of shape {got}'} ({error})."
    )


def checked_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Return the dtype, if its items are plain bytes of a fixed size.

    Raises:
        ValueError: there is none of that name, it holds Python objects, has no size, or is a
            sub-array.
    """
    try:
        result = np.dtype(dtype)
    except TypeError as error:
        raise InvalidOption(f"Array: expected a dtype; got {dtype!r:.80} ({error}).") from None
    if result.hasobject or result.itemsize == 0 or result.subdtype is not None:
        raise InvalidOption(
            f"Array: dtype must have a fixed size and hold no Python objects; got {result!r}. "
            f"Put inner dimensions into feature_shape."
        )
    return result


def checked_shape(name: str, shape: Any, least: int) -> tuple[int, ...]:
    """Return `shape` as a tuple of ints, each at least `least`.

    Raises:
        TypeError: it is not a sequence of integers.
        ValueError: an entry is too small.
    """
    try:
        result = tuple(n.__index__() for n in shape)
    except (TypeError, AttributeError) as error:
        raise WrongKind(
            f"Array: {name} must be a tuple of integers; got {shape!r}. "
            f"For one dimension write ({shape!r},)."
        ) from error
    if any(n < least for n in result):
        raise InvalidOption(f"Array: {name} must have entries of at least {least}; got {result}.")
    return result


# Window: the visible rows of an array's buffer, and their rotation ------------
# buffer rows   0 .. padding | padding .. padding + full_size | .. + padding
#               leading pad  | the window shows `rows` of these | trailing pad


class Window(NamedTuple):
    """Position of the visible rows within the rows of the buffer."""

    rows: int  # visible rows, T
    padding: int  # hidden rows on either side of the full size
    full_size: int  # rows that the window slides over, a multiple of `rows`
    start: int = 0  # first visible row, in [0, full_size), a multiple of `rows`

    @classmethod
    def checked(cls, rows: int, padding: int, full_size: int | None) -> Window:
        """Return the window at row 0.

        Raises:
            TypeError: the padding or the full size are no integers.
            ValueError: they do not fit the rows.
        """
        for name, value in (("padding", padding), ("full_size", full_size)):
            if value is not None and not hasattr(value, "__index__"):
                raise WrongKind(f"Array: {name} must be an integer; got {value!r}.")
        if not 0 <= padding <= rows:
            raise InvalidOption(
                f"Array: padding must be in 0..{rows}, the leading batch dimension; "
                f"got {padding}. Use less padding or more rows."
            )
        if full_size is None:
            full_size = rows
        if full_size < rows or full_size % rows:
            raise InvalidOption(
                f"Array: full_size must be a positive multiple of {rows}, the leading batch "
                f"dimension; got {full_size}. "
                f"The nearest is {max(1, round(full_size / rows)) * rows}."
            )
        return cls(rows, padding, full_size)

    @property
    def buffer_rows(self) -> int:
        """Rows to allocate, padding included."""
        return self.full_size + 2 * self.padding

    @property
    def offset(self) -> int:
        """Buffer row of the first visible row."""
        return self.padding + self.start

    def rotated(self) -> Window:
        """Return the window after the next `rows` rows; after the last, it is at 0 again."""
        return self._replace(start=(self.start + self.rows) % self.full_size)

    def rewound(self) -> Window:
        """Return the window over the last rows, so that the next rotation lands on row 0."""
        return self._replace(start=self.full_size - self.rows)
