"""Test class of backends: results equal those of the serial backend bit for bit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

import plangym_ext
from plangym_ext.arrays.nested import mapped, stacked
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.registry import find_spec, make_gym
from plangym_ext.testing.episode import flat


def assert_equal(got: Any, want: Any, where: str) -> None:
    """Assert that two result tuples are the same, infos included, bit for bit."""
    assert type(got) is type(want)
    for name, mine, theirs in zip(got._fields, got, want, strict=True):
        if name == "infos":
            assert mine.keys() == theirs.keys(), f"{where}: info columns differ"
            for key in mine.keys():  # noqa: SIM118 - iterating gives the rows
                assert flat(mine[key]) == flat(theirs[key]), f"{where}: infos[{key!r}] differ"
            assert flat(list(mine)) == flat(list(theirs)), f"{where}: rows of infos differ"
        else:
            assert flat(mine) == flat(theirs), f"{where}: {name} differ"


@pytest.mark.filterwarnings("ignore:.*You are calling 'step.*:UserWarning")
class BackendContract:
    """Tests of batches of one env on a backend, such as a kernel of your own.

    Attributes:
        name: id of the env, or a callable that makes it.
        options: further arguments for it, if it is an id.
        backend: on trial.
        batch_sizes: B of the random batches.
        horizons: H of the rollouts.
        num_steps: steps without states.
    """

    name: Any = "CartPole-v1"
    options: ClassVar[dict[str, Any]] = {}
    backend = "process"
    batch_sizes: ClassVar[tuple[int, ...]] = (1, 2, 7, 33, 64)
    horizons: ClassVar[tuple[int, ...]] = (1, 5, 30)
    num_steps = 60

    @classmethod
    def constructor(cls) -> Callable[[], Any]:
        """Return a callable that makes the gymnasium env; travels to workers."""
        if not isinstance(cls.name, str):
            found: Callable[[], Any] = cls.name
            return found
        return functools.partial(make_gym, find_spec(cls.name), **cls.options)

    @pytest.fixture(scope="class")
    @classmethod
    def serial(cls) -> Iterator[Any]:
        """Return the env on the serial backend."""
        with GymEnv(cls.constructor()) as env:
            yield env

    @pytest.fixture(scope="class")
    @classmethod
    def candidate(cls) -> Iterator[Any]:
        """Return the env on the backend that is on trial."""
        with plangym_ext.make(cls.constructor(), backend=cls.backend) as env:
            yield env

    @pytest.fixture(scope="class")
    @classmethod
    def pool(cls, serial: Any) -> npt.NDArray[np.uint8]:
        """Return the states of one long run with resets, endings among them."""
        state, *_ = serial.reset(seed=0)
        serial.action_space.seed(0)
        found = [state]
        for _ in range(200):
            found.append(serial.step(serial.sample_action(), return_state=True).state)
        return np.stack(found)

    @classmethod
    def actions(cls, env: Any, shape: tuple[int, ...], seed: int) -> Any:
        """Return a random batch of actions with leading axes `shape`."""
        env.action_space.seed(seed)
        count = int(np.prod(shape))
        drawn = stacked([env.sample_action() for _ in range(max(count, 1))])
        return mapped(lambda leaf: leaf[:count].reshape(*shape, *leaf.shape[1:]), drawn)

    def test_same_states_and_layout(self, serial: Any, candidate: Any) -> None:
        assert candidate.state_width == serial.state_width
        assert candidate.observation_space == serial.observation_space
        assert candidate.action_space == serial.action_space
        assert flat(candidate.reset(seed=5)) == flat(serial.reset(seed=5))

    def test_random_batches_from_states(self, serial: Any, candidate: Any, pool: Any) -> None:
        rng = np.random.default_rng(1)
        for size in self.batch_sizes:
            states = pool[rng.integers(len(pool), size=size)]
            actions = self.actions(serial, (size,), seed=size)
            for dt in (1, 3, rng.integers(1, 6, size=size)):
                want = serial.step_batch(actions, states, dt=dt)
                got = candidate.step_batch(actions, states, dt=dt)
                assert_equal(got, want, f"B={size}, dt={dt}")

    def test_rows_continue_with_resets_and_limits(self, serial: Any, candidate: Any) -> None:
        for env in (serial, candidate):
            env.reset(seed=2)
        endings = 0
        for t in range(self.num_steps):
            # Rows join, pause and go on: each remembers its own place.
            size = (7, 3, 12)[t // 5 % 3]
            actions = self.actions(serial, (size,), seed=1000 + t)
            dt = 1 + t % 2
            want = serial.step_batch(actions, dt=dt, return_state=True)
            got = candidate.step_batch(actions, dt=dt, return_state=True)
            assert_equal(got, want, f"step {t}")
            endings += int((want.terminateds | want.truncateds).sum())
        assert endings > 3, "the test is to cross endings"

    def test_rollouts_stop_at_endings(self, serial: Any, candidate: Any, pool: Any) -> None:
        rng = np.random.default_rng(2)
        stopped = 0
        for horizon in self.horizons:
            for size in (1, 9):
                states = pool[rng.integers(len(pool), size=size)]
                actions = self.actions(serial, (size, horizon), seed=horizon)
                want = serial.rollout_batch(actions, states)
                assert_equal(candidate.rollout_batch(actions, states), want, f"H={horizon}")
                stopped += int((want.steps < horizon).sum())
        assert stopped > 0, "the test is to stop inside rollouts"
