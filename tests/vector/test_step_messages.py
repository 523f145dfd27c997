"""What a step says to a worker and hears from it: bytes that are no pickle, and nothing is lost."""

from __future__ import annotations

import pickle
import types

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv
from same_results import assert_same

import plangym_ext
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.vector.memory.info_forms import INFO_BYTES, MAX_FORMS, InfoForms
from plangym_ext.vector.memory.row_memory import ActionMemory
from plangym_ext.vector.sub_envs import hosts
from plangym_ext.workers import channel, remote_errors, row_worker, worker_handle

N = 4
SPACES = {
    "box": spaces.Box(-1, 1, (2, 3), np.float32),
    "discrete": spaces.Discrete(7),
    "multi_discrete": spaces.MultiDiscrete([3, 5]),
    "multi_binary": spaces.MultiBinary(4),
    "dict": spaces.Dict(
        {"where": spaces.Box(-1, 1, (2,)), "what": spaces.Discrete(3), "on": spaces.MultiBinary(2)}
    ),
    "tuple": spaces.Tuple(
        (spaces.Discrete(3), spaces.Dict({"by": spaces.MultiDiscrete([2, 4, 6])}))
    ),
}


class Told(gym.Env):
    """Shows what it was told to play; its infos are numbers of every kind, or more."""

    observation_space = spaces.Box(-1e9, 1e9, (2,), np.float64)

    def __init__(self, space, words=False):
        self.action_space, self.words = space, words

    def _obs(self, action):
        parts = SpaceLayout(self.action_space).split(action)
        types_of = sum(len(str(getattr(part, "dtype", type(part)))) for part in parts)
        return np.array([sum(float(np.sum(part)) for part in parts), types_of])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(2), {"begun": 7}

    def step(self, action):
        self.t += 1
        info = {
            "t": self.t,
            "half": self.t / 2,
            "odd": bool(self.t % 2),
            "small": np.float32(self.t / 3),
            "flag": np.bool_(self.t % 3),
            "pair": np.array([self.t, -self.t], np.int16),
        }
        if self.t == 2:
            info["two"] = 2
        if self.words:
            info["word"] = "w" * self.t
        return self._obs(action), 1.0, self.t >= 5, False, info


def no_pickle(monkeypatch):
    """Have every pickle of this process's messages, both ways, raise."""

    def refused(*_args, **_kwargs):
        raise AssertionError("a message was pickled")

    fake = types.SimpleNamespace(dumps=refused, loads=refused)
    for module in (channel, hosts, worker_handle, row_worker, remote_errors):
        monkeypatch.setattr(module, "pickle", fake)


@pytest.mark.parametrize("kind", SPACES)
def test_no_step_is_pickled_and_all_comes_back_as_it_was(kind, monkeypatch):
    def make():
        return Told(SPACES[kind])

    mode = gym.vector.AutoresetMode.SAME_STEP
    sync = SyncVectorEnv([make] * N, autoreset_mode=mode)
    # Without states: these are captured once in a while, and travel by pickle then.
    options = {"n_workers": 2, "autoreset_mode": "same_step", "capture": "off"}
    with plangym_ext.make_vec([make] * N, **options) as venv:
        assert_same(venv.reset(seed=3), sync.reset(seed=3))
        sync.action_space.seed(0)
        for t in range(16):
            if t == 10:  # by now every form of infos has been told
                no_pickle(monkeypatch)
            actions = sync.action_space.sample()
            assert_same(venv.step(actions), sync.step(actions), f"step {t}")
        some = [2, 0, 3]
        actions = gym.vector.utils.batch_space(SPACES[kind], 3).sample()
        obs, *_, infos = venv.step(actions, some)
        assert infos["t"].tolist() == [2, 2, 2]
        assert obs[:, 0].any()
        monkeypatch.undo()


def test_a_step_into_arrays_pickles_no_info_that_is_not_asked_for(monkeypatch):
    makes = [lambda: Told(SPACES["discrete"], words=True)] * N
    with plangym_ext.make_vec(
        makes, n_workers=2, autoreset_mode="same_step", capture="off"
    ) as venv:
        venv.reset(seed=0)
        tree = plangym_ext.ArrayDict(
            {
                "rewards": plangym_ext.Array((N,), np.float64, storage="shared"),
                "infos": plangym_ext.ArrayDict(
                    {"t": plangym_ext.Array((N,), np.int64, storage="shared")}
                ),
            }
        )
        nothing, halves = (venv.step_out(tree, infos=names) for names in ((), ("half",)))
        actions = np.zeros(N, np.int64)
        for t in range(1, 12):
            if t == 6:
                no_pickle(monkeypatch)
            out = halves if t % 2 else nothing
            infos = venv.step(actions, out=out)[4]
            expected = (t - 1) % 5 + 1
            assert np.asarray(tree["infos"]["t"]).tolist() == [expected] * N
            told = infos.get("final_info", infos).get("half", [])
            assert list(told) == ([expected / 2] * N if t % 2 else [])
        monkeypatch.undo()


