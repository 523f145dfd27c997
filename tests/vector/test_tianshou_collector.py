"""Tianshou's collectors fill their buffers from our vector envs as from its own."""

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext

pytest.importorskip("tianshou")

from tianshou.algorithm.algorithm_base import Policy
from tianshou.data import AsyncCollector, Batch, Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv, SubprocVectorEnv

from plangym_ext.vector.adapters.tianshou import TianshouAsyncVectorEnv, TianshouVectorEnv

LENGTHS = (2, 3, 4, 5)
NUM_REWARDS = 3


class Ladder(gym.Env):
    """Climbs one rung a step, and ends on the last; says so in the way that `kind` asks for."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, length, kind="plain"):
        self.length, self.kind = length, kind
        rung = gym.spaces.Box(0.0, 9.0, (1,))
        self.observation_space = {
            "dict": gym.spaces.Dict(rung=rung, noise=gym.spaces.Box(0.0, 1.0, (2,))),
            "picture": gym.spaces.Box(0, 255, (4, 84, 84), np.uint8),
        }.get(kind, rung)

    def _shown(self):
        if self.kind == "dict":
            noise = self.np_random.random(2, np.float32)
            return {"rung": np.array([self.rung], np.float32), "noise": noise}
        if self.kind == "picture":
            return np.full((4, 84, 84), self.rung, np.uint8)
        return np.array([self.rung], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.rung = 0
        return self._shown(), {"rung": 0, "half": 0.0}

    def step(self, action):
        self.rung += int(action)
        over = self.rung == self.length
        reward = np.full(NUM_REWARDS, float(over)) if self.kind == "rewards" else float(over)
        infos = {"rung": self.rung, "half": self.rung / 2}
        return self._shown(), reward, over, False, infos


class Climb(Policy):
    """Always climbs, and counts its steps as a recurrent policy would keep its state."""

    def forward(self, batch, state=None, **kwargs):
        rows = len(batch.obs["rung"] if isinstance(batch.obs, Batch) else batch.obs)
        state = np.zeros((rows, 2)) if state is None else state + 1
        return Batch(act=np.ones(rows, int), state=state)


def makes(kind):
    return [lambda length=length: Ladder(length, kind) for length in LENGTHS]


def filled(envs, stack_num):
    """Return what a collector's calls return, and the arrays of its buffer after them."""
    buffer = VectorReplayBuffer(total_size=100, buffer_num=len(LENGTHS), stack_num=stack_num)
    collector = Collector(Climb(action_space=Ladder.action_space), envs, buffer)
    collector.reset(gym_reset_kwargs={"seed": 5})
    calls = [{"n_step": 8}, {"n_episode": 4}, {"n_episode": 7}, {"n_episode": 8}]
    told = []
    for call in calls:
        stats = collector.collect(**call)
        told += [stats.n_collected_steps, stats.n_collected_episodes, stats.lens, stats.returns]
    collector.reset(reset_buffer=False, gym_reset_kwargs={"seed": 6})
    told.append(collector.collect(n_episode=5).lens)
    indices = buffer.sample_indices(0)
    kept = buffer[indices]
    envs.close()
    return [*told, indices, kept.obs, kept.obs_next, kept.rew, kept.terminated, kept.info]


def assert_equal(ours, theirs):
    if isinstance(theirs, Batch):
        assert ours.keys() == theirs.keys()
        for name in theirs.keys():  # noqa: SIM118 - a Batch iterates over its rows
            assert_equal(ours[name], theirs[name])
    else:
        np.testing.assert_array_equal(ours, theirs)
        assert np.asarray(ours).dtype == np.asarray(theirs).dtype


@pytest.mark.parametrize("kind", ["plain", "dict", "picture"])
@pytest.mark.parametrize("n_workers", [None, 2])
def test_a_collector_keeps_what_it_keeps_of_tianshous_own_envs(kind, n_workers):
    venv = plangym_ext.make_vec(
        makes(kind), n_workers=n_workers, autoreset_mode="disabled", observation_mode="different"
    )
    stack_num = 2 if kind == "plain" else 1
    ours = filled(TianshouVectorEnv(venv), stack_num)
    theirs = filled(DummyVectorEnv(makes(kind)), stack_num)
    for mine, other in zip(ours, theirs, strict=True):
        assert_equal(mine, other)


# Tianshou warns that an asynchronous collector may keep more than it was asked for.
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["ours", "theirs"])
def test_an_asynchronous_collector_keeps_whole_episodes_in_order(kind):
    if kind == "theirs":
        envs = SubprocVectorEnv(makes("plain"), wait_num=3)
    else:
        venvs = [
            plangym_ext.make_vec(make, 1, n_workers=1, autoreset_mode="disabled", capture="off")
            for make in makes("plain")
        ]
        envs = TianshouAsyncVectorEnv(venvs, wait_num=3)
    size = 60
    buffer = VectorReplayBuffer(total_size=size * len(LENGTHS), buffer_num=len(LENGTHS))
    collector = AsyncCollector(Climb(action_space=Ladder.action_space), envs, buffer)
    collector.reset()
    written = [0] * len(LENGTHS)
    for num_episodes in range(1, 8):
        stats = collector.collect(n_episode=num_episodes)
        assert stats.n_collected_episodes >= num_episodes
        for i, length in enumerate(LENGTHS):
            count = int((stats.lens == length).sum())
            rows = np.arange(written[i], written[i] + count * length) % size
            written[i] += count * length
            part = buffer.buffers[i]
            climbed = np.tile(np.arange(length), count)
            np.testing.assert_array_equal(part.obs[rows, 0], climbed)
            np.testing.assert_array_equal(part.obs_next[rows, 0], climbed + 1)
            np.testing.assert_array_equal(part.terminated[rows], climbed + 1 == length)
    envs.close()
