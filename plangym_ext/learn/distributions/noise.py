"""Random-number sources for sampling actions row by row. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from plangym_ext.core.typed_arguments import checking_arguments


class Noise(Protocol):
    """Source of random numbers for B rows; the numbers of a row do not depend on other rows.

    Every call draws new ones. They are numpy arrays, or tensors from `TorchNoise`.
    """

    def uniform(self, k: int = 1) -> Any:
        """Return `[B, k]` in [0, 1)."""

    def normal(self, k: int = 1) -> Any:
        """Return `[B, k]`, of mean 0 and standard deviation 1."""


class GeneratorNoise:
    """One generator per row, as in planners: a Python loop over rows.

    Args:
        rngs: B generators; they are advanced.

    Attributes:
        rows: `[B]`, 0, 1, ...
    """

    @checking_arguments
    def __init__(self, rngs: Sequence[np.random.Generator]) -> None:
        self._rngs, self.rows = rngs, np.arange(len(rngs))

    def uniform(self, k: int = 1) -> Any:
        """Return `[B, k]` float64 in [0, 1)."""
        return np.stack([rng.random(k) for rng in self._rngs])

    def normal(self, k: int = 1) -> Any:
        """Return `[B, k]` float64."""
        return np.stack([rng.standard_normal(k) for rng in self._rngs])
