"""Arrays that share memory: still do when they come back from a state."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import DamagedState, IncompleteState
from plangym_ext.states.graph.reader import GraphReader
from plangym_ext.states.graph.writer import GraphWriter
from plangym_ext.states.nameable import AnyThing


def written(values) -> bytes:
    writer = GraphWriter({}, {})
    writer.put(values)
    return writer.data()


def read(data):
    reader = GraphReader(data, lambda *_: None, AnyThing({}))
    (back,) = reader.get()
    reader.end()
    return back


def grid_first(make):
    grid = make()
    return [grid, grid[1], grid[:, 2], grid[::-1], grid.T, grid.view(np.uint64), grid[1:1]]


def grid_last(make):
    return grid_first(make)[::-1]


def without_grid(make):
    return grid_first(make)[1:]


def views_of_views(make):
    grid = make()
    part = grid[1:]
    return [part[0, 1:3], part, part[:, ::2][:1]]


def windows(make):
    grid = make()
    strided = np.lib.stride_tricks.as_strided(grid, (2, 2), (8, 16))
    return [strided, np.lib.stride_tricks.as_strided(strided[1:], (1, 2), (0, 8)), grid]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("values", [windows, grid_first, grid_last, without_grid, views_of_views])
def test_arrays_of_one_memory_come_back_in_one(values, order):
    held = values(lambda: np.asarray(np.arange(12.0).reshape(3, 4), order=order).copy(order))
    back = read(written(held))
    # What is set through one is seen in all others.
    for number in range(len(held)):
        for arrays in (held, back):
            arrays[number][...] = number + 1
        for before, after in zip(held, back, strict=True):
            np.testing.assert_array_equal(before, after, strict=True)
            assert before.strides == after.strides
    assert written(back) == written(held)


def test_a_view_of_nothing_else_takes_no_more_than_itself():
    lone = np.zeros(100_000)[10:13]
    data = written([lone])
    assert len(data) < 1000
    assert read(data)[0].base is None


def test_a_view_outside_of_its_memory_is_refused():
    grid = np.arange(8.0)
    data = written([grid, grid[4:]])
    assert data.count(b'"<f8", 32, [4]') == 1
    beyond = data.replace(b'"<f8", 32, [4]', b'"<f8", 40, [4]')
    with pytest.raises(DamagedState, match="object graph"):
        read(beyond)


class Rows(gym.Env):
    """Plays in one row of a grid, and is paid by all of it from the tenth step on."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, hidden=False):
        self.hidden = hidden

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        grid = np.zeros((3, 4))
        self.agent = grid[1]
        self.world = [grid] if not self.hidden else Opaque(grid)
        return np.zeros(1), {}

    def step(self, action):
        self.count += 1
        self.agent[self.count % 4] += action
        grid = self.world.grid if self.hidden else self.world[0]
        total = float(grid.sum()) if self.count > 10 else 0.0
        return np.array([float(self.agent.sum())]), total, self.count >= 40, False, {}


class Opaque(set):
    """More than its attributes, so that it has no place in a graph."""

    __slots__ = ("grid",)

    def __init__(self, grid):
        self.grid = grid


@pytest.mark.parametrize("hidden", [False, True], ids=["graph", "pickle"])
@pytest.mark.parametrize("backend", ["serial", "process"])
def test_a_row_of_a_grid_stays_one(hidden, backend):
    actions = np.random.default_rng(0).integers(0, 3, 40)
    with plangym_ext.make(lambda: Rows(hidden), capture="snapshot", backend=backend) as env:
        state, _, _ = env.reset(seed=0)
        assert env.exact
        direct = Rows(hidden)
        direct.reset(seed=0)
        for action in actions:
            _, reward, terminated, *_ = direct.step(int(action))
            out = env.step_batch(np.array([action]), states=state[None])
            assert out.rewards[0] == reward
            assert out.terminateds[0] == terminated
            state = out.states[0]


class Folded(Rows):
    """Views an array whose axes are in an order of their own."""

    def reset(self, *, seed=None, options=None):
        result = super().reset(seed=seed, options=options)
        owner = np.zeros((2, 3, 4)).transpose(1, 0, 2).copy("K")
        self.world, self.agent = [owner], owner[0, 0]
        return result


def test_a_memory_that_its_bytes_do_not_tell_is_refused():
    with pytest.raises(IncompleteState, match="in no plain order"):
        GymEnv(Folded, capture="snapshot")


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_that_cannot_be_written_to_come_back_so(order):
    frozen = np.array([[1.0, 2.0], [3.0, 4.0]], order=order)
    view = frozen[0]  # from before: it can be written to
    frozen.flags.writeable = False
    alone = np.arange(3.0)
    alone.flags.writeable = False
    values = [frozen, view, frozen[1], alone, np.arange(3.0)]
    back = read(written(values))
    assert [one.flags.num for one in back[:2]] == [one.flags.num for one in values[:2]]
    assert [one.flags.num for one in back[3:]] == [one.flags.num for one in values[3:]]
    back[1][0] = 9.0
    assert back[0][0, 0] == 9.0
    assert written(back[3:]) == written(values[3:]) != written([np.arange(3.0), np.arange(3.0)])


class Frozen(gym.Env):
    """Freezes a table late, long after a proof, and shows whether it is frozen."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def __init__(self):
        self.table = np.zeros((30, 40))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.small = 0, np.arange(4.0)
        return np.zeros(1), {}

    def step(self, action):
        self.t += 1
        self.small.flags.writeable = self.t % 20 < 10
        if self.t == 1200:
            self.table.flags.writeable = False
        return np.array([self.table.flags.writeable + 2.0 * self.small.flags.writeable]), 0.0, *END


END = (False, False, {})


def test_a_constant_that_is_frozen_late_is_none_any_more():
    with plangym_ext.make(Frozen, backend="serial", capture="snapshot") as env:
        state, *_ = env.reset(seed=0)
        states, shown = [], []
        for t in range(1300):
            if t % 99 == 0:
                states.append((t, env.get_state()))
            shown.append(float(env.step(0).obs[0]))
        for t, state in states[::-1] + states:
            env.set_state(state)
            assert [float(env.step(0).obs[0]) for _ in shown[t : t + 25]] == shown[t : t + 25], t
