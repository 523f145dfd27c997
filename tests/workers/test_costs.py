"""What a batch costs in messages, copies and restores, counted."""

from __future__ import annotations

import os
import re
import tracemalloc

import gymnasium as gym
import leaks
import numpy as np
import pytest
import toy_envs
from batches import warm_up
from toy_envs import Faulty

from plangym_ext.arrays import Array
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.workers.channel import Channel
from plangym_ext.workers.parallel_env import ParallelEnv

pytestmark = pytest.mark.slow  # workers take about 0.3 s to start


class Restored(gym.Env):
    """Counts how often it was restored, which is no part of its state.

    Args:
        state_bytes: size of its state.
    """

    observation_space = gym.spaces.Box(0, np.inf, (2,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, state_bytes=16):
        self.restored, self.state = 0, np.zeros(state_bytes, np.uint8)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state[:] = 0
        return np.zeros(2), {}

    def step(self, action):
        self.state[int(self.state[0]) + 1] = action
        self.state[0] += 1
        obs = np.array([self.state[0], self.state[1:8].sum()], float)
        return obs, 1.0, False, False, {}

    def get_state(self):
        return self.state.copy()

    def set_state(self, state):
        self.restored += 1
        self.state = np.array(state)


@pytest.mark.parametrize("n_workers", [None, 1])
def test_a_rollout_restores_its_row_once(n_workers):
    build = GymEnv if n_workers is None else lambda make: ParallelEnv(make, n_workers=n_workers)
    with build(Restored) as env:
        state, *_ = env.reset(seed=0)
        steps = env.gym_env.unwrapped if n_workers is None else env.batch_env[0]
        for _ in range(2):
            before = steps.restored
            found = env.rollout_batch(np.ones((6, 7), int), [state] * 6)
            assert found.obs.tolist() == [[7.0, 7.0]] * 6
            # Six rows of seven steps; the serial env itself then goes back to its place.
            assert steps.restored - before == (7 if n_workers is None else 6)


@pytest.fixture
def sent(monkeypatch):
    """What this process has written: pipe writes, and messages to single workers."""
    found = {"pipes": 0, "channels": 0}
    write, send = os.write, Channel.send

    def counting_write(fd, data):
        found["pipes"] += 1
        return write(fd, data)

    def counting_send(self, *arguments, **options):
        found["channels"] += 1
        return send(self, *arguments, **options)

    monkeypatch.setattr(os, "write", counting_write)
    monkeypatch.setattr(Channel, "send", counting_send)
    return found


def test_a_batch_is_one_write_for_all_workers_and_rows_and_steps(sent, walk):
    with ParallelEnv(Faulty, n_workers=3) as env:
        env.reset(seed=0)
        slots = env.states.allocate(16)
        env.states[slots] = walk
        calls = [
            lambda: env.step_batch([0] * 16, walk),
            lambda: env.step_slots([0] * 16, slots, slots),
            lambda: env.rollout_batch(np.zeros((16, 20), int), walk),
            lambda: env.step_batch_async([0] * 16, walk).wait(),
        ]
        for call in calls:
            call()  # workers are told of this kind of batch once
            costs = []
            for _ in range(8):
                sent.update(pipes=0, channels=0)
                call()
                costs.append((sent["pipes"], sent["channels"]))
            # On a busy machine a batch may take so long that all are asked how it goes.
            assert min(costs) == (1, 0)
            assert {writes for writes, _ in costs} == {1}


def mapped_kilobytes():
    """Memory files of this process, as far as it has touched them."""
    with open("/proc/self/smaps") as file:
        maps = re.findall(r"/memfd:.*?Rss: +(\d+) kB", file.read(), re.S)
    return sum(map(int, maps))


def test_states_in_slots_never_pass_through_the_parent():
    size, count = 1 << 20, 24
    with ParallelEnv(lambda: Restored(size), n_workers=2) as env:
        state, *_ = env.reset(seed=0)
        root, *slots = env.states.allocate(2 * count + 1)
        even, odd = slots[:count], slots[count:]
        env.states[root] = state
        actions = np.ones(count, int)
        env.step_slots(actions[:1], [root], even[:1])
        before = mapped_kilobytes()
        tracemalloc.start()
        found = env.step_slots(actions, [root] * count, even)
        for source, target in ((even, odd), (odd, even), (even, odd)):
            found = env.step_slots(actions, source, target)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert found.obs.tolist() == [[4.0, 4.0]] * count
        # 24 MB were written four times: in memory that all share, of which this process
        # has looked at next to nothing, and it has copied nothing either.
        assert mapped_kilobytes() - before < size * count / 1024 / 10
        assert most < size / 2
        assert env.states[odd[-1]].nbytes > size
        assert mapped_kilobytes() - before < size * count / 1024 / 4


def test_a_slow_row_holds_up_no_more_than_its_own_range(walk, tmp_path):
    with ParallelEnv(lambda: Faulty(marker=str(tmp_path)), n_workers=2) as env:
        warm_up(env, walk)
        # Where rows cost so much, a batch of 16 begins with ranges of 2 and ends with 1.
        env.step_batch([toy_envs.SLOW] * 2, walk[:2])
        rewards = Array((16,), np.float64, storage="shared")
        pending = env.step_batch_async([toy_envs.NAP] + [0] * 15, walk, out={"rewards": rewards})
        # The worker with the first range sleeps at its first row until it is woken; the other
        # worker runs all that is left, of which half were its own if rows were dealt out.
        rest = rewards.to_ndarray()[2:]
        others = leaks.wait_until(lambda: not pending.poll(0.01) and rest.all())
        (asleep,) = tmp_path.iterdir()
        asleep.unlink()
        assert pending.wait().rewards.to_ndarray().all()
        assert others