def test_a_worker_that_was_replaced_numbers_its_forms_anew():
    makes = [lambda: Told(SPACES["box"])] * N
    options = {"autoreset_mode": "same_step"}
    with (
        plangym_ext.make_vec(makes, n_workers=2, **options) as venv,
        plangym_ext.make_vec(makes, backend="serial", **options) as plain,
    ):
        assert_same(venv.reset(seed=0), plain.reset(seed=0))
        plain.action_space.seed(1)
        for t in range(12):
            if t in (4, 7):
                venv._backend._hosts.hosts[t % 2].worker.process.kill()
            actions = plain.action_space.sample()
            assert_same(venv.step(actions), plain.step(actions), f"step {t}")


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("rows", [slice(1, 4), [3, 0]])
def test_actions_are_taken_as_they_were_put(kind, rows):
    layout = SpaceLayout(SPACES[kind])
    memory = ActionMemory(layout, N, np.zeros(ActionMemory.nbytes(layout, N), np.uint8))
    count = len(range(N)[rows]) if isinstance(rows, slice) else len(rows)
    batch = gym.vector.utils.batch_space(SPACES[kind], count)
    actions = batch.sample()
    if not layout.is_flat:
        actions = [*gym.vector.utils.iterate(batch, actions)]
    code = memory.put(rows, actions)
    assert len(code) == 1
    assert_same(memory.take(rows, code), actions)


@pytest.mark.parametrize(
    "actions",
    [
        np.zeros((N, 3), np.float32),
        np.zeros((N, 2, 3), np.longdouble),
        np.zeros((N, 2, 3), ">f4"),
        np.full((N, 2, 3), None),
        [np.zeros((2, 3), np.float32)] * N,
    ],
)
def test_actions_that_could_not_be_read_as_they_came_are_refused(actions):
    layout = SpaceLayout(SPACES["box"])
    memory = ActionMemory(layout, N, np.zeros(ActionMemory.nbytes(layout, N), np.uint8))
    assert memory.put(slice(0, N), actions) == b""


INFOS = [
    {},
    {"a": 1, "b": 2.5, "c": True},
    {"a": -(2**63), "b": float("inf"), "c": False},
    {"b": 2.5, "a": 1},
    {"x": np.float32(0.1), "y": np.uint8(200), "z": np.bool_(True)},
    {"m": np.arange(6, dtype=np.int16).reshape(2, 3), "n": np.array(2.5), "o": np.zeros(0)},
]


def told(reader, writer, row, info):
    """Write an info and read it, as a call after one that has told the forms does."""
    if writer.write(row, 1, info, len(reader)) < 0:
        known = len(reader)
        reader.learn(known, pickle.loads(pickle.dumps(writer.since(known))))
    number = writer.write(row, 1, info, len(reader))
    return None if number < 0 else reader.read(row, 1, number)


def two_ends():
    memory = np.zeros((N, 2, INFO_BYTES), np.uint8)
    return InfoForms(memory), InfoForms(memory)


def test_infos_are_read_as_they_were_written():
    reader, writer = two_ends()
    for info in (*INFOS, *reversed(INFOS)):
        found = told(reader, writer, 2, info)
        assert_same(found, info)
        assert list(found) == list(info)
        assert [*map(type, found.values())] == [*map(type, info.values())]
    assert len(reader) == 5, "equal forms share a number"


@pytest.mark.parametrize(
    "info",
    [
        {"word": "w"},
        {"big": 2**63},
        {"none": None},
        {3: 1},
        {"inner": {"a": 1}},
        {"much": np.zeros(INFO_BYTES // 8 + 1)},
        {"objects": np.array([None])},
        {"other": np.zeros(2, ">i4")},
    ],
)
def test_infos_of_more_than_numbers_travel_otherwise(info):
    assert told(*two_ends(), 0, info) is None


def test_there_is_an_end_to_the_forms():
    reader, writer = two_ends()
    found = [told(reader, writer, 0, {f"k{number}": 1}) for number in range(MAX_FORMS + 3)]
    most = MAX_FORMS - 1  # one is that of no fields
    assert found[most - 1] == {f"k{most - 1}": 1}
    assert found[most:] == [None] * 4
