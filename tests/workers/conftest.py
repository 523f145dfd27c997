"""What the tests of batches share: states of one random walk, and the serial reference."""

import pytest
from batches import walk_of, warm_up
from toy_envs import Faulty, faulty_env

from plangym_ext.workers.parallel_env import ParallelEnv


@pytest.fixture(scope="module")
def serial():
    with faulty_env() as env:
        yield env


@pytest.fixture(scope="module")
def walk(serial):
    """16 states `[16, S]` of one seeded walk of `Faulty`."""
    return walk_of(serial)


@pytest.fixture(scope="module")
def pair(walk):
    """`Faulty` on two workers, reset, with the memory of its batches made."""
    with ParallelEnv(Faulty, n_workers=2, timeout=20.0) as env:
        warm_up(env, walk)
        yield env


@pytest.fixture
def mortal(walk):
    """The same for one test, which may kill workers."""
    with ParallelEnv(Faulty, n_workers=2) as env:
        env.reset(seed=0)
        yield env
