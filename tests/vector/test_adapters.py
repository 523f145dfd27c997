"""Adapters to other frameworks; each test is skipped where its framework is not installed."""

from __future__ import annotations

import functools
import os
import signal
import sys
import time

import gymnasium as gym
import nested_env
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from same_results import assert_same

import plangym_ext
from plangym_ext.registry import find_spec, make_gym
from plangym_ext.vector.adapters.in_workers import LegacyInfo

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*already returned term"),
]


class Sensors(gym.Env):
    """Env with a Dict observation and infos of several kinds."""

    observation_space = spaces.Dict(
        {
            "image": spaces.Box(0, 255, (4, 4, 1), np.uint8),
            "speed": spaces.Box(-np.inf, np.inf, (2,), np.float32),
            "gear": spaces.Discrete(4),
        }
    )
    action_space = spaces.Discrete(4)

    def _obs(self):
        image = self.np_random.integers(0, 256, (4, 4, 1), np.uint8)
        speed = self.np_random.normal(size=2).astype(np.float32)
        return {"image": image, "speed": speed, "gear": self.gear}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.gear = int(self.np_random.integers(4))
        return self._obs(), {"why": "reset", "options": options or {}}

    def step(self, action):
        self.gear = int(action)
        info = {"gear": self.gear, "label": f"gear {action}", "array": np.arange(self.gear)}
        over = bool(self.np_random.random() < 0.05)
        return self._obs(), float(self.gear), over, False, info


def sensors():
    return TimeLimit(Sensors(), 15)


def made(name):
    return make_gym(find_spec(name))


MAKES = {
    "CartPole-v1": functools.partial(made, "CartPole-v1"),
    "Pendulum-v1": functools.partial(made, "Pendulum-v1"),
    "LunarLander-v3": functools.partial(made, "LunarLander-v3"),
    "Dict observations": sensors,
}


# Stable-Baselines3 ------------------------------------------------------------------


def sb3_pair(make, num_envs=2, **options):
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    adapters = pytest.importorskip("plangym_ext.vector.adapters.stable_baselines3")
    venv = plangym_ext.make_vec(make, num_envs, autoreset_mode="same_step", **options)
    return adapters.StableBaselines3VecEnv(venv), vec_env.DummyVecEnv([make] * num_envs)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(MAKES))
def test_sb3_gets_what_dummy_vec_env_gives(name):
    ours, theirs = sb3_pair(MAKES[name], n_workers=2)
    for vec_env in (ours, theirs):
        vec_env.seed(3)
        vec_env.set_options({"easy": True} if name == "Dict observations" else None)
    assert_same(dict_of(ours.reset()), dict_of(theirs.reset()))
    assert_same(ours.reset_infos, theirs.reset_infos)
    ours.action_space.seed(0)
    for step in range(2000):
        actions = np.stack([ours.action_space.sample() for _ in range(2)])
        expected = theirs.step(actions)
        obs, *rest = ours.step(actions)
        assert_same(dict_of(obs), dict_of(expected[0]), f"step {step}: ")
        assert_same(rest[:2], list(expected[1:3]), f"step {step}: ")
        for mine, other in zip(rest[2], expected[3], strict=True):
            # The order of an info's keys is not promised.
            assert_same(sorted_keys(mine), sorted_keys(other), f"step {step}: ")
        assert_same(ours.reset_infos, theirs.reset_infos)
    ours.close()
    theirs.close()


def dict_of(obs):
    return sorted_keys(obs) if isinstance(obs, dict) else obs


def sorted_keys(info):
    return {key: info[key] for key in sorted(info)}


def test_sb3_reaches_single_envs():
    ours, theirs = sb3_pair(MAKES["CartPole-v1"], num_envs=3)
    for vec_env in (ours, theirs):
        vec_env.seed(0)
        vec_env.reset()
        vec_env.set_attr("marker", [1, 2], indices=[0, 2])
        assert vec_env.get_attr("marker", indices=[0, 2]) == [[1, 2], [1, 2]]
        assert not vec_env.has_attr("marker")
        assert vec_env.env_method("get_wrapper_attr", "gravity", indices=1) == [9.8]
        assert vec_env.env_is_wrapped(TimeLimit) == [True] * 3
        assert [one.get_wrapper_attr("marker") for one in vec_env.envs[::2]] == [[1, 2]] * 2
    ours.venv.fork(0, [1, 2])
    obs = ours.step(np.zeros(3, int))[0]
    assert (obs == obs[0]).all()
    ours.close()
    theirs.close()


