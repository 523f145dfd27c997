"""Arrays as memoryviews, for faster writes of single numbers and short vectors."""

from __future__ import annotations

import numpy as np

_FORMATS = "?bBhHiIlLqQfd"  # what a memoryview reads and writes


def cells_of(array: np.ndarray) -> memoryview | None:
    """Return the array's memory, if it takes numbers as the array does, but for casts."""
    return array.data if array.dtype.isnative and array.dtype.char in _FORMATS else None
