"""The physical limit: processes that restore, step, capture and observe, and never talk.

Each runs a bare loop over rows of its own; they are told at the same time to go and for
how long, and say afterwards how many rows they did. No envelope, no rewards, no flags,
no infos, no checks: what is left out here is what a backend adds.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np

from plangym_ext.states.envelope import HEADER

_GO = struct.Struct("<d")  # seconds to run for
_DONE = struct.Struct("<qd")  # rows run, seconds taken


def run_bare(env: Any, states: np.ndarray, actions: np.ndarray, seconds: float) -> Any:
    """The loop itself, over all rows again and again; returns rows and seconds."""
    restore, capture, step = env.codec.restore, env.codec.capture, env.gym_env.step
    space = env.observation_space
    source, into = states.data.cast("B"), np.zeros_like(states)
    target, width = into.data.cast("B"), states.shape[1]
    seen = np.zeros((len(states), *space.shape), space.dtype)
    rows, passes, begun = range(len(states)), 0, time.perf_counter()
    while (now := time.perf_counter()) < begun + seconds:
        for row in rows:
            offset = row * width + HEADER
            restore(source, offset)
            seen[row] = step(actions[row])[0]
            capture(target, offset)
        passes += 1
    return passes * len(states), now - begun


def play_bare(env: Any, states: np.ndarray, actions: np.ndarray, seconds: float) -> Any:
    """The same for rollouts, actions `[B, H]`: restored once, captured and observed once."""
    restore, capture, step = env.codec.restore, env.codec.capture, env.gym_env.step
    space = env.observation_space
    source, into = states.data.cast("B"), np.zeros_like(states)
    target, width = into.data.cast("B"), states.shape[1]
    seen = np.zeros((len(states), *space.shape), space.dtype)
    rows, passes, begun = range(len(states)), 0, time.perf_counter()
    while (now := time.perf_counter()) < begun + seconds:
        for row in rows:
            offset = row * width + HEADER
            restore(source, offset)
            for action in actions[row]:
                obs = step(action)[0]
            seen[row] = obs
            capture(target, offset)
        passes += 1
    return passes * actions.size, now - begun


class Limit:
    """The processes of one env.

    Args:
        build: makes a serial env of ours; called in every process.
        shares: states and actions of each process.
        loop: what they run.
    """

    def __init__(
        self,
        build: Callable[[], Any],
        shares: list[tuple[np.ndarray, np.ndarray]],
        loop: Callable[..., Any] = run_bare,
    ) -> None:
        command = [sys.executable, "-P", "-m", "stepping.limit"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._processes = [
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
            )
            for _ in shares
        ]
        for process, share in zip(self._processes, shares, strict=True):
            cloudpickle.dump((loop, build, *share), process.stdin)
            process.stdin.flush()
        for process in self._processes:
            process.stdout.read(1)

    def run(self, seconds: float) -> list[tuple[int, float]]:
        """Rows and seconds of each process."""
        for process in self._processes:
            process.stdin.write(_GO.pack(seconds))
            process.stdin.flush()
        return [_DONE.unpack(process.stdout.read(_DONE.size)) for process in self._processes]

    def rows_per_second(self, seconds: float) -> float:
        """Rows of all processes together."""
        return sum(rows / taken for rows, taken in self.run(seconds))

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.stdin.close()
            process.stdout.close()
            process.wait()


def shared_out(states: np.ndarray, actions: np.ndarray, n: int) -> list[Any]:
    """Every n-th row for each of n processes."""
    return [(states[k::n].copy(), actions[k::n].copy()) for k in range(n)]


def serve() -> None:
    """What each process does."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # simulators print
    loop, build, states, actions = pickle.load(requests)
    env = build()
    loop(env, states, actions, 0.05)
    answers.write(b".")
    while request := requests.read(_GO.size):
        answers.write(_DONE.pack(*loop(env, states, actions, *_GO.unpack(request))))
    env.close()


if __name__ == "__main__":
    serve()
