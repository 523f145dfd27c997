"""Planner options and recorder of the tree page, from command-line options."""

from __future__ import annotations

import argparse
from typing import Any

from plangym_ext.errors import InvalidOption


def tree_options(name: str, planner: Any) -> dict[str, Any]:
    """Return the options that make a planner's plans include trees.

    Raises:
        InvalidOption: it is one of the library's, and grows none.
    """
    from plangym_ext.planners import PLANNERS, load_planner, options_of

    def grows(one: Any) -> bool:
        return any(option.name == "return_tree" for option in options_of(one))

    if grows(planner):
        return {"return_tree": True}
    if name in PLANNERS:
        growing = [other for other in PLANNERS if grows(load_planner(other))]
        raise InvalidOption(
            f"--tree needs a planner that grows a tree: {', '.join(growing)}; got {name!r}."
        )
    return {}  # of one's own: without a tree in its plans, their actions are drawn


def recorder_of(options: argparse.Namespace, env: Any, planner: Any) -> Any:
    """Return the recorder of the tree page; None without the option."""
    if not options.tree:
        return None
    from plangym_ext.run.tree_page.recorder import TreeRecorder, action_names

    # Known only of the env itself: a wrapper may have changed the actions of its class.
    if not (hasattr(env.action_space, "n") and hasattr(env.action_space, "start")):
        raise InvalidOption(f"--tree needs discrete actions; {options.env} has {env.action_space}.")
    limits = [
        f"{value:,} {unit}"
        for value, unit in (
            (planner.num_simulations, "simulations"),
            (planner.max_model_steps, "model steps"),
            (planner.max_seconds, "s"),
        )
        if value is not None
    ]
    searched = f", {' or '.join(limits)} a move" if limits else ""
    subtitle = f"{options.planner}{searched}, seed {options.seed}"
    # Edges are numbered from 0, actions from here.
    first = int(getattr(env.action_space, "start", 0))
    return TreeRecorder(options.env, subtitle, action_names(env), first, options.tree_nodes)
