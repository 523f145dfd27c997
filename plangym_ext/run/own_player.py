"""A planner or agent of the user's own, named as `module:function`."""

from __future__ import annotations

from typing import Any

from plangym_ext.core.own_modules import load_own
from plangym_ext.errors import WrongKind


def is_own(name: str) -> bool:
    """Return whether the name of a player is that of a function, not of a planner."""
    # Of `plan` alone. `compare` and `eval` write options after the colon, and know no own ones.
    return ":" in name


def make_own(name: str, env: Any, option: str = "--planner") -> Any:
    """Return the planner that a function of the user's makes for an env.

    Args:
        name: "module:function". The function takes the env and returns a planner or an agent.
        env: where it is to play.
        option: what named it, for errors.

    Raises:
        UnknownName: there is no such module or function.
        WrongKind: it returned neither a planner nor an agent.
    """
    from plangym_ext.planners.base import Planner, as_planner

    which = "which takes the env and returns a planner or an agent"
    make = load_own(name, option, "function", which)
    player = as_planner(make(env))
    if not isinstance(player, Planner):
        raise WrongKind(
            f"{option}: {name} must return a planner or an agent; got a {type(player).__name__}. "
            f"Derive an agent from plangym_ext.learn.Agent."
        )
    return player
