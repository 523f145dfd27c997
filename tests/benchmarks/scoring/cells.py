"""What a protocol is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: Called with "move 12 of 200" and the like.
Say = Callable[[str], None]


@dataclass(frozen=True)
class Cell:
    """One planner in one task: a row or an entry of a table.

    Attributes:
        protocol: which table, such as "sokoban".
        task: game, env or set of levels.
        planner: as the table calls it.
        options: of the planner; what is kept of another setting is not used again.
        chunks: seeds of the episodes, in groups that are played together.
    """

    protocol: str
    task: str
    planner: str
    options: dict[str, Any]
    chunks: tuple[tuple[int, ...], ...]

    @property
    def key(self) -> str:
        """Its name in the file of results."""
        return f"{self.protocol} {self.task} {self.planner}"


def row_of(episode: Any, **more: Any) -> dict[str, Any]:
    """What is kept of a played episode."""
    return {
        "score": episode.return_,
        "length": episode.length,
        "model_steps": episode.budget.model_steps,
        **more,
    }
