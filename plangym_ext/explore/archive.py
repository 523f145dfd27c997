"""Archive: the best trajectory per cell, with the exact state at its end."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.core.typed_arguments import checking_arguments
from plangym_ext.explore.entries import FREE, Arrived, Entries, put_in_places, visit
from plangym_ext.explore.paths import Paths
from plangym_ext.explore.rows import Places, named
from plangym_ext.states.envelope import as_wide

_ROOM = 1024  # cells that there is room for in the beginning
_MOST = 1 << 53  # of a count
_SPREAD = 4  # places for each cell that there is room for


def check_counts(**counts: npt.NDArray[np.int64]) -> None:
    """Refuse counts `[N]` that no exploration can produce.

    Raises:
        ValueError: one is below 0, or so large that the next ones would wrap.
    """
    for name, found in counts.items():
        if found.size and not 0 <= found.min() <= found.max() < _MOST:
            raise ValueError(f"{name} must be from 0 to {_MOST}; got {found.min()}, {found.max()}")


class Archive:
    """Cells by number, in the order of discovery; entry 0 is the start of episodes.

    A trajectory that ends an episode, and one that does not, are in cells of their own: nothing can
    begin where it is over, but it may be what was sought.

    Args:
        paths: that the trajectories lie on.
        cell_dtype: of a cell's numbers.
        width: S, bytes of a state.
    """

    @checking_arguments
    def __init__(self, paths: Paths, cell_dtype: np.dtype, num_numbers: int, width: int) -> None:
        self.paths = paths
        self._dtype = cell_dtype
        key_width = cell_dtype.itemsize * num_numbers + 1
        self._entries = Entries(
            key=np.zeros((_ROOM, key_width), np.uint8),
            state=np.zeros((_ROOM, width), np.uint8),
            score=np.zeros(_ROOM),
            steps=np.zeros(_ROOM, np.int64),
            seen=np.zeros(_ROOM, np.int64),
            chosen=np.zeros(_ROOM, np.int64),
            ended=np.zeros(_ROOM, np.bool_),
            segment=np.zeros(_ROOM, np.int64),
            taken=np.zeros(_ROOM, np.int64),
            place=np.full(_SPREAD * _ROOM, FREE, np.int32),
            known=np.zeros(1, np.int64),
        )

    def __len__(self) -> int:
        return int(self._entries.known[0])

    # What is known of the cells; views `[N, ...]` until the next round ---------------------

    @property
    def cells(self) -> npt.NDArray[Any]:
        """Keys of the cells, `[N, K]`, fresh."""
        keys = np.ascontiguousarray(self._entries.key[: len(self), :-1])
        return keys.view(self._dtype)

    @property
    def states(self) -> npt.NDArray[np.uint8]:
        """The state at the end of each trajectory, `[N, S]`: a view until the next round."""
        return self._entries.state[: len(self)]

    @property
    def scores(self) -> npt.NDArray[np.float64]:
        """Undiscounted return of each trajectory, `[N]`: a view until the next round."""
        return self._entries.score[: len(self)]

    @property
    def steps(self) -> npt.NDArray[np.int64]:
        """Length of each trajectory in control steps, `[N]`: a view until the next round."""
        return self._entries.steps[: len(self)]

    @property
    def seen(self) -> npt.NDArray[np.int64]:
        """Number of visits of each cell since its present trajectory was found, `[N]`.

        A view until the next round.
        """
        return self._entries.seen[: len(self)]

    @property
    def chosen(self) -> npt.NDArray[np.int64]:
        """Number of choices of each cell since its present trajectory was found, `[N]`.

        A view until the next round.
        """
        return self._entries.chosen[: len(self)]

    @property
    def ended(self) -> npt.NDArray[np.bool_]:
        """Whether each trajectory ends an episode, `[N]`: a view until the next round."""
        return self._entries.ended[: len(self)]

    @property
    def best(self) -> int:
        """The cell with the greatest score; among equals, the one with the shortest trajectory."""
        # The last key counts first; of equals the first cell found comes first.
        return int(np.lexsort((self.steps, -self.scores))[0])

    def trajectory(self, cell: int) -> npt.NDArray[Any]:
        """Return the actions from the reset to a cell, `[T, *act]`, fresh.

        Raises:
            IndexError: there is no such cell.
        """
        if not 0 <= cell < len(self):
            raise IndexError(f"trajectory: cells are 0 to {len(self) - 1}; got {cell}.")
        entries = self._entries
        return self.paths.actions(int(entries.segment[cell]), int(entries.taken[cell]))

    # What changes it ---------------------------------------------------------------------

    def arrive(self, cells: npt.NDArray[Any], arrived: Arrived) -> tuple[Any, Any]:
        """Update the archive with L rows after a step.

        Args:
            cells: `[L, K]` of the rows.
            arrived: the rows; `key` is not looked at.

        Returns:
            The number of each row's cell, `[L]` int64, and whether the row's trajectory is now that
            to the cell, `[L]` bool.
        """
        key = np.empty((len(cells), self._entries.key.shape[1]), np.uint8)
        key[:, :-1] = np.ascontiguousarray(cells).view(np.uint8).reshape(len(cells), -1)
        key[:, -1] = arrived.ended
        self._make_room(len(cells), arrived.state.shape[1])
        state = as_wide(arrived.state, self._entries.state.shape[1])
        cell, improved = np.empty(len(cells), np.int64), np.empty(len(cells), np.bool_)
        visit(self._entries, arrived._replace(key=key, state=state), cell, improved)
        return cell, improved

    def choose(self, cells: npt.NDArray[np.int64]) -> None:
        """Count the choice of cells `[L]` as starts of rows."""
        # Not `+=`, which counts a cell once however often it was drawn.
        np.add.at(self.chosen, cells, 1)

    def places(self, cells: npt.NDArray[np.int64]) -> Places:
        """Return copies of the trajectory ends of cells `[L]`, as starts of rows."""
        entries = self._entries
        return Places(
            states=entries.state[cells],
            scores=entries.score[cells],
            steps=entries.steps[cells],
            segment=entries.segment[cells],
            taken=entries.taken[cells],
            cell=cells,
            ended=entries.ended[cells],
        )

    def name_segments(self, numbers: npt.NDArray[np.int64]) -> None:
        """Replace a round's provisional segment numbers by final ones; see `Rows.store`."""
        segment = self._entries.segment[: len(self)]
        segment[:] = named(segment, numbers)

    def _make_room(self, more: int, width: int) -> None:
        entries = self._entries
        if width > entries.state.shape[1]:
            # The env has widened its rows; narrower states followed by zeros stay good.
            entries = entries._replace(state=as_wide(entries.state, width))
        if len(self) + more > len(entries.score):
            room = max(len(entries.score), more)
            grown = {
                name: np.concatenate([old, np.zeros((room, *old.shape[1:]), old.dtype)])
                for name, old in entries._asdict().items()
                if name not in ("place", "known")
            }
            # A power of two, as places are found by a mask of the hash.
            size = 1 << (_SPREAD * (len(entries.score) + room) - 1).bit_length()
            entries = entries._replace(**grown, place=np.full(size, FREE, np.int32))
            put_in_places(entries)
        self._entries = entries

    # To a file and back ------------------------------------------------------------------

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all arrays but the states by name, as views."""
        kept = ("key", "score", "steps", "seen", "chosen", "ended", "segment", "taken")
        found = {name: getattr(self._entries, name)[: len(self)] for name in kept}
        return {**found, **self.paths.arrays()}

    def load(self, states: npt.NDArray[np.uint8], arrays: dict[str, npt.NDArray[Any]]) -> None:
        """Fill an empty archive from the arrays that `arrays` returned.

        Raises:
            ValueError: the arrays do not go together.
        """
        self.paths.load(arrays)
        number = len(states)
        self._make_room(number, states.shape[1])
        entries = self._entries
        entries.state[:number] = as_wide(states, entries.state.shape[1])
        for name in ("key", "score", "steps", "seen", "chosen", "ended", "segment", "taken"):
            target, found = getattr(entries, name), arrays[name]
            if found.shape != (number, *target.shape[1:]) or found.dtype != target.dtype:
                raise ValueError(
                    f"{name} must be {(number, *target.shape[1:])} {target.dtype}; got "
                    f"{found.shape} {found.dtype}"
                )
            target[:number] = found
        entries.known[0] = number
        if not number:
            raise ValueError("it has no cells")
        if not self.paths.hold(self._entries.segment[:number], self._entries.taken[:number]):
            raise ValueError("cells lie on segments that are not there")
        check_counts(steps=self.steps, seen=self.seen, chosen=self.chosen)
        if np.isnan(self.scores).any() or (entries.key[:number, -1] != self.ended).any():
            raise ValueError("its cells have no scores, or ends that are not theirs")
        if not put_in_places(entries):
            raise ValueError("two of its cells are the same, or they were made to collide")