class Loaded(gym.Wrapper):
    """Says what its process has imported."""

    def modules(self):
        return set(sys.modules)


@pytest.mark.parametrize("n_workers", [None, 1])
def test_a_question_for_a_missing_attribute_ends_no_episode(n_workers):
    adapters = pytest.importorskip("plangym_ext.vector.adapters.stable_baselines3")
    venv = plangym_ext.make_vec(
        [MAKES["CartPole-v1"]] * 2, n_workers=n_workers, autoreset_mode="same_step", capture="off"
    )
    vec_env = adapters.StableBaselines3VecEnv(venv)
    vec_env.reset()
    assert not vec_env.has_attr("missing")
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        vec_env.get_attr("missing")
    vec_env.step(np.zeros(2, int))  # without states there would be no way back
    vec_env.close()


@pytest.mark.slow
def test_sb3_stays_out_of_the_workers():
    ours, _ = sb3_pair(lambda: Loaded(gym.make("CartPole-v1")), n_workers=1)
    assert ours.env_is_wrapped(TimeLimit) == [True, True]
    assert ours.get_attr("gravity") == [9.8, 9.8]
    with pytest.raises(AttributeError, match="envs"):
        _ = ours.envs
    (modules,) = ours.env_method("modules", indices=[0])
    assert modules.isdisjoint({"stable_baselines3", "torch"})
    ours.close()


def test_sb3_resets_envs_with_options_of_their_own():
    ours, theirs = sb3_pair(MAKES["CartPole-v1"])
    for vec_env in (ours, theirs):
        vec_env.seed(0)
        vec_env.set_options([{"low": -0.01, "high": 0.01}, {}])
    assert_same(ours.reset(), theirs.reset())
    ours.close()


class NestedActions(gym.Env):
    """Wants a Dict of actions; tells what its reset was given, and counts from the reset."""

    observation_space = spaces.Box(0, 100, (1,), np.float64)
    action_space = spaces.Dict({"add": spaces.Discrete(9), "by": spaces.Box(0, 9, (2,))})
    count = 0.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0.0
        return np.zeros(1), {"options": repr(options)}

    def step(self, action):
        self.count += int(action["add"]) * float(action["by"].sum())
        return np.array([self.count]), self.count, False, False, {}


def test_sb3_takes_lists_of_nested_actions_and_negative_indices():
    ours, theirs = sb3_pair(NestedActions)
    actions = [{"add": k + 1, "by": np.full(2, k, np.float32)} for k in range(2)]
    for vec_env in (ours, theirs):
        vec_env.reset()
    assert [info["options"] for info in ours.reset_infos] == ["None"] * 2
    assert_same(ours.reset_infos, theirs.reset_infos)
    assert_same(ours.step(actions)[0], theirs.step(actions)[0])
    for vec_env in (ours, theirs):
        vec_env.set_options([{"first": 1}, {}])
        vec_env.reset()
        vec_env.set_attr("count", 7.0, indices=-1)
        assert vec_env.get_attr("count", indices=[0, -1]) == [0.0, 7.0]
    assert_same(ours.reset_infos, theirs.reset_infos)
    ours.close()


def test_sb3_takes_an_index_twice():
    ours, theirs = sb3_pair(MAKES["CartPole-v1"])
    for one in (ours, theirs):
        one.set_attr("tag", 3, indices=[0, -2])
        assert one.get_attr("tag", indices=[0]) == [3]
        one.close()


def test_sb3_wants_resets_in_the_same_step():
    adapters = pytest.importorskip("plangym_ext.vector.adapters.stable_baselines3")
    with (
        plangym_ext.make_vec("CartPole-v1", 2, backend="serial") as venv,
        pytest.raises(ValueError, match="autoreset_mode='same_step'"),
    ):
        adapters.StableBaselines3VecEnv(venv)


