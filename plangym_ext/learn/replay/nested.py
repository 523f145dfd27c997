"""Operations on nested rows (dicts of arrays): leaves, map, join."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import nested

Ndarray = npt.NDArray[Any]


def leaves(samples: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Ndarray]]:
    """Yield (dotted name, array) for every array, in order."""
    for name, value in samples.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", np.asarray(value)


def mapped(samples: Mapping[str, Any], change: Callable[[Ndarray], Any]) -> dict[str, Any]:
    """Apply `change` to every array; return an equally nested value."""
    found: dict[str, Any] = nested.mapped(lambda value: change(np.asarray(value)), samples)
    return found


def joined(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the rows of all parts one after the other."""
    return {
        name: joined([part[name] for part in parts])
        if isinstance(value, Mapping)
        else np.concatenate([part[name] for part in parts])
        for name, value in parts[0].items()
    }
