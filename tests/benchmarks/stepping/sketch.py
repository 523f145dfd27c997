"""The least that any batch costs here: processes that share rows out and do nothing else.

One pipe message wakes each process, which runs a fixed share of the rows in the bare loop
of `limit.py`, over memory that it shares with the parent; one message says that it is
done. The parent copies states and actions in and results out. There are no checks, no
seals, no infos, no flags, no balance, and deaths go unnoticed: what is between this and
the limit is the price of being woken, and what is between this and ours buys the rest.
"""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np

from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.states.envelope import HEADER


class Sketch:
    """The processes of one env.

    Args:
        build: makes a serial env of ours; called in every process.
        states: `[B, S]` uint8, of the largest batch.
        actions: `[B, *act]`.
        obs: `[B, *obs]` array like the observations of such a batch.
        n: processes.
    """

    def __init__(
        self,
        build: Callable[[], Any],
        states: np.ndarray,
        actions: np.ndarray,
        obs: np.ndarray,
        n: int,
    ) -> None:
        specs = [(a.shape, a.dtype.str) for a in (states, actions, states, obs)]
        specs.append(((len(states),), "<f8"))
        self._blocks = [
            SharedBlock.create(int(np.prod(shape)) * np.dtype(dtype).itemsize)
            for shape, dtype in specs
        ]
        views = [b.ndarray(*spec) for b, spec in zip(self._blocks, specs, strict=True)]
        self._inputs, self._outputs = views[:2], views[2:]
        fds = [block.fd for block in self._blocks]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-P", "-m", "stepping.sketch"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                pass_fds=fds,
                bufsize=0,
            )
            for _ in range(n)
        ]
        blocks = [(block.fd, block.nbytes) for block in self._blocks]
        for index, process in enumerate(self._processes):
            # A buffered writer: a pipe takes no more than 64 KiB at a time.
            with os.fdopen(os.dup(process.stdin.fileno()), "wb") as file:
                cloudpickle.dump((build, blocks, specs, index, n), file)
        self._poller = select.poll()
        for process in self._processes:
            process.stdout.read(1)
            self._poller.register(process.stdout.fileno(), select.POLLIN)

    def step_batch(self, actions: np.ndarray, states: np.ndarray) -> list[np.ndarray]:
        """States, observations and rewards of B rows; fresh arrays."""
        count = len(states)
        for view, given in zip(self._inputs, (states, actions), strict=True):
            view[:count] = given
        bell = count.to_bytes(4, "little")
        for process in self._processes:
            os.write(process.stdin.fileno(), bell)
        waiting = len(self._processes)
        while waiting:
            for fd, _ in self._poller.poll():
                os.read(fd, 1)
                waiting -= 1
        return [view[:count].copy() for view in self._outputs]

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.stdin.close()
            process.stdout.close()
            process.wait()
        for block in self._blocks:
            block.close()


def serve() -> None:
    """What each process does."""
    answers = os.dup(1)
    os.dup2(2, 1)  # simulators print
    with os.fdopen(os.dup(0), "rb", buffering=0) as requests:
        build, blocks, specs, index, n = pickle.load(requests)
    env = build()
    mapped = [SharedBlock.attach(*block) for block in blocks]
    sources, actions, targets, seen, rewards = (
        block.ndarray(*spec) for block, spec in zip(mapped, specs, strict=True)
    )
    source, target = sources.data.cast("B"), targets.data.cast("B")
    restore, capture, step = env.codec.restore, env.codec.capture, env.gym_env.step
    width = sources.shape[1]
    os.write(answers, b".")
    while bell := os.read(0, 4):
        count = int.from_bytes(bell, "little")
        for row in range(count * index // n, count * (index + 1) // n):
            offset = row * width + HEADER
            restore(source, offset)
            seen[row], rewards[row], *_ = step(actions[row])
            capture(target, offset)
        os.write(answers, b".")
    env.close()


if __name__ == "__main__":
    serve()
