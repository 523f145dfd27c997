"""Sampler checkpoints: actor states joined over rows and split again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from plangym_ext.errors import ForeignCheckpoint
from plangym_ext.states.envelope import stacked_rows


def joined_states(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the state of all rows, given those of the actors in order."""
    found: dict[str, Any] = {}
    for name, first in states[0].items():
        parts = [state[name] for state in states]
        # One actor without a state of its envs: the whole cannot be gone on from.
        if any(part is None for part in parts):
            found[name] = None
        elif name == "envs":  # widths may differ
            found[name] = stacked_rows([row for part in parts for row in part])
        # Leaves of something nested, each `[b, ...]`.
        elif isinstance(first, list):
            found[name] = [np.concatenate(leaf) for leaf in zip(*parts, strict=True)]
        else:
            found[name] = np.concatenate(parts)
    return found


def split_state(state: Mapping[str, Any], ranges: Sequence[range]) -> list[dict[str, Any]]:
    """Return the state of each range of rows.

    Raises:
        ForeignCheckpoint: it is of another number of rows.
    """
    # Of all that is saved this is an array for every kind of agent and env.
    saved = len(state["first"])
    if saved != ranges[-1].stop:
        raise ForeignCheckpoint(
            f"sampler: the state is of {saved} envs, and this sampler has {ranges[-1].stop}. "
            "Make the sampler as the one that was saved."
        )
    return [
        {name: _rows(value, part.start, part.stop) for name, value in state.items()}
        for part in ranges
    ]


def _rows(value: Any, start: int, stop: int) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [_rows(leaf, start, stop) for leaf in value]
    return np.asarray(value)[start:stop]
