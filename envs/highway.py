"""highway-env (driving on highways, crossings, car parks): state codec and env ids.

State: a snapshot of roads, lanes and cars.
"""

from __future__ import annotations

from typing import Any

from plangym_ext.states.families import registered_spec, simulator
from plangym_ext.states.snapshot import SnapshotPart

#: What rendering sets, and no step reads but to draw.
_DRAWING = ("enable_auto_render", "_record_video_wrapper")


def highway_part(env: Any) -> SnapshotPart:
    """Return the codec of highway-env's envs."""
    return SnapshotPart([env], [env], ignored=_DRAWING)


def resolve(name: str) -> Any:
    """Return the spec of a highway-env id, which importing the package registers."""
    simulator("highway_env", "highway", name=name)
    return registered_spec(name)