# Tianshou ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["CartPole-v1", "Dict observations"])
def test_tianshou_gets_what_its_own_vector_env_gives(name):
    tianshou = pytest.importorskip("tianshou.env")
    adapters = pytest.importorskip("plangym_ext.vector.adapters.tianshou")
    venv = plangym_ext.make_vec(MAKES[name], 3, n_workers=2, autoreset_mode="disabled")
    ours, theirs = adapters.TianshouVectorEnv(venv), tianshou.DummyVectorEnv([MAKES[name]] * 3)
    assert (len(ours), ours.is_async) == (3, False)
    rng = np.random.default_rng(0)
    assert_same_returns(ours.reset(seed=3), theirs.reset(seed=3))
    ours.seed(4)
    theirs.seed(4)
    assert_same_returns(ours.reset(), theirs.reset())
    for _ in range(200):
        numbers = rng.permutation(3)[: rng.integers(1, 4)]
        actions = rng.integers(0, 2, len(numbers))
        got, expected = ours.step(actions, numbers), theirs.step(actions, numbers)
        assert_same_returns(got, expected)
        ended = numbers[expected[2] | expected[3]]
        if len(ended):
            assert_same_returns(ours.reset(ended), theirs.reset(ended))
    assert ours.get_env_attr("action_space", [0]) == theirs.get_env_attr("action_space", [0])
    ours.close()
    theirs.close()


class Plain(gym.Env):
    """Has no observation space, as Tianshou allows, and shows what its reset was given."""

    action_space = spaces.Discrete(9)
    offset = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"options": options}, {}

    def step(self, action):
        return {"action": int(action) + self.offset}, 0.0, False, False, {}


class Seeds(Plain):
    """Has a method `seed`, which Tianshou prefers to a reset."""

    def seed(self, seed=None):
        return [seed, "own"]


class Spaceless(Plain):
    """Declares no action space either."""

    @property
    def action_space(self):
        raise AttributeError("action_space")


@pytest.mark.parametrize("n_workers", [None, 1])
def test_tianshou_plays_envs_that_declare_no_spaces(n_workers):
    tianshou = pytest.importorskip("tianshou.env")
    adapters = pytest.importorskip("plangym_ext.vector.adapters.tianshou")
    venv = plangym_ext.make_vec([Spaceless] * 2, n_workers=n_workers, autoreset_mode="disabled")
    found = []
    for envs in (adapters.TianshouVectorEnv(venv), tianshou.SubprocVectorEnv([Spaceless] * 2)):
        seen = [envs.reset()[0].tolist(), envs.step(np.array([1, 2]))[0].tolist()]
        # Collectors ask for it.
        seen += [envs.action_space, envs.step(np.array([3]), [1])[0].tolist()]
        found.append(seen)
        envs.close()
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", [Plain, Seeds])
@pytest.mark.parametrize("n_workers", [None, 1])
def test_tianshou_reaches_envs_as_its_own_does(kind, n_workers):
    tianshou = pytest.importorskip("tianshou.env")
    adapters = pytest.importorskip("plangym_ext.vector.adapters.tianshou")

    def make():
        return TimeLimit(kind(), 50)

    venv = plangym_ext.make_vec([make] * 3, n_workers=n_workers, autoreset_mode="disabled")
    found = []
    for envs in (
        adapters.TianshouVectorEnv(venv),
        tianshou.DummyVectorEnv([make] * 3),
    ):
        seen = [envs.seed(5), envs.reset()[0].tolist()]
        seen += [envs.reset([1], options={"easy": 1})[0].tolist()]
        seen += [[space.sample() for space in envs.action_space] for _ in range(2)]
        envs.set_env_attr("offset", 3, [0, 2])
        envs.set_env_attr("added", "yes")
        seen += [envs.get_env_attr("offset"), envs.get_env_attr("added", 1)]
        if n_workers is None:  # those of workers are out of reach
            seen += [worker.env.unwrapped.offset for worker in envs.workers]
        with pytest.raises(AttributeError, match="missing"):
            envs.get_env_attr("missing")
        seen += [envs.step([1, 2, 3])[0].tolist()]
        envs.close()
        with pytest.raises(AssertionError, match="after close"):
            envs.reset()
        found.append(seen)
    assert found[0] == found[1]


def test_tianshou_may_wait_for_fewer_envs():
    adapters = pytest.importorskip("plangym_ext.vector.adapters.tianshou")
    venv = plangym_ext.make_vec(MAKES["CartPole-v1"], 3, autoreset_mode="disabled")
    envs = adapters.TianshouVectorEnv(venv, wait_num=2, timeout=1.0)
    envs.reset(seed=0)
    assert envs.is_async
    infos = envs.step(np.ones(3, int))[-1]
    assert [info["env_id"] for info in infos] == [0, 1, 2]
    with pytest.raises(ValueError, match="there is none to wait for"):
        envs.step(None)
    envs.close()


WAIT = 2  # not in the action space: an env that is tried out beforehand shall not wait


