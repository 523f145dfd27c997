"""Episode statistics: returns, lengths and info fields of finished episodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.core.compiling.jit import kernel
from plangym_ext.errors import DamagedCheckpoint

Ndarray = npt.NDArray[Any]
#: Columns of a table of episodes whose mean says nothing: when and where they ended, which
#: stored state they began from, and whom they were against.
PLACE = ("step", "row", "start", "opponent")


@kernel
def count_episodes(
    reward: Any,
    terminated: Any,
    truncated: Any,
    valid: Any,
    going_on: Any,
    added: Any,
    sums: Any,
    discount: Any,
    out: Any,
) -> int:
    """Add steps to the sums of episodes; write a line for each that ends, in order of steps.

    Args:
        reward: `[T, b]`.
        terminated: `[T, b]` bool.
        truncated: `[T, b]` bool.
        valid: `[T, b]` bool; what is not valid is no step.
        going_on: `[T, b]` bool, endings for the agent after which the game goes on.
        added: `[T, b, C]` float64, further numbers that are added up.
        sums: `[4 + C, b]` float64: return, length, discounted return, the discount of the
            next reward, and the further sums. Changed.
        discount: float64.
        out: `[T * b, 6 + C]` float64, written: step, row, return, length, discounted return,
            whether it terminated, and the further sums.

    Returns:
        How many lines were written.
    """
    count = 0
    for t in range(reward.shape[0]):
        for row in range(reward.shape[1]):
            if not valid[t, row]:
                continue
            sums[0, row] += reward[t, row]
            sums[1, row] += 1.0
            # The discount of this reward, and only then that of the next one.
            sums[2, row] += sums[3, row] * reward[t, row]
            sums[3, row] *= discount
            for c in range(added.shape[2]):
                sums[4 + c, row] += added[t, row, c]
            if (terminated[t, row] or truncated[t, row]) and not going_on[t, row]:
                out[count, 0], out[count, 1] = t, row
                out[count, 2], out[count, 3] = sums[0, row], sums[1, row]
                out[count, 4], out[count, 5] = sums[2, row], terminated[t, row]
                for c in range(added.shape[2]):
                    out[count, 6 + c], sums[4 + c, row] = sums[4 + c, row], 0.0
                count += 1
                sums[0, row], sums[1, row], sums[2, row], sums[3, row] = 0.0, 0.0, 0.0, 1.0
    return count


class EpisodeSums:
    """The episodes in progress in b rows.

    Args:
        num_rows: b.
        discount: of the discounted return.
        added: arrays `[>= T, b, ...]` by name, which hold further numbers of T steps that are added
            up when `add` is called.

    Attributes:
        added: as given.
        sums: `[4 + C, b]` float64; see `count_episodes`.
    """

    def __init__(self, num_rows: int, discount: float, added: Mapping[str, Ndarray]) -> None:
        self.added = added
        #: Of the C further columns: "name", or "name.0", "name.1" of an array.
        self._names = [
            ".".join([name, *map(str, place)])
            for name, array in added.items()
            for place in np.ndindex(*array.shape[2:])
        ]
        self.sums = np.zeros((4 + len(self._names), num_rows))
        self._discount = discount
        self._out = np.empty((0, 6 + len(self._names)))
        self.clear()

    def clear(self) -> None:
        """Begin an episode in every row."""
        self.sums[:], self.sums[3] = 0.0, 1.0

    def add(
        self,
        reward: Ndarray,
        terminated: Ndarray,
        truncated: Ndarray,
        valid: Ndarray,
        going_on: Ndarray,
    ) -> dict[str, Ndarray]:
        """Add `[T, b]` steps; arguments as of `count_episodes`.

        Returns:
            Arrays `[E]` by name, a row for every episode that ended, in the order of (step,
            row): "step" and "row" int64, "return" and "discounted_return" float64, "length"
            int64, "terminated" bool, the further sums float64. Fresh.
        """
        # A line for every step: each may end an episode.
        if len(self._out) < reward.size:
            self._out = np.empty((reward.size, self._out.shape[1]))
        parts = [np.empty((*reward.shape, 0)), *self.added.values()]
        added = [part[: len(reward)].reshape(*reward.shape, -1) for part in parts]
        ends = terminated, truncated, valid, going_on
        sums = np.concatenate(added, axis=2, dtype=np.float64), self.sums, self._discount
        count = count_episodes(reward, *ends, *sums, self._out)
        # A copy: the next fragment writes to the same memory.
        step, row, returns, length, discounted, terminal, *found = self._out[:count].T.copy()
        return {
            # They were written as float64, in which whole numbers are exact up to 2**53.
            "step": step.astype(np.int64),
            "row": row.astype(np.int64),
            "return": returns,
            "length": length.astype(np.int64),
            "discounted_return": discounted,
            "terminated": terminal.astype(bool),
            **dict(zip(self._names, found, strict=True)),
        }


def merged_episodes(tables: list[dict[str, Ndarray]]) -> dict[str, Ndarray]:
    """Return the episodes of several actors in one table, in the order of (step, row)."""
    if len(tables) == 1:
        return tables[0]
    found = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    # By its last key first: by step, and by row within a step.
    order = np.lexsort((found["row"], found["step"]))
    return {name: column[order] for name, column in found.items()}


class Window:
    """The last episodes, whichever fragment they ended in; never changed.

    Args:
        size: how many are kept.
        columns: arrays `[E]` by name, a row for each of them.

    Attributes:
        columns: as given.
    """

    def __init__(self, size: int, columns: Mapping[str, Ndarray] | None = None) -> None:
        self._size = size
        self.columns = {name: np.asarray(column) for name, column in (columns or {}).items()}
        shapes = {column.shape for column in self.columns.values()}
        if len(shapes) > 1 or not all(len(shape) == 1 for shape in shapes):
            raise DamagedCheckpoint(
                f"columns of the last episodes must all be [E]; got {sorted(shapes)}. Load an "
                "unchanged checkpoint."
            )

    def after(self, episodes: Mapping[str, Ndarray]) -> Window:
        """Return the window after further episodes."""
        columns = {
            name: np.concatenate([self.columns.get(name, column[:0]), column])[-self._size :]
            for name, column in episodes.items()
        }
        return Window(self._size, columns)

    def means(self) -> dict[str, float]:
        """Return the mean of every column; nothing before an episode has ended."""
        return {
            name: float(column.mean())
            for name, column in self.columns.items()
            if name not in PLACE and len(column)
        }
