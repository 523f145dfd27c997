"""Table of the `plangym-ext` commands, with lazy loading."""

from __future__ import annotations

import importlib
from typing import Any

#: Command -> its module in this package, and what it does in one line.
COMMANDS: dict[str, tuple[str, str]] = {
    "plan": ("plan", "a planner plays one episode"),
    "compare": ("compare", "several planners at equal model steps"),
    "train": ("train", "a network learns from planning, or an agent from playing"),
    "sweep": ("sweep", "many training runs: values of settings, and seeds"),
    "eval": ("evaluate", "play episodes with what was trained, or compare several players"),
    "audit": ("audit", "what a critic says of states, against returns from these states"),
    "states": ("draw_states", "keep states that a player comes through, to begin from"),
    "explore": ("explore", "an archive of cells, filled from restored states"),
    "plot": ("plot", "curves of runs, seeds together"),
    "report": ("report", "one page about runs, which needs no network"),
    "watch": ("watch", "a live page about runs"),
    "doctor": ("doctor", "how an env's state is captured, with proof"),
    "list": ("listing", "envs, planners, algorithms and presets by name"),
    "completion": ("completion", "let bash, zsh or fish complete what is typed"),
}


def load_command(name: str) -> Any:
    """Return the module of a command: it has `add_arguments` and `run`."""
    return importlib.import_module(f"{__name__}.{COMMANDS[name][0]}")
