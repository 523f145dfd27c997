"""Trial of an env's states in a new process, where a fork is unsuitable.

A fork lacks the threads of compiled code and is no working copy of what uses a GPU. The env is
constructed once more, in the new process, and files that it writes are written in memory there.

Run as a program it takes what to try on its standard input.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from plangym_ext.states.families import custom_families, register_family

#: Seconds that the new process may take, the constructor of the env included.
_SECONDS = 120.0


class FreshFailed(Exception):
    """The new process hung or died, or the constructor cannot be sent to it."""


def tried_elsewhere(make: Callable[[], Any], attempt: Callable[[Any], Any]) -> Any:
    """Return the result of `attempt` on a new env in a new process.

    Args:
        make: constructor of the env; it travels by cloudpickle.
        attempt: a function of the env; likewise.

    Raises:
        FreshFailed: there is no result.
    """
    # Imported here: few processes need it.
    import cloudpickle

    try:
        work = cloudpickle.dumps((custom_families(), make, attempt))
    except Exception as error:  # whatever the constructor's own reduction raises
        raise FreshFailed(f"its constructor cannot be sent to a new process ({error})") from error
    command = [sys.executable, "-P", "-m", __name__]
    # The path first: what is sent may be of modules that only it leads to.
    data = pickle.dumps((sys.path, work))
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        raise FreshFailed(f"a new process did not end within {_SECONDS:g} s") from None
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise FreshFailed(f"a new process ended with {done.returncode}: {last}")
    return pickle.loads(done.stdout)


def _main() -> None:
    from plangym_ext.states.trials.sandbox import LIMITS

    data = sys.stdin.buffer.read()
    # What the env writes to its output is no result.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    path, work = pickle.loads(data)
    sys.path[:] = path
    families, make, attempt = pickle.loads(work)
    for family in families:
        register_family(family)
    LIMITS.write_in_memory()
    with out:
        out.write(pickle.dumps(attempt(make())))


if __name__ == "__main__":
    _main()
