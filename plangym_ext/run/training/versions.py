"""Versions of Python and packages, recorded with a run."""

from __future__ import annotations

import importlib.metadata
import platform


def versions() -> dict[str, str]:
    """Return the versions of Python and of packages that affect results."""
    found = {"python": platform.python_version()}
    for name in ("plangym-ext", "torch", "numpy", "gymnasium", "numba", "ale-py", "mujoco"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
