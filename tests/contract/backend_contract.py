"""The contract of a backend: bit for bit what the serial one gives.

A subclass names the env; `candidate` is the backend on trial. Every other backend
inherits the class and overrides `candidate`.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar

import numpy as np
import pytest

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.registry import find_spec, make_gym
from plangym_ext.workers.parallel_env import ParallelEnv


def flat(value: Any) -> Any:
    """Return arrays as (shape, dtype, bytes), inside any nesting."""
    if isinstance(value, dict):
        return {key: flat(value[key]) for key in sorted(value)}
    if isinstance(value, (tuple, list)):
        return [flat(part) for part in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, float):
        return np.float64(value).tobytes()
    return value


def assert_equal(got, want, where: str) -> None:
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
    """Override `constructor` (or `name` and `options`).

    Attributes:
        name: id for `plangym_ext.make`.
        options: further arguments for it.
        batch_sizes: B of the random batches.
        horizons: H of the rollouts.
        num_steps: steps without states.
        workers: parameters of `candidate`.
    """

    name = "CartPole-v1"
    options: ClassVar[dict[str, Any]] = {}
    batch_sizes: ClassVar = (1, 2, 7, 33, 64)
    horizons: ClassVar = (1, 5, 30)
    num_steps = 60

    @classmethod
    def constructor(cls):
        """Return a callable that makes the gymnasium env; travels to the workers."""
        return functools.partial(make_gym, find_spec(cls.name), **cls.options)

    @pytest.fixture(scope="class")
    @classmethod
    def serial(cls):
        with GymEnv(cls.constructor()) as env:
            yield env

    @pytest.fixture(scope="class", params=[1, 2, 3], ids="{}-workers".format)
    @classmethod
    def candidate(cls, request, pool):
        with ParallelEnv(cls.constructor(), n_workers=request.param) as env:
            # The largest batches of the tests, and results kept as they keep them: what
            # that maps belongs to the class, and the leak check of a test must not find it.
            size, horizon = max(12, *cls.batch_sizes), max(cls.horizons)
            actions = cls.actions(env, (size, horizon), seed=0)
            held = [env.rollout_batch(actions, pool[:size]) for _ in range(6)]
            del held
            yield env

    @pytest.fixture(scope="class")
    @classmethod
    def pool(cls, serial):
        """Return the states of one long run with resets, endings among them."""
        state, *_ = serial.reset(seed=0)
        serial.action_space.seed(0)
        found = [state]
        for _ in range(200):
            found.append(serial.step(serial.sample_action(), return_state=True).state)
        return np.stack(found)

    @classmethod
    def actions(cls, env, shape, seed):
        """Return a random batch of actions with leading axes `shape`."""
        env.action_space.seed(seed)
        count = int(np.prod(shape))
        return reshape(stack([env.sample_action() for _ in range(max(count, 1))]), shape, count)

    def test_same_states_and_layout(self, serial, candidate):
        assert candidate.state_width == serial.state_width
        assert candidate.observation_space == serial.observation_space
        assert candidate.action_space == serial.action_space
        assert flat(candidate.reset(seed=5)) == flat(serial.reset(seed=5))

    def test_random_batches_from_states(self, serial, candidate, pool):
        rng = np.random.default_rng(1)
        for size in self.batch_sizes:
            states = pool[rng.integers(len(pool), size=size)]
            actions = self.actions(serial, (size,), seed=size)
            for dt in (1, 3, rng.integers(1, 6, size=size)):
                want = serial.step_batch(actions, states, dt=dt)
                got = candidate.step_batch(actions, states, dt=dt)
                assert_equal(got, want, f"B={size}, dt={dt}")

    def test_rows_continue_with_resets_and_limits(self, serial, candidate):
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

    def test_rollouts_stop_at_endings(self, serial, candidate, pool):
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

    def test_rollout_is_its_single_steps(self, candidate, pool):
        horizon = max(self.horizons)
        states = pool[::50]
        actions = self.actions(candidate, (len(states), horizon), seed=3)
        found = candidate.rollout_batch(actions, states)
        for i, state in enumerate(states):
            rewards = []
            for h in range(horizon):
                single = candidate.step_batch(pick(actions, (slice(i, i + 1), h)), state[None])
                state = single.states[0]
                rewards.append(single.rewards[0])
                if single.terminateds[0] or single.truncateds[0]:
                    break
            # After an ending the remaining rewards are zero.
            assert found.steps[i] == len(rewards)
            assert found.rewards[i].tolist() == rewards + [0.0] * (horizon - len(rewards))
            assert found.states[i].tobytes() == state.tobytes()
            assert found.terminateds[i] == single.terminateds[0]
            assert found.truncateds[i] == single.truncateds[0]

    def test_empty_batch(self, serial, candidate, pool):
        for env in (serial, candidate):
            found = env.step_batch(self.actions(serial, (0,), 0), pool[:0])
            assert found.rewards.shape == (0,)
            assert found.states.shape == (0, env.state_width)
            assert len(found.infos) == 0

    def test_results_belong_to_the_caller(self, candidate, pool):
        actions = self.actions(candidate, (7,), seed=4)
        first = candidate.step_batch(actions, pool[:7])
        kept = flat(list(first[:5]))
        candidate.step_batch(self.actions(candidate, (7,), seed=5), pool[20:27])
        assert flat(list(first[:5])) == kept
        for array in (first.states, first.rewards, first.terminateds):
            array[...] = 0  # writable, and not shared

    def test_batches_leave_env_and_rows_where_they_were(self, candidate, pool):
        candidate.reset(seed=6)
        actions = self.actions(candidate, (5,), seed=6)
        candidate.step_batch(actions)
        place = candidate.get_state()
        twice = []
        for _ in range(2):
            candidate.set_state(pool[:5])
            candidate.rollout_batch(self.actions(candidate, (3, 2), seed=7), pool[40:43])
            candidate.step_batch(self.actions(candidate, (9,), seed=8), pool[50:59])
            twice.append(flat(list(candidate.step_batch(actions, return_state=True)[:5])))
        assert twice[0] == twice[1]
        assert candidate.get_state().tobytes() == place.tobytes()


def stack(values):
    """Return a batch of single values, nested as they are."""
    first = values[0]
    if isinstance(first, tuple):
        return tuple(stack([value[k] for value in values]) for k in range(len(first)))
    if isinstance(first, dict):
        return {key: stack([value[key] for value in values]) for key in first}
    return np.stack([np.asarray(value) for value in values])


def reshape(batch, shape, count):
    """Reshape the first axis of every leaf, of which `count` are used, to `shape`."""
    if isinstance(batch, tuple):
        return tuple(reshape(part, shape, count) for part in batch)
    if isinstance(batch, dict):
        return {key: reshape(part, shape, count) for key, part in batch.items()}
    return batch[:count].reshape(*shape, *batch.shape[1:])


def pick(batch, index):
    """Return `batch[index]` of every leaf."""
    if isinstance(batch, tuple):
        return tuple(pick(part, index) for part in batch)
    if isinstance(batch, dict):
        return {key: pick(part, index) for key, part in batch.items()}
    return batch[index]
