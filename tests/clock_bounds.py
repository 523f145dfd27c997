"""Bounds on time by the clock, on a machine that has other things to do meanwhile."""

from __future__ import annotations

import os
import time


def within(seconds: float, bound: float) -> bool:
    """Return whether something took no longer than a bound for a machine with a free processor.

    Processes that share a processor take as many times longer as the machine makes them wait.
    """
    return seconds < bound or seconds < bound * slowness()


def slowness() -> float:
    """Return how many times longer a process takes now than on a free processor."""
    with open("/proc/loadavg") as file:
        mean, *_, now, _ = file.read().split()
    running = max(float(mean), float(now.partition("/")[0]))
    # Limits of a container, and other guests of the machine, are in no count of processes.
    begun, worked = time.monotonic(), time.thread_time()
    while time.thread_time() - worked < 0.2:
        pass
    waited = (time.monotonic() - begun) / 0.2
    return max(1.0, running / len(os.sched_getaffinity(0)), waited)
