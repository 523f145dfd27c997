"""State keys: equality of graph states by state bytes or observation."""

from __future__ import annotations

from typing import Any

from plangym_ext.arrays.nested import content, num_rows, rows_of
from plangym_ext.planners.model import States
from plangym_ext.planners.registry import check_name
from plangym_ext.states.envelope import state_content

_KINDS = ["state", "obs"]


def check_state_key(where: str, kind: str) -> None:
    """Refuse an unknown kind of key; `where` is the option's name in messages."""
    check_name(where, kind, _KINDS)


def state_keys(kind: str, states: States, obs: Any) -> list[bytes]:
    """Return the keys of `[L, S]` states with `[L, *obs]` observations.

    Args:
        kind: the bytes of the "state", which do not depend on how wide its row is, or of the "obs".
        states: `[L, S]`.
        obs: `[L, *obs]`, nested as the observation space; only looked at for "obs".
    """
    if kind == "state":
        return [state_content(state) for state in states]
    return [content(rows_of(obs, i)) for i in range(num_rows(obs))]