class Waits(gym.Env):
    """Counts its steps; one of action `WAIT` ends once there is a file."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Box(0, 1e6, (1,), np.float32)

    def __init__(self, file):
        self.file, self.count, self.by = str(file), 0, 1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return np.array([0], np.float32), {}

    def step(self, action):
        while action == WAIT and not os.path.exists(self.file):
            time.sleep(0.005)
        self.count += self.by
        return np.array([self.count], np.float32), float(action), False, False, {}


def one_by_one(make, num):
    """Vector envs of one env each, in a worker of its own."""
    options = {"n_workers": 1, "autoreset_mode": "disabled"}
    return [plangym_ext.make_vec(make, 1, **options) for _ in range(num)]


def test_asynchronous_tianshou_waits_for_as_many_envs_as_it_is_told(tmp_path):
    tianshou = pytest.importorskip("tianshou.env")
    adapters = pytest.importorskip("plangym_ext.vector.adapters.tianshou")
    found = []
    for kind in (adapters.TianshouAsyncVectorEnv, tianshou.SubprocVectorEnv):
        file = tmp_path / kind.__name__
        make = functools.partial(Waits, file)
        ours = kind is adapters.TianshouAsyncVectorEnv
        envs = kind(one_by_one(make, 3) if ours else [make] * 3, wait_num=2)
        seen = [envs.seed(5), envs.reset()[0].tolist()]
        obs, rewards, *_, infos = envs.step(np.array([0, WAIT, 1]))
        ids = [info["env_id"] for info in infos]
        seen.append(sorted(zip(ids, obs.tolist(), rewards.tolist(), strict=True)))
        with pytest.raises(AssertionError, match="which is stepping now"):
            envs.step(np.array([0]), [1])
        file.touch()
        *_, infos = envs.step(None)
        seen.append([info["env_id"] for info in infos])
        envs.set_env_attr("by", 3, [0, 2])
        seen += [envs.get_env_attr("by"), envs.get_env_attr("missing", 1)]
        envs.close()
        found.append(seen)
    assert found[0] == found[1]
    assert [env for env, *_ in found[0][2]] == [0, 2]


def test_asynchronous_tianshou_returns_in_time_and_replaces_a_dead_worker(tmp_path):
    adapters = pytest.importorskip("plangym_ext.vector.adapters.tianshou")
    file = tmp_path / "file"
    venvs = one_by_one(functools.partial(Waits, file), 2)
    envs = adapters.TianshouAsyncVectorEnv(venvs, timeout=0.05)
    envs.reset(seed=0)
    os.kill(envs.workers[0].venv.worker_pids[0], signal.SIGKILL)
    obs, *_, infos = envs.step(np.array([0, WAIT]))
    assert (obs.tolist(), [info["env_id"] for info in infos]) == ([[1]], [0])
    file.touch()
    assert [info["env_id"] for info in envs.step(None)[-1]] == [1]
    envs.close()


def assert_same_returns(got, expected):
    for mine, other in zip(got, expected, strict=True):
        pairs = zip(np.asarray(mine).tolist(), np.asarray(other).tolist(), strict=True)
        for one, its in pairs:
            assert_same(dict_of(one), dict_of(its), types=False)


# CleanRL ----------------------------------------------------------------------------


def test_legacy_infos_have_the_old_layout():
    make = nested_env.limited_nested
    venv = plangym_ext.make_vec(make, 2, autoreset_mode="same_step", n_workers=1)
    expected = plangym_ext.make_vec(make, 2, autoreset_mode="same_step")
    with venv, expected:
        venv.reset(seed=0)
        expected.reset(seed=0)
        legacy, endings = LegacyInfo(venv), 0
        expected.list_infos = True
        expected.action_space.seed(0)
        for _ in range(30):
            actions = expected.action_space.sample()
            *_, infos = legacy.step(actions)
            listed = expected.step(actions)[-1]
            assert "final_obs" not in infos
            for env, info in enumerate(infos.get("final_info", [])):
                assert (info is None) == ("final_obs" not in listed[env])
                if info is not None:
                    endings += 1
                    assert set(info) == set(listed[env]["final_info"])
                    assert info["count"] == listed[env]["final_info"]["count"]
                    assert_same(infos["final_observation"][env], listed[env]["final_obs"])
        assert endings >= 4


def test_legacy_infos_want_resets_in_the_same_step():
    with (
        plangym_ext.make_vec("CartPole-v1", 2, backend="serial") as venv,
        pytest.raises(ValueError, match="autoreset_mode='same_step'"),
    ):
        LegacyInfo(venv)
