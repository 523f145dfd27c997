"""The "auto" backend: choice between worker processes and this process by step cost."""

from __future__ import annotations

import functools
import sys
from typing import Any

from plangym_ext.workers.processors import default_n_workers, is_subprocess, workers_pay


def chosen_workers(
    seconds: float | None, render_mode: str | None, target: Any, rows: int
) -> tuple[int | None, str]:
    """Choose between workers and this process by the cost of a step.

    Results are the same either way, so that it is no matter if two runs choose differently.

    Args:
        seconds: what a step costs, as noted when states were proved to be exact; None if they
            were not.
        render_mode: of the env.
        target: what makes it: a name, a class, or another callable.
        rows: of a small batch, for which workers have to be worth it.

    Returns:
        The number of workers, None for none; and the reason.
    """
    n_workers = default_n_workers()
    refused = _refusal(seconds, render_mode, target)
    if refused or seconds is None:
        return None, refused
    cost = f"a step takes about {_shown(seconds)}"
    if workers_pay(seconds, rows, n_workers):
        return n_workers, f"{n_workers} worker processes, as {cost}"
    return None, f"no worker processes, as {cost}"


def proved_seconds(env: Any) -> float | None:
    """Return a serial env's step time, if its states were proved exact."""
    seconds: float | None = env.step_seconds
    return seconds if env.exact else None


def _refusal(seconds: float | None, render_mode: str | None, target: Any) -> str:
    """Say why the env has to stay in this process; "" if it need not."""
    if is_subprocess():
        return "no worker processes, as this is one itself"
    if default_n_workers() == 1:
        return "no worker processes, as there is one processor"
    if render_mode == "human":
        return "no worker processes, as each would open a window"
    if seconds is None:
        return "no worker processes, as its states are not proved to be exact"
    if not _is_importable(target):
        return (
            "no worker processes, as workers cannot import what makes the env, and copies of it "
            "would not share its objects with this process; n_workers=N starts them all the same"
        )
    return ""


def _is_importable(target: Any) -> bool:
    """Return whether a worker finds what makes an env by its name, as it is here.

    A function may hold objects of this process, of which a worker would have copies.
    """
    if isinstance(target, functools.partial):
        target = target.func
    if isinstance(target, str):
        return target.partition(":")[0] != "__main__"
    # The `__main__` of a worker is the worker program.
    if not isinstance(target, type) or target.__module__ == "__main__":
        return False
    found: Any = sys.modules.get(target.__module__)
    # A class of a function's own has "<locals>" in its name, under which nothing is found.
    for name in target.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is target


def _shown(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds > 1e-3 else f"{seconds * 1e6:.0f} us"
