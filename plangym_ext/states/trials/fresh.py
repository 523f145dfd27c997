"""Trial of an env's states in a fork, or in a new process where a fork is unsuitable.

A fork lacks the threads of compiled code, and GPU libraries do not work in it. The env is
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

import gymnasium as gym

from plangym_ext.states.codec import layers
from plangym_ext.states.families import custom_families, register_family
from plangym_ext.states.trials.fork import SILENCE, Fork, ForkFailed, ForkHung, Line
from plangym_ext.states.trials.surroundings import running_threads

#: Seconds that the new process may take, the constructor of the env included.
_SECONDS = 120.0


#: Why forks cannot try envs of some classes: one has hung, and the next would, too.
_hung: dict[tuple[str, ...], str] = {}


class FreshFailed(Exception):
    """The new process hung or died, or the constructor cannot be sent to it."""


def class_name(layer: Any) -> str:
    """Return a name of a layer's class: the same in forks, another where it is defined anew."""
    cls = type(layer)
    return f"{cls.__module__}.{cls.__qualname__} {id(cls)}"


def tried(
    env: gym.Env[Any, Any],
    attempt: Callable[[Line], Any],
    make: Callable[[], Any] | None,
    elsewhere: Callable[[Any], Any],
    told: Callable[..., None] = lambda *_: None,
) -> tuple[Any, str]:
    """Return the result of a trial on a copy, and the reason for a new process, or "".

    Args:
        env: which is not touched.
        attempt: called in a fork, with its end of the line; what it returns is no tuple.
        make: constructor of what is tried in a new process; None to try it in a fork alone.
        elsewhere: called there with what was constructed.
        told: called with each tuple that the fork sends while it is at work.

    Raises:
        ForkFailed: there is no result.
    """
    kind = tuple(map(class_name, layers(env)))
    try:
        found = _in_a_fork(env, kind, attempt, told)
    except ForkFailed as error:
        if isinstance(error, ForkHung):
            _hung[kind] = str(error)
        reason = f"tried in a copy of this process: {error}"
    else:
        return found, ""
    if make is None:
        raise ForkFailed(reason)
    try:
        return tried_elsewhere(make, elsewhere), reason
    except FreshFailed as error:
        raise ForkFailed(f"{reason}; and {error}") from error


def _in_a_fork(
    env: gym.Env[Any, Any],
    kind: tuple[str, ...],
    attempt: Callable[[Line], Any],
    told: Callable[..., None],
) -> Any:
    if kind in _hung:
        raise ForkFailed(_hung[kind])
    threads = running_threads(env)
    if threads:
        raise ForkFailed(f"a copy of this process lacks the threads of {', '.join(threads)}")
    with Fork(lambda line: line.send(attempt(line))) as fork:
        while isinstance(found := fork.line.receive(SILENCE), tuple):
            told(*found)
    return found


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
