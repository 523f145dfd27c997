"""A closed handle leaves nothing, however many there were: descriptors, memory, threads."""

from __future__ import annotations

import gc
import os
import threading

import numpy as np
import pytest

import plangym_ext
from plangym_ext.errors import BackendUnavailable, MissingExtra

pytestmark = pytest.mark.slow

LONG = bool(os.environ.get("PYTEST_LONG"))
#: Workers take a tenth of a second to start.
COUNT = 200 if LONG else 6
#: Handles before the first measurement: what is loaded and cached once, and what allocators
#: take once for memory that comes and goes. That ends within the first 200.
_FIRST = COUNT if LONG else 2
#: Bytes that may stay of one handle, and of any number of them.
_BYTES_EACH, _BYTES = 20_000, 0 if LONG else 1 << 24

CASES = [
    ("CartPole-v1", "serial", {}),
    ("CartPole-v1", "kernel", {"threads": 2}),
    ("CartPole-v1", "process", {"n_workers": 1}),
    ("HalfCheetah-v5", "mujoco", {"threads": 2}),
]


def held():
    """Descriptors, threads, resident bytes."""
    gc.collect()
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    threads = len(os.listdir("/proc/self/task"))
    assert threads >= threading.active_count()
    return len(os.listdir("/proc/self/fd")), threads, pages * os.sysconf("SC_PAGE_SIZE")


def play_alone(name, backend, options):
    with plangym_ext.make(name, backend=backend, **options) as env:
        state, *_ = env.reset(seed=0)
        env.step_batch(np.stack([env.sample_action()] * 64), np.stack([state] * 64))


def play_vector(name, backend, options):
    with plangym_ext.make_vec(name, 4, backend=backend, **options) as envs:
        envs.reset(seed=0)
        envs.step(envs.action_space.sample())


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="this system has no /proc")
@pytest.mark.parametrize("play", [play_alone, play_vector])
@pytest.mark.parametrize(("name", "backend", "options"), CASES)
def test_handles_that_were_closed_leave_nothing(play, name, backend, options):
    if play is play_vector:
        options = {key: value for key, value in options.items() if key == "n_workers"}
    try:
        for _ in range(_FIRST):
            play(name, backend, options)
    except (BackendUnavailable, MissingExtra) as error:
        pytest.skip(str(error))
    before = held()
    for _ in range(COUNT):
        play(name, backend, options)
    descriptors, threads, memory = (now - then for now, then in zip(held(), before, strict=True))
    assert (descriptors, threads) == (0, 0)
    assert memory < _BYTES + COUNT * _BYTES_EACH
