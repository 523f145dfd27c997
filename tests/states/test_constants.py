"""What constructors make and no step changes is left out of rows, and looked at in each."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest

import plangym_ext
from plangym_ext.errors import ForeignState
from plangym_ext.states.envelope import stacked, state_content


class World:
    """An object of the env's, with data of its own."""


class Data(gym.Env):
    """Reads large data of all kinds, and writes into some of it now and then.

    Args:
        seed: of the data.
        writes: steps after which it does.
    """

    observation_space = gym.spaces.Box(-np.inf, np.inf, (8,), np.float64)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, seed=0, writes=1000):
        rng, self.writes = np.random.default_rng(seed), writes
        self.map = rng.random((50, 50))
        self.view = self.map[3]
        self.frame = pd.DataFrame({"a": rng.random(300), "b": list("xyz") * 100})
        self.table = {s: {a: [((s + a) % 50, float(s))] for a in range(3)} for s in range(50)}
        self.maze = [[float(rng.integers(9)) for _ in range(20)] for _ in range(20)]
        self.row = self.maze[7]
        self.rom, self.world = rng.bytes(5000), World()
        self.world.heights, self.world.time = rng.random(500), 0
        self.small = [1, 2]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.s = 0, 0
        return self._obs(), {}

    def step(self, action):
        self.t, self.s = self.t + 1, self.table[self.s][int(action)][0][0]
        self.world.time += 1
        if self.t % self.writes == self.writes - 1:
            self.view[5] += 1
            self.row[0] += 1.0
            self.frame.loc[1, "a"] = float(self.t)
            self.world.heights[self.t] += self.np_random.random()
        return self._obs(), float(self.s), self.t >= 100, False, {}

    def _obs(self):
        t = self.t
        found = [self.s, self.map[3, 5], self.view[5], self.maze[7][0], self.row[t % 20]]
        return np.array([*found, self.frame.a.iloc[1], self.world.heights[t], self.rom[t]])


class Writing(Data):
    """Writes so often that the proof sees it."""

    def __init__(self):
        super().__init__(writes=7)


def played(env, count=60):
    """Return the states before some steps, and what each of them shows."""
    states, shown = [env.reset(seed=0)[0]], []
    for step in range(count):
        result = env.step(step % 3, return_state=True)
        states.append(result.state)
        shown.append(result.obs)
    return states, shown


def left_out(env):
    return env.codec.parts[-1].constant_sizes()


@pytest.mark.parametrize("make", [Data, lambda: Data(writes=50), Writing], ids=["1000", "50", "7"])
def test_futures_and_bytes_are_the_same_whether_constants_change_or_not(make):
    with plangym_ext.make(make, backend="serial", capture="snapshot") as env:
        states, shown = played(env)
        for at in (0, 20, 49, 50, 6, 59, 3):
            env.set_state(states[at])
            assert state_content(env.get_state()) == state_content(states[at])
            again = [env.step(step % 3).obs for step in range(at, 60)]
            np.testing.assert_array_equal(again, shown[at:])
            # The row of the array, and that of the list, are still parts of these.
            unwrapped = env.gym_env.unwrapped
            assert np.shares_memory(unwrapped.view, unwrapped.map)
            assert unwrapped.row is unwrapped.maze[7]


def test_rows_are_as_wide_as_what_changes():
    with plangym_ext.make(Data, backend="serial", capture="snapshot") as env:
        assert len(env.reset(seed=0)[0]) < 4000 < sum(left_out(env).values())
        names = {name.partition(".")[2] for name in left_out(env)}
        assert names == {"map", "frame", "table", "maze", "rom", "world.heights"}
    with plangym_ext.make(Writing, backend="serial", capture="snapshot") as env:
        # As far as the proof has come, which a busy machine decides.
        assert {name.partition(".")[2] for name in left_out(env)} >= {"table", "rom"}


def test_workers_and_other_instances_take_the_same_rows():
    with (
        plangym_ext.make(Data, backend="serial", capture="snapshot") as env,
        plangym_ext.make(Data, n_workers=1, capture="snapshot") as two,
    ):
        states, shown = played(env)
        rows = stacked(states[:60], "states")
        results = two.step_batch(np.arange(60) % 3, rows)
        np.testing.assert_array_equal(results.obs, shown)
    with plangym_ext.make(lambda: Data(writes=50), backend="serial", capture="snapshot") as other:
        other.reset(seed=0)
        other.gym_env.unwrapped.map[0, 0] += 1  # by its user
        changed = other.get_state()
        assert len(changed) > 8 * 2500
        other.gym_env.unwrapped.map[0, 0] = 7.0
        other.set_state(changed)
        assert other.gym_env.unwrapped.map[0, 0] not in (7.0, Data().map[0, 0])


class Reshaped(Data):
    """Changes what an array is in place, and not its bytes."""

    def __init__(self, how):
        super().__init__()
        self.how, self.numbers = how, np.zeros(400)

    def step(self, action):
        numbers = self.numbers
        if self.t % 5 == 4 and self.how == "dtype":
            numbers.dtype = np.int64 if numbers.dtype == np.float64 else np.float64
        elif self.t % 5 == 4:
            numbers.shape = (400,) if numbers.ndim == 2 else (20, 20)
        return super().step(action)

    def _obs(self):
        is_other = self.numbers.dtype == np.int64 or self.numbers.ndim == 2
        return np.array([*super()._obs()[:7], is_other])


@pytest.mark.parametrize("how", ["dtype", "shape"])
def test_the_same_bytes_of_another_type_or_shape_are_other_content(how):
    with plangym_ext.make(lambda: Reshaped(how), backend="serial", capture="snapshot") as env:
        states, shown = played(env, 20)
        for at in (3, 6, 12, 4, 19):
            env.set_state(states[at])
            again = [env.step(step % 3).obs for step in range(at, 20)]
            np.testing.assert_array_equal(again, shown[at:])


def test_an_env_of_other_data_refuses_them_by_name():
    seed = 0

    def make():
        return Data(seed)

    with plangym_ext.make(make, backend="serial", capture="snapshot") as env:
        state = env.reset(seed=0)[0]
    seed = 1
    with plangym_ext.make(make, backend="serial", capture="snapshot") as other:
        other.reset(seed=0)
        with pytest.raises(ForeignState, match=r"leaves out Data\.\w+.*other content here"):
            other.set_state(state)
