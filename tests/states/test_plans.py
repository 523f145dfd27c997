"""Plans: graphs of a structure that was met before are the same bytes, and the same objects."""

from __future__ import annotations

import collections
import copy
import enum
import random

import gymnasium as gym
import numpy as np
import pytest

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.errors import DamagedState

from forging import blocks_of, sealed, snapshot_of  # isort: skip


class Phase(enum.Enum):
    """A member of the state."""

    DAY = 1
    NIGHT = 2


class Piece:
    """Knows its neighbour and its place."""

    def __init__(self, at):
        self.at, self.next, self.seen = at, None, [at]


class Board(gym.Env):
    """Holds one of each kind that a plan knows."""

    observation_space = gym.spaces.Box(-1, 1, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.pieces = [Piece((k, 2.5)) for k in range(3)]
        for one, two in zip(self.pieces, self.pieces[1:] + self.pieces[:1], strict=True):
            one.next = two
        self.by_name = {"first": self.pieces[0], 7: None, (1, 2): [True, "text"]}
        self.order = collections.OrderedDict(a=1.0, b=self.pieces[1])
        self.recent = collections.deque([1, None], maxlen=3)
        self.kept, self.frozen = {3, "x"}, frozenset({(1, 2)})
        self.grid = np.asfortranarray(np.arange(6.0).reshape(2, 3))
        self.flags, self.one, self.f32 = np.array([True, False]), np.int64(5), np.float32(0.1)
        self.rows, self.path, self.line = [[1, 2], [3, 4]], [(1.5, 2.5)], [1.0]
        self.row, self.column = self.rows[1], self.grid[:, 1]
        self.luck, self.raw, self.phase = random.Random(3), b"raw", Phase.DAY
        self.turn, self.like = self.move, 1 + 2j
        return np.zeros(1, np.float32), {}

    def move(self):
        """Is held by an attribute."""

    def step(self, action):
        self.line = [*self.line, self.np_random.random()]
        self.path.append((float(action), self.luck.random()))
        self.grid[0, 1] += 1
        self.pieces[0].at = (self.pieces[0].at[0] + 1, 0.5)
        self.flags[0] = not self.flags[0]
        self.one, self.f32 = self.one + 1, self.f32 * np.float32(1.1)
        self.row[0] += 1
        self.order["a"] += 0.5
        return np.zeros(1, np.float32), float(self.one), False, False, {}


@pytest.fixture
def board():
    with GymEnv(Board) as env:
        env.reset(seed=0)
        for _ in range(40):
            env.set_state(env.get_state())
            env.step(1)
        yield env


def without_plans(env):
    """Return the snapshot as the writer alone makes it."""
    part = snapshot_of(env)
    kept, part._plans = part._plans, type(part._plans)()
    try:
        return part._data()
    finally:
        part._plans = kept


def planned(env):
    """Return how many plans write, and how many read."""
    plans = snapshot_of(env)._plans
    return [sum(map(len, found.values())) for found in (plans._writing, plans._reading)]


def test_plans_write_the_bytes_of_the_writer_and_read_the_objects_of_the_reader(board):
    assert planned(board) == [1, 1]
    for _ in range(5):
        board.step(0)
        state, data = board.get_state(), snapshot_of(board)._data()
        assert data == without_plans(board)
        board.step(1)
        board.set_state(state)
        assert without_plans(board) == data
    env = board.gym_env
    assert env.pieces[2].next is env.pieces[0] is env.by_name["first"]
    assert env.row is env.rows[1]
    assert env.column.base is env.grid
    assert (env.turn.__self__, env.phase, type(env.one)) == (env, Phase.DAY, np.int64)
    assert (env.grid.flags.fnc, env.recent.maxlen) == (True, 3)
    assert planned(board) == [1, 1]


@pytest.mark.parametrize(
    "change",
    [
        lambda env: setattr(env.pieces[1], "new", 1),
        lambda env: setattr(env.pieces[1], "next", env.pieces[1]),
        lambda env: setattr(env, "row", [3, 4]),
        lambda env: setattr(env, "phase", Phase.NIGHT),
        lambda env: setattr(env, "grid", np.ascontiguousarray(env.grid)),
        lambda env: setattr(env, "flags", env.grid[0]),
        lambda env: setattr(env, "column", env.grid[:, 2]),
        lambda env: setattr(env, "column", env.column.copy()),
        lambda env: setattr(env, "one", np.int32(1)),
        lambda env: setattr(env, "luck", env.np_random),
        lambda env: setattr(env, "raw", b"other"),
        lambda env: setattr(env, "line", [1.0, 2]),
        lambda env: setattr(env, "line", [1 << 70]),
        lambda env: setattr(env, "path", [(1.0,), (2.0,)]),
        lambda env: env.by_name.update({"first": env.pieces[1]}),
        lambda env: env.recent.append(1.0),
        lambda env: env.kept.add(4),
        lambda env: setattr(env, "turn", env.reset),
        lambda env: setattr(env, "recent", collections.deque([1, None], maxlen=4)),
    ],
)
def test_what_differs_from_a_structure_is_written_without_its_plan(board, change):
    change(board.gym_env)
    data = snapshot_of(board)._data()
    assert data == without_plans(board)
    board.set_state(sealed(board, data))
    assert without_plans(board) == data


def test_forged_numbers_are_refused_by_plans_as_by_the_reader(board):
    good = blocks_of(board)
    for at, number in enumerate(good.ints):
        for other in (-1, 0, 1 << 40, number + 1):
            blocks = copy.deepcopy(good)
            blocks.ints[at] = other
            row = sealed(board, blocks.data())
            outcomes = []
            for plans in (snapshot_of(board)._plans, None):
                part = snapshot_of(board)
                kept, part._plans = part._plans, plans or type(part._plans)()
                try:
                    board.set_state(row)
                    outcomes.append(without_plans(board))
                except Exception as error:
                    outcomes.append(type(error))
                finally:
                    part._plans = kept
            assert outcomes[0] == outcomes[1], (at, number, other)
    board.set_state(sealed(board, good.data()))
    with pytest.raises(DamagedState):
        board.set_state(sealed(board, good.data() + b"x"))


class Rest:
    """Bytes of a text that are still to be decoded."""


class Undecoded(gym.Env):
    """A part of it holds bytes: sometimes none."""

    observation_space = gym.spaces.Box(0, 9, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.part = Rest()
        self.part.bytes = b"two"
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.part.bytes = b"two"[: 3 * int(action)]
        return np.zeros(1, np.float32), 0.0, False, False, {}


def test_shorter_bytes_than_those_of_a_plan_are_read():
    with GymEnv(Undecoded) as env:
        env.reset(seed=0)
        for _ in range(40):  # by then there is a plan of three bytes
            env.set_state(env.get_state())
        env.step(0)
        state = env.get_state()
        env.step(1)
        env.set_state(state)
        assert env.gym_env.part.bytes == b""


def test_no_plan_is_made_for_a_structure_that_only_rows_have(board):
    with GymEnv(Board) as other:
        other.reset(seed=0)
        other.gym_env.unwrapped.more = ["of another structure", 1, 2.0]
        row = other.get_state()
    for _ in range(30):
        board.set_state(row)
    assert planned(board)[1] == 1  # of its own
    board.get_state()  # now this one is its own too
    for _ in range(30):
        board.set_state(row)
    assert planned(board)[1] == 2


class LateSource(gym.Env):
    """Two generators, of which both come to draw from the same bits after a while."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.parts = 0, {"a": np.random.default_rng(1), "b": np.random.default_rng(2)}
        return np.zeros(1), {}

    def step(self, action):
        self.t += 1
        if self.t == 40:
            bits = self.parts["a"].bit_generator
            self.parts = {"a": np.random.Generator(bits), "b": np.random.Generator(bits)}
        self.parts["b" if action else "a"].random()
        return np.array([self.parts["a"].random()]), 0.0, self.t >= 90, False, {}


def test_generators_that_come_to_share_their_bits_go_on_sharing_them():
    with GymEnv(LateSource, check=False) as env:
        env.reset(seed=0)
        for _ in range(38):  # by then there is a plan
            env.set_state(env.get_state())
            env.step(1)
        for _ in range(9):
            env.step(1)
        state = env.get_state()
        first = [env.step(1).obs[0] for _ in range(9)]
        env.set_state(state)
        assert [env.step(1).obs[0] for _ in range(9)] == first
