"""Counter-based random numbers per row, independent of the split into actors."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel, kernel_inline
from plangym_ext.core.options import Whole
from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.errors import InvalidOption

#: Numbers that one row may draw in one step.
DRAWS = 1 << 24

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_DRAWS = np.uint64(DRAWS)
_30, _27, _31, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
# 53 bits are what a float64 holds: the lower 11 are shifted out.
_ULP = 2.0**-53


@kernel_inline
def uniform_at(key: Any, count: Any) -> Any:
    """Return the number `count` of a row's stream, a float64 of [0, 1).

    Source: SplitMix64; Steele, Lea & Flood 2014, "Fast splittable pseudorandom number
    generators".
    """
    # Sums and products wrap at 2**64: that is how the generator is defined.
    z = key + _GOLDEN * count
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    z ^= z >> _31
    return np.float64(z >> _11) * _ULP


@kernel
def fill_uniform(keys: Any, steps: Any, drawn: Any, out: Any) -> None:
    """Write uniform numbers; `drawn` are used up already in this step.

    Args:
        keys: `[B]` uint64.
        steps: `[B]` uint64.
        drawn: uint64.
        out: `[B, k]` float64, written.
    """
    for row in range(out.shape[0]):
        # Steps have ranges of numbers of their own: how many one step draws moves no other.
        count = steps[row] * _DRAWS + drawn
        for i in range(out.shape[1]):
            out[row, i] = uniform_at(keys[row], count + np.uint64(i))


@kernel
def fill_normal(keys: Any, steps: Any, drawn: Any, out: Any) -> None:
    """Write standard normal numbers, each of two uniform ones; arguments as `fill_uniform`.

    Source: Box & Muller 1958.
    """
    for row in range(out.shape[0]):
        count = steps[row] * _DRAWS + drawn
        for i in range(out.shape[1]):
            first = uniform_at(keys[row], count + np.uint64(2 * i))
            second = uniform_at(keys[row], count + np.uint64(2 * i + 1))
            # 1 - u, as u may be 0, whose logarithm is not finite.
            radius = math.sqrt(-2.0 * math.log(1.0 - first))
            out[row, i] = radius * math.cos(2.0 * math.pi * second)


class RowNoise:
    """The random numbers of B rows in one step.

    A row's draws depend on the seed, the row's number, its step and its earlier draws in that step:
    not on the other rows. So rows have the same numbers in one process or in many, all at once or
    half after half.

    Args:
        seed: int >= 0 of all rows.
        rows: `[B]` int >= 0, the numbers of the rows among all.
        stream: keeps the numbers of several users of one seed apart.

    Attributes:
        rows: `[B]` int64, as given.
        steps: `[B]` uint64, the step of each row.
    """

    @checking_arguments
    def __init__(
        self, seed: Whole, rows: Sequence[int] | npt.NDArray[Any], stream: Whole = 0
    ) -> None:
        self.rows = np.array(rows, np.int64)
        self._seed, self._stream = seed, stream
        self._keys = np.array([_key(seed, stream, row) for row in self.rows.tolist()], np.uint64)
        self.steps = np.zeros(len(self.rows), np.uint64)
        self._drawn = 0

    def __len__(self) -> int:
        return len(self.rows)

    def move_to(self, steps: npt.NDArray[np.uint64]) -> None:
        """Set the rows to other steps, `[B]` uint64."""
        self.steps, self._drawn = steps, 0

    def advance(self) -> None:
        """Advance every row to its next step."""
        self.move_to(self.steps + np.uint64(1))

    def assign(self, index: int, row: int) -> None:
        """Assign the random stream of another row to an entry, from its first step on."""
        self.rows[index] = row
        self._keys[index] = _key(self._seed, self._stream, row)
        self.steps[index] = 0

    def of(self, rows: Sequence[int] | npt.NDArray[Any]) -> RowNoise:
        """Return the random numbers of some entries, which may repeat, from the step's first on.

        Args:
            rows: `[n]` int, indices of entries.
        """
        # Its own counter of draws: what is drawn of it does not move this one.
        found = copy.copy(self)
        index = np.asarray(rows, np.int64)
        found.rows, found._keys = self.rows[index], self._keys[index]
        found.move_to(self.steps[index])
        return found

    def uniform(self, k: int = 1) -> npt.NDArray[np.float64]:
        """Return `[B, k]` float64 of [0, 1), fresh: the next k numbers of every row."""
        out = np.empty((len(self.rows), k))
        fill_uniform(self._keys, self.steps, np.uint64(self._taken(k)), out)
        return out

    def normal(self, k: int = 1) -> npt.NDArray[np.float64]:
        """Return `[B, k]` float64 of the standard normal distribution, fresh."""
        out = np.empty((len(self.rows), k))
        fill_normal(self._keys, self.steps, np.uint64(self._taken(2 * k)), out)
        return out

    def _taken(self, count: int) -> int:
        """Use up so many numbers; return how many were before."""
        drawn = self._drawn
        if drawn + count > DRAWS:
            raise InvalidOption(
                f"RowNoise: a row draws at most {DRAWS} numbers in a step; {drawn} are drawn, and "
                f"{count} more were asked for. Seed a generator with one of them instead."
            )
        # One count for all rows: they draw side by side.
        self._drawn = drawn + count
        return drawn


def row_seeds(seed: int, rows: Sequence[int] | npt.NDArray[Any], steps: Any = None) -> list[int]:
    """Return a seed for the env of each row, which depends on nothing but its arguments.

    Args:
        seed: of all rows.
        rows: `[B]` int >= 0.
        steps: `[B]` int >= 0, those that each row has taken before; None for none.
    """
    numbers = [int(row) for row in rows]
    taken = [0] * len(numbers) if steps is None else [int(step) for step in steps]
    return [
        _word(seed, (0, row, *([step] if step else [])), np.uint32)
        for row, step in zip(numbers, taken, strict=True)
    ]


def _key(seed: int, stream: int, row: int) -> int:
    # 1, as seeds of envs have keys that begin with 0: no row draws the numbers of its env.
    return _word(seed, (1, stream, row), np.uint64)


def _word(seed: int, key: tuple[int, ...], dtype: Any) -> int:
    return int(np.random.SeedSequence(seed, spawn_key=key).generate_state(1, dtype)[0])
