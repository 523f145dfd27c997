"""Process-wide settings (locale, warnings, umask, ...) that an env may change."""

from __future__ import annotations

import abc
import builtins
import contextlib
import copyreg
import decimal
import gc
import locale
import logging
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np


def _umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found


def _loggers() -> list[Any]:
    known = [logging.root, *logging.root.manager.loggerDict.values()]
    return [
        (one.name, one.level, one.disabled, len(one.handlers))
        for one in known
        if isinstance(one, logging.Logger)
    ]


_SETTINGS: dict[str, Callable[[], Any]] = {
    "sys.path": lambda: sys.path,
    "sys.modules": lambda: sorted(sys.modules),
    "builtins": lambda: sorted((name, repr(value)) for name, value in vars(builtins).items()),
    "warnings.filters": lambda: warnings.filters,
    "levels or handlers of a logger": _loggers,
    "the locale": lambda: locale.setlocale(locale.LC_ALL),
    "the time zone": lambda: (time.timezone, time.tzname),
    "the decimal context": decimal.getcontext,
    "numpy.geterr()": np.geterr,
    "numpy.get_printoptions()": np.get_printoptions,
    "the handler of a signal": lambda: [signal.getsignal(one) for one in signal.valid_signals()],
    "the umask": _umask,
    "the recursion limit": sys.getrecursionlimit,
    "the switch interval": sys.getswitchinterval,
    "the thresholds of gc": gc.get_threshold,
    "sys.stdout or sys.stderr": lambda: (id(sys.stdout), id(sys.stderr)),
    "a hook of sys": lambda: (sys.excepthook, sys.displayhook, sys.getprofile(), sys.gettrace()),
    "the registry of gymnasium": lambda: sorted(gym.registry),
    "the table of copyreg": lambda: sorted(map(repr, copyreg.dispatch_table)),
    "subclasses registered with an abstract class": abc.get_cache_token,
}


def scalars() -> dict[str, str]:
    """Return the numbers and texts that modules of the standard library hold, by name."""
    return {
        f"{module}.{name}": repr(value)  # of which a NaN equals itself
        for module, content in list(sys.modules.items())
        if module.partition(".")[0] in sys.stdlib_module_names and module != "__main__"
        for name, value in list(vars(content).items())
        if type(value) in (bool, int, float, str) and not name.startswith("__")
    }


def settings() -> dict[str, str]:
    """Return marks of this process's settings by name; a mark changes with its setting."""
    found = {}
    for name, setting in _SETTINGS.items():
        with contextlib.suppress(Exception):  # whatever the `repr` of what was set raises
            found[name] = repr(setting())
    return found
