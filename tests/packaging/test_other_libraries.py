"""Importing us, and compiling, changes nothing in other libraries or in the interpreter."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow  # imports all of torch, numba and the library in a new process

PROGRAM = """
import gc, importlib, logging, pkgutil, resource, signal, sys, threading, warnings

# It takes a tenth of this; by the clock a busy machine may take any number of times as long.
resource.setrlimit(resource.RLIMIT_CPU, (200, 200))

import ale_py, gymnasium.vector, gymnasium.wrappers, numba, numpy, torch
import numba.core.codegen, numba.core.registry, numba.core.targetconfig, numba.core.typed_passes


def members():
    # Names of modules, and of the classes that they define, by what they stand for.
    for name, module in list(sys.modules.items()):
        if module is None or name.partition(".")[0] in ("plangym_ext", "__main__"):
            continue
        for key, value in list(vars(module).items()):
            yield (name, key), value
            if isinstance(value, type) and value.__module__ == name:
                for attribute, member in list(vars(value).items()):
                    yield (name, key, attribute), member


def interpreter():
    hooks = sys.excepthook, threading.excepthook, sys.unraisablehook, sys.displayhook
    limits = gc.get_threshold(), sys.getswitchinterval(), sys.getrecursionlimit()
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    loggers = logging.root.level, list(logging.root.handlers)
    return hooks, limits, handlers, loggers, list(warnings.filters)


numba.njit(lambda x: x[0] + 1)(numpy.zeros(1))  # what numba itself makes ready at first
switched = []
disable = gc.disable
before, at_first = dict(members()), interpreter()
gc.disable = lambda: (switched.append(1), disable())

import plangym_ext

for module in pkgutil.walk_packages(plangym_ext.__path__, "plangym_ext."):
    if module.name.partition("adapters")[1] or module.name.rpartition(".")[2] in PROGRAMS:
        continue
    importlib.import_module(module.name)

import numpy as np
from plangym_ext.core.compiling.jit import kernel, kernel_part


@kernel_part
def doubled(x):
    return x[0] * 2


@kernel
def both(x):
    return doubled(x) + x[1]


assert both(np.arange(2.0)) == 1.0
gc.disable = disable
now = dict(members())
missing = object()
# numba has colorama, if it is there, make these anew for each message, also of what it only tries.
renewed = {("colorama.initialise", "wrapped_stdout"), ("colorama.initialise", "wrapped_stderr")}
changed = [k for k, v in before.items() if now.get(k, missing) is not v and k not in renewed]
assert not changed, changed
assert not switched, "the collector was turned off"
assert interpreter() == at_first
"""


@pytest.mark.timeout(3600)
def test_importing_and_compiling_change_nothing_of_others(tmp_path):
    # Programs that processes run begin when they are imported.
    program = f'PROGRAMS = {{"__main__", "program", "fork_server_program"}}\n{PROGRAM}'
    command = [sys.executable, "-P", "-c", program]
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}  # nothing was compiled before
    found = subprocess.run(command, capture_output=True, text=True, env=env)
    assert found.returncode == 0, found.stderr[-3000:]
