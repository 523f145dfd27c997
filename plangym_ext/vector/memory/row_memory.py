"""RowMemory: rewards, endings and observations of the rows in shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.vector.memory.action_memory import ActionMemory
from plangym_ext.vector.memory.info_forms import INFO_BYTES, InfoForms
from plangym_ext.vector.memory.step_messages import StepMessages
from plangym_ext.vector.shown import ObsBuffer, buffer_bytes, layout_of

#: 64-bit words of a host's progress: the row that is moved now, and how many calls have
#: moved rows. A cache line, so that no two processes write to the same.
_PROGRESS_WORDS = 8


class StepMemory:
    """Rewards and endings of n rows: shared with the processes that the rows live in.

    Args:
        num_rows: n.
        memory: uint8 array of `nbytes(n)`, such as memory that workers write to; None for
            memory of its own.

    Attributes:
        rewards: `[n]` float64.
        terminations, truncations: `[n]` bool.
    """

    def __init__(self, num_rows: int, memory: np.ndarray | None = None) -> None:
        if memory is None:
            memory = np.zeros(self.nbytes(num_rows), np.uint8)
        # 8 bytes of rewards and two of flags for each row; floats first, so that they are aligned.
        rewards, terminations, truncations, _ = np.split(memory, num_rows * np.array([8, 9, 10]))
        self.rewards: np.ndarray = rewards.view(np.float64)
        self.terminations: np.ndarray = terminations.view(bool)
        self.truncations: np.ndarray = truncations.view(bool)

    @staticmethod
    def nbytes(num_rows: int) -> int:
        """Return the bytes of n rows, in whole cache lines."""
        return -(-10 * num_rows // 64) * 64

    def rows(self, rows: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return rewards, terminations and truncations of `rows`, an index: views for a slice."""
        return self.rewards[rows], self.terminations[rows], self.truncations[rows]

    def taken(self, rows: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return fresh copies of the arrays; a range stands for all rows."""
        if isinstance(rows, range):
            return self.rewards.copy(), self.terminations.copy(), self.truncations.copy()
        return self.rows(rows)


class RowMemory(NamedTuple):
    """Result memory of all rows, shared by all processes of a vector env.

    Attributes:
        obs: what every row shows.
        finals: what every row showed when it ended, before it was reset in the same step.
        steps: what its last step came to.
        progress: `[hosts, 8]` int64: of each process the number in it of the row that is moved
            now, `NO_ROW` between calls, and how many calls have moved rows.
        actions: what each row is to play, where other processes read it; None if actions have
            no array form.
        infos: `[n, 2, INFO_BYTES]` uint8: what `InfoForms` keep there.
    """

    obs: ObsBuffer
    finals: ObsBuffer
    steps: StepMemory
    progress: np.ndarray
    actions: ActionMemory | None
    infos: np.ndarray

    def messages(self, first: int) -> StepMessages:
        """Return the `StepMessages` of a process, by its first row."""
        return StepMessages(self.actions, InfoForms(self.infos), first)


@dataclass(frozen=True)
class MemoryForm:
    """Layout of the shared memory of all processes of a vector env.

    Attributes:
        space: of one row's observations.
        num_rows, num_hosts: of the vector env.
        strict: as of `ObsBuffer`.
        action_space: of one row's actions.
    """

    space: gym.Space[Any]
    num_rows: int
    num_hosts: int
    strict: bool
    action_space: gym.Space[Any]

    @property
    def nbytes(self) -> int:
        """Bytes of a shared block that holds it."""
        return sum(self._sizes())

    def _sizes(self) -> tuple[int, ...]:
        layout = layout_of(self.space)
        obs = 1 if layout is None else buffer_bytes(layout, self.num_rows)
        actions = layout_of(self.action_space)
        acted = 0 if actions is None else ActionMemory.nbytes(actions, self.num_rows)
        # All are whole cache lines where there is anything in them, so each begins on one.
        # In the order in which `memory` cuts.
        return (
            self.num_hosts * _PROGRESS_WORDS * 8,
            StepMemory.nbytes(self.num_rows),
            acted,
            2 * INFO_BYTES * self.num_rows,
            obs,
            obs,
        )

    def memory(self, block: SharedBlock | None) -> RowMemory:
        """Return the memory over a block, or over arrays of this process alone."""
        sizes = self._sizes()
        if block is None:
            parts = [np.zeros(size, np.uint8) for size in sizes]
        else:
            whole = block.ndarray((block.nbytes,), np.uint8)
            parts = np.split(whole, np.cumsum(sizes[:-1]))
        progress, steps, acted, infos, obs, finals = parts
        actions = layout_of(self.action_space)
        return RowMemory(
            ObsBuffer(self.space, self.num_rows, obs, strict=self.strict),
            ObsBuffer(self.space, self.num_rows, finals),
            StepMemory(self.num_rows, steps),
            progress.view(np.int64).reshape(self.num_hosts, _PROGRESS_WORDS),
            None if actions is None else ActionMemory(actions, self.num_rows, acted),
            infos.reshape(self.num_rows, 2, INFO_BYTES),
        )
