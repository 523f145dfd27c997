"""Table of the `plangym-ext` commands, with lazy loading."""

from __future__ import annotations

import importlib
from typing import Any

#: Command -> its module in this package, and what it does in one line.
COMMANDS: dict[str, tuple[str, str]] = {
    "plan": ("plan", "play one episode with a planner"),
    "compare": ("compare", "compare planners at equal model steps"),
    "train": ("train", "train a network on a planner's plans or an agent's steps"),
    "sweep": ("sweep", "run many training runs over settings and seeds"),
    "eval": ("evaluate", "play evaluation episodes, or compare several players"),
    "play": ("play", "watch a trained agent play an episode"),
    "export": ("export", "write a policy as ONNX, TorchScript or a folder to share"),
    "audit": ("audit", "compare a critic's values with measured returns"),
    "states": ("draw_states", "sample states from a player's episodes"),
    "explore": ("explore", "fill an archive of cells from restored states (Go-Explore)"),
    "plot": ("plot", "draw learning curves, averaged over seeds"),
    "report": ("report", "write one self-contained page about runs"),
    "watch": ("watch", "serve a live page about runs"),
    "doctor": ("doctor", "show how an env's state is captured, and test it"),
    "compile": ("compiling", "make a kernel of a Python env, compared bit for bit"),
    "list": ("listing", "list envs, planners, algorithms and presets"),
    "new": ("new", "write a template of an env, planner or algorithm"),
    "completion": ("completion", "print the set-up for completion in bash, zsh or fish"),
}


def load_command(name: str) -> Any:
    """Return the module of a command: it has `Options` and `run`."""
    return importlib.import_module(f"{__name__}.{COMMANDS[name][0]}")
