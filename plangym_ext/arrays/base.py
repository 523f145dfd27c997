"""BaseArray: common base class of the array containers (creation, rows, closing)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import indexing
from plangym_ext.arrays.buffer import Buffer, Storage
from plangym_ext.arrays.closing import Closing
from plangym_ext.arrays.indexing import Location, Span
from plangym_ext.errors import InvalidOption, NoSuchIndex, WrongKind

#: The final classes, by kind. They add themselves, so that this module need not know them.
_KINDS: dict[str, Callable[..., Any]] = {}

# Arguments that only jagged arrays take.
_JAGGED = ("max_mean_num_elem", "on_overflow")


class BaseArray(Closing):
    """Abstract; `Array` and `JaggedArray` are final."""

    __slots__ = ("__weakref__", "_buffer")

    kind: Literal["default", "jagged"]
    _buffer: Buffer

    def __init_subclass__(cls) -> None:
        """Have `make` know the class by its kind."""
        super().__init_subclass__()
        _KINDS[cls.kind] = cls

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Visible shape."""

    @abstractmethod
    def __getitem__(self, key: Any) -> Self:
        """Return a view."""

    @abstractmethod
    def _location(self, verb: str) -> Location:
        """Return where the view lies in the buffer; `verb` says what for, should it be closed."""

    @abstractmethod
    def _at(self, location: Location) -> Self:
        """Return the view at a location of the same buffer."""

    def _settled(self) -> Self:
        """Return this view; an index that was not looked at yet raises now if it is wrong."""
        return self

    @abstractmethod
    def _spec(self) -> dict[str, Any]:
        """Return arguments that make another array like this one, but for its shapes."""

    @property
    def storage(self) -> Storage:
        """Kind of memory: "local", "shared" or "inherited"."""
        return self._buffer.storage

    @property
    def padding(self) -> int:
        """Hidden rows on either side of the full size."""
        return self._buffer.padding

    @property
    def full_size(self) -> int:
        """Rows that the window slides over."""
        return self._buffer.full_size

    @property
    def closed(self) -> bool:
        """Whether the array was closed in this process."""
        return self._buffer.base is None

    @property
    def n_batch_dims(self) -> int:
        """Number of batch axes of the view."""
        numbers = indexing.open_axes(self._location("index"))
        return sum(number < self._buffer.n_batch for number in numbers)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The part of the shape that is not the shape of one element."""
        return self.shape[: self.n_batch_dims]

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """Shape of one element, less the feature axes that were indexed away."""
        return self.shape[self.n_batch_dims :]

    @property
    def first(self) -> int:
        """Index of the first visible row: 0."""
        return 0

    @property
    def last(self) -> int:
        """Index of the last visible row; `last + 1` is the row after it.

        Raises:
            IndexError: a single element has no rows.
        """
        if not self.shape:
            raise NoSuchIndex("Array.last: the view must have an axis; got a single element.")
        return self.shape[0] - 1

    @property
    def full(self) -> Self:
        """View of all rows that the window slides over, for any view.

        The view cannot rotate. Index -1 and `full_size` reach the padding.
        """
        base = self._buffer.open_base("view")
        # From the first row after the padding: index -1 is the last padding row before it.
        rows = Span(self._buffer.padding, 1, self._buffer.full_size, base.shape[0])
        inner = (Span(0, 1, size, size) for size in base.shape[1:])
        return self._at((rows, *inner))

    @property
    def next(self) -> Self:
        """View of the same elements one row later.

        Raises:
            IndexError: one of them has no row after it in the buffer.
        """
        return self._shifted(1)

    @property
    def previous(self) -> Self:
        """View of the same elements one row earlier.

        Raises:
            IndexError: one of them has no row before it in the buffer.
        """
        return self._shifted(-1)

    def _shifted(self, by: int) -> Self:
        location = self._location("view")
        rows = self._buffer.open_base("view").shape[0]
        return self._at(indexing.shifted(location, by, rows))

    def __iter__(self) -> Iterator[Self]:
        """Yield a view of each visible row.

        Raises:
            TypeError: a single element has no rows.
        """
        if not self.n_batch_dims:
            raise WrongKind(
                "Array: a view must have a batch axis to iterate over; got a single element. "
                "Iterate over its to_ndarray()."
            )
        return (self[index] for index in range(self.shape[0]))

    def __copy__(self) -> Self:
        """Return a view of the same data."""
        return self[...]

    @classmethod
    def from_numpy(
        cls,
        example: npt.ArrayLike,
        *,
        batch_shape: tuple[int, ...],
        force_32bit: bool | Literal["float", "int"] = True,
        **spec: Any,
    ) -> Any:
        """Make an array of zeros whose elements look like `example`.

        Args:
            example: one element: an array, a number or a list of numbers.
            batch_shape: leading dimensions of the new array.
            force_32bit: store float64 as float32 and int64 as int32 ("float"
                or "int": only that one; False: neither).
            **spec: further arguments of `Array`; they win.
        """
        value = np.asarray(example)
        dtype = value.dtype
        # Python's and numpy's own numbers are of 64 bits: an example hardly ever means that.
        if dtype == np.float64 and force_32bit in (True, "float"):
            dtype = np.dtype(np.float32)
        if dtype == np.int64 and force_32bit in (True, "int"):
            dtype = np.dtype(np.int32)
        # The first dimension of a jagged item is its number of points.
        shape = value.shape[1:] if spec.get("kind") == "jagged" else value.shape
        return make(**{"dtype": dtype, "feature_shape": shape, **spec}, batch_shape=batch_shape)

    def new_array(self, *, inherit_full_size: bool = False, **overrides: Any) -> Any:
        """Make an array of zeros of the same shape, dtype, kind and storage.

        A view's padding and full size belong to the array it was taken from:
        they are not passed on, and the full size of a whole array only with
        `inherit_full_size`.

        Args:
            inherit_full_size: take over `full_size` as well.
            **overrides: arguments of `Array` that differ.
        """
        spec = {
            "batch_shape": self.batch_shape,
            "feature_shape": self.feature_shape,
            **self._spec(),
        }
        # A window's full size says how far it slides, which a copy of what it shows does not do.
        if not inherit_full_size:
            spec.pop("full_size", None)
        if overrides.get("kind") == "default":
            # A plain array has no such arguments.
            spec = {name: spec[name] for name in spec if name not in _JAGGED}
        return make(**{**spec, **overrides})


def make(*, kind: str = "default", **spec: Any) -> Any:
    """Make an array of a kind; see its class for the arguments.

    Raises:
        ValueError: there is no such kind.
    """
    if kind not in _KINDS:
        raise InvalidOption(f"Array: kind must be {' or '.join(map(repr, _KINDS))}; got {kind!r}.")
    return _KINDS[kind](**spec)
