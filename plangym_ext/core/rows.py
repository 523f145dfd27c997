"""The memory of one batch: what goes to the env rows and what comes back.

The same layout serves local and shared memory. Both sides of a process boundary
compute it from the same numbers, so only the block itself has to travel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.core.infos import InfoBatch, InfoColumn
from plangym_ext.core.spaces import SpaceLayout

_ALIGN = 64  # a cache line: rows of two workers never share one across fields


@dataclass(frozen=True)
class RowLayout:
    """Sizes and types of everything that one row of a batch holds.

    Attributes:
        obs: layout of the observation space.
        action: layout of the action space.
        state_width: bytes of a sealed state row.
        info: the numeric info fields.
    """

    obs: SpaceLayout
    action: SpaceLayout
    state_width: int
    info: tuple[InfoColumn, ...]

    def fields(self, num_rows: int, horizon: int) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and dtype of every array of a batch, by name, in memory order."""
        b, h = num_rows, horizon
        found: dict[str, tuple[tuple[int, ...], str]] = {}
        for k, leaf in enumerate(self.action.leaves):
            found[f"action{k}"] = ((b, h, *leaf.shape), leaf.dtype.str)
        for k, leaf in enumerate(self.obs.leaves):
            found[f"obs{k}"] = ((b, *leaf.shape), leaf.dtype.str)
        for k, column in enumerate(self.info):
            found[f"info{k}"] = ((b, *column.shape), column.dtype)
        found["states_in"] = found["states_out"] = ((b, self.state_width), "|u1")
        found["rewards"] = ((b, h), "<f8")
        found["dt"] = found["steps"] = found["env_steps"] = ((b,), "<i4")
        for name in ("reset_first", "terminated", "truncated", "done"):
            found[name] = ((b,), "|b1")
        return found

    def offsets(self, num_rows: int, horizon: int) -> tuple[dict[str, int], int]:
        """Byte offset of every array, and the size of the whole."""
        offsets, end = {}, 0
        for name, (shape, dtype) in self.fields(num_rows, horizon).items():
            offsets[name] = end
            size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
            end += -(-size // _ALIGN) * _ALIGN
        return offsets, max(end, _ALIGN)


@dataclass
class RowBatch:
    """Views of one batch over one piece of memory.

    Args:
        layout: of the env.
        num_rows: B.
        horizon: H, actions a row.
        memory: uint8 with at least `layout.offsets(B, H)[1]` bytes, or None for
            memory of its own.

    `done[i]` is set last, when everything of row i is in place; a row with infos of its
    own is never done by the memory alone.
    """

    layout: RowLayout
    num_rows: int
    horizon: int
    memory: np.ndarray | None = None
    #: Infos of the rows that do not fit the columns; not part of the memory.
    own_infos: dict[int, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        offsets, size = self.layout.offsets(self.num_rows, self.horizon)
        if self.memory is None:
            self.memory = np.zeros(size, np.uint8)
        views = {}
        for name, (shape, dtype) in self.layout.fields(self.num_rows, self.horizon).items():
            count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
            start = offsets[name]
            views[name] = self.memory[start : start + count].view(dtype).reshape(shape)
        self.actions = tuple(views[f"action{k}"] for k in range(len(self.layout.action.leaves)))
        self.obs = tuple(views[f"obs{k}"] for k in range(len(self.layout.obs.leaves)))
        self.info = tuple(views[f"info{k}"] for k in range(len(self.layout.info)))
        self.states_in, self.states_out = views["states_in"], views["states_out"]
        self.rewards, self.dt = views["rewards"], views["dt"]
        self.steps, self.env_steps = views["steps"], views["env_steps"]
        self.reset_first, self.done = views["reset_first"], views["done"]
        self.terminated, self.truncated = views["terminated"], views["truncated"]

    def load(
        self,
        actions: tuple[np.ndarray, ...],
        states: np.ndarray,
        dt: int | np.ndarray,
        reset_first: np.ndarray | None,
    ) -> None:
        """Copy the inputs of all rows in and mark every row as not done.

        Args:
            actions: leaf arrays `[B, H, *act]`.
            states: `[B, S]` uint8, checked; at most as wide as the layout says.
            dt: int or `[B]` int32, control steps an action is held.
            reset_first: `[B]` bool, rows to reset after their state is restored.
        """
        for mine, given in zip(self.actions, actions, strict=True):
            mine[...] = given
        width = states.shape[1]
        self.states_in[:, :width] = states
        self.states_in[:, width:] = 0
        self.dt[...] = dt
        self.reset_first[...] = False if reset_first is None else reset_first
        self.done[...] = False
        self.own_infos.clear()

    def results(self, *, copy: bool) -> RowResults:
        """What came back, as views of the memory or as arrays of their own."""

        def out(array: np.ndarray) -> np.ndarray:
            return array.copy() if copy else array

        columns = {
            column.key: out(array)
            for column, array in zip(self.layout.info, self.info, strict=True)
        }
        columns["n_step"], columns["dt"] = out(self.env_steps), out(self.dt)
        return RowResults(
            out(self.states_out),
            tuple(out(leaf) for leaf in self.obs),
            out(self.rewards),
            out(self.terminated),
            out(self.truncated),
            out(self.steps),
            InfoBatch(columns, self.own_infos),
        )


class RowResults(NamedTuple):
    """Outputs of B rows; shapes as in `Rollouts`, obs one array per leaf."""

    states: np.ndarray
    obs: tuple[np.ndarray, ...]
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    steps: np.ndarray
    infos: InfoBatch
