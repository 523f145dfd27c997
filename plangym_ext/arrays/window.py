"""Window: the visible rows of an array's buffer, and their rotation.

buffer rows   0 .. padding | padding .. padding + full_size | .. + padding
              leading pad  | the window shows `rows` of these | trailing pad
"""

from __future__ import annotations

from typing import NamedTuple


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
                raise TypeError(f"Array: {name} must be an integer; got {value!r}.")
        if not 0 <= padding <= rows:
            raise ValueError(
                f"Array: padding must be in 0..{rows}, the leading batch dimension; "
                f"got {padding}. Use less padding or more rows."
            )
        if full_size is None:
            full_size = rows
        if full_size < rows or full_size % rows:
            raise ValueError(
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
