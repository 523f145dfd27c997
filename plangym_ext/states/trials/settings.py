"""Process-wide settings (locale, warnings, umask, ...) that an env may change."""

from __future__ import annotations

import abc
import atexit
import builtins
import contextlib
import copyreg
import ctypes
import decimal
import gc
import locale
import logging
import os
import resource
import signal
import sys
import threading
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


def _of_torch() -> Any:
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return None
    return torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled()


_SETTINGS: dict[str, Callable[[], Any]] = {
    "threads, dtype or gradients of torch": _of_torch,
    "sys.path": lambda: sys.path,
    "sys.modules": lambda: sorted(sys.modules),
    "builtins": lambda: sorted((name, repr(value)) for name, value in vars(builtins).items()),
    "warnings.filters": lambda: warnings.filters,
    "levels or handlers of a logger": lambda: (_loggers(), logging.getLogRecordFactory()),
    "the locale": lambda: locale.setlocale(locale.LC_ALL),
    "the time zone": lambda: (time.timezone, time.tzname),
    "the decimal context": decimal.getcontext,
    "numpy.geterr() or the size of its buffers": lambda: (
        np.geterr(),
        np.geterrcall(),
        np.getbufsize(),
    ),
    "numpy.get_printoptions()": np.get_printoptions,
    "the handler of a signal": lambda: [signal.getsignal(one) for one in signal.valid_signals()],
    "the mask of signals": lambda: sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "the name of the thread, or the stack's size": lambda: (
        vars(threading.main_thread()),
        threading.stack_size(),
    ),
    "priority, processors or limits of the process": lambda: (
        os.nice(0),
        os.sched_getaffinity(0),
        *(resource.getrlimit(n) for k, n in vars(resource).items() if k.startswith("RLIMIT_")),
    ),
    "the rounding of floats": lambda: ctypes.CDLL(None).fegetround(),
    "functions of atexit": atexit._ncallbacks,
    "the umask": _umask,
    "the recursion limit, or that of digits": lambda: (
        sys.getrecursionlimit(),
        sys.get_int_max_str_digits(),
    ),
    "the switch interval": sys.getswitchinterval,
    "the thresholds of gc": gc.get_threshold,
    "sys.stdout or sys.stderr": lambda: (id(sys.stdout), id(sys.stderr)),
    "a hook of sys": lambda: (sys.excepthook, sys.displayhook, sys.getprofile(), sys.gettrace()),
    "the registry of gymnasium": lambda: sorted(gym.registry),
    "the table of copyreg": lambda: sorted(map(repr, copyreg.dispatch_table)),
    "subclasses registered with an abstract class": abc.get_cache_token,
}


_PLAIN = (bool, int, float, str)


def scalars() -> dict[str, str]:
    """Return numbers and texts in other packages' modules, and the sizes of their tables.

    Modules of the env's own are looked at as a whole.
    """
    return {
        # A NaN equals itself as a text; of a whole number Python writes no more than 4,300 digits.
        f"{module}.{name}": f"{value:x}"
        if type(value) is int
        else repr(value)
        if type(value) in _PLAIN
        else f"{len(value)} entries"
        for module, content in list(sys.modules.items())
        if module.partition(".")[0] not in ("__main__", "plangym_ext")
        and hasattr(content, "__dict__")
        for name, value in list(vars(content).items())
        if type(value) in (*_PLAIN, dict, list, set) and not name.startswith("__")
    }


def settings() -> dict[str, str]:
    """Return marks of this process's settings by name; a mark changes with its setting."""
    found = {}
    for name, setting in _SETTINGS.items():
        with contextlib.suppress(Exception):  # whatever the `repr` of what was set raises
            found[name] = repr(setting())
    return found
