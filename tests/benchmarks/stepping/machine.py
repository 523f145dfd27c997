"""What the figures were measured on and with."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

import plangym_ext
from stepping import peer


def described() -> dict[str, Any]:
    """Processors, kernel and versions."""
    return {
        "processors": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "system": platform.release(),
        "python": platform.python_version(),
        "plangym-ext": plangym_ext.__version__,
        "plangym": peer.version(),
        **versions("numpy", "gymnasium", "mujoco", "ale-py"),
    }


def versions(*names: str) -> dict[str, str]:
    """Versions of those of some packages that are installed."""
    found = {}
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def load() -> float:
    """Processes that ran or waited to run, averaged over the last minute."""
    return round(os.getloadavg()[0], 2)
