"""Helpers of the tests that step batches."""

from __future__ import annotations

import os
import signal

import leaks
import numpy as np


def walk_of(env, count=16):
    """Return `count` states of one seeded walk of an env of `Faulty`."""
    state, *_ = env.reset(seed=0)
    found = [state]
    for t in range(count - 1):
        found.append(env.step(t % 3 // 2, found[-1]).state)
    return np.stack(found)


def warm_up(env, states):
    """Have an env make the memory of its batches, which no test is to be blamed for."""
    env.reset(seed=0)
    many = np.resize(states, (64, states.shape[1]))
    slots = env.states.allocate(2)
    env.states[slots] = states[:2]
    env.step_slots([0, 0], slots, slots)
    env.states.free(slots)
    pending = [env.step_batch_async([0] * 64, many) for _ in range(10)]
    for batch in pending:
        batch.wait()


def pids(env):
    """Return the process ids of the workers."""
    return [worker.process.pid for worker in env.batch_env]


def stop(pid):
    """Stop a process, and return when it stands: a signal takes effect some time after it is sent.

    Until then the process may run on, for as long as it waits for a processor.
    """
    os.kill(pid, signal.SIGSTOP)
    assert leaks.wait_until(lambda: leaks.is_stopped(pid)), f"process {pid} did not stop"
