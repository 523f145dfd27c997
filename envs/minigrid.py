"""MiniGrid and BabyAI grid worlds: env ids.

State: a snapshot of the grid's objects; nothing here but the ids. Missions are text:
in batches they are unicode arrays, see `SpaceLayout`.
"""

from __future__ import annotations

from typing import Any

from plangym_ext.states.families import registered_spec, simulator


def resolve(name: str) -> Any:
    """Return the spec of a MiniGrid or BabyAI id, which importing the package registers."""
    simulator("minigrid", "minigrid", name=name)
    return registered_spec(name)
