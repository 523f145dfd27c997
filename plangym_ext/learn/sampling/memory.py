"""Memory use of a sample tree, in bytes per array."""

from __future__ import annotations

from typing import Any

import numpy as np

from plangym_ext.arrays import Array, ArrayDict


def tree_memory(tree: ArrayDict) -> dict[str, int]:
    """Return the bytes of the arrays of a sample tree, padding included, by their names."""
    found = {}
    for name in tree:
        part: Any = tree[name]
        arrays: list[Any] = (
            [leaf for _, leaf in part.leaves()] if isinstance(part, ArrayDict) else [part]
        )
        found[name] = sum(map(array_bytes, arrays))
    return found


def array_bytes(array: Array) -> int:
    """Return the bytes of an array and of its padding."""
    found: Any = array.to_ndarray(copy=False)
    # Up to the array that owns the memory: the view that is used leaves out the padding.
    while isinstance(found.base, np.ndarray):
        found = found.base
    return int(found.nbytes)
