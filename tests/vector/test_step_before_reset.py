"""Steps before the first reset: envs that allow them take them, as with gymnasium's own."""

from __future__ import annotations

import os
import signal

import gymnasium as gym
import numpy as np
import pytest
from same_results import assert_same

import plangym_ext
from plangym_ext.errors import NotExact, WorkerDied
from plangym_ext.vector.sub_envs import row_states

every_backend = pytest.mark.parametrize(
    "options", [{"backend": "serial"}, {"n_workers": 2}], ids=["serial", "workers"]
)

FAIL = 2  # an action outside of the space, which vector envs hand on


class Walk(gym.Env):
    """Goes right from where its constructor put it; every seventh step ends the episode.

    Args:
        start: where that is; None for a place that is another one each time.
    """

    action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Box(-1e9, 1e9, (2,), np.float64)

    def __init__(self, start=10.0):
        self.at = np.random.default_rng().random() if start is None else start
        self.t, self.speed = 0, 1.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = float(self.np_random.random())
        return self._obs(), {}

    def step(self, action):
        self.t += 1
        self.at += action * self.speed
        if action == FAIL:  # half the way
            raise RuntimeError("told to fail")
        return self._obs(), self.at, self.t % 7 == 0, False, {"t": self.t}

    def _obs(self):
        return np.array([self.at, self.t])


class Endless(Walk):
    """Never ends."""

    def step(self, action):
        obs, reward, _, truncated, info = super().step(action)
        return obs, reward, False, truncated, info


def walks(num=3, make=Walk, **options):
    return plangym_ext.make_vec(lambda: make(), num, **options)


def steps(venv, count):
    return [venv.step(np.arange(venv.num_envs) % 2) for _ in range(count)]


def kill(venv, worker):
    os.kill(venv.worker_pids[worker], signal.SIGKILL)


@every_backend
@pytest.mark.parametrize("mode", ["next_step", "same_step", "disabled"])
def test_envs_that_allow_it_are_stepped_as_upstream(mode, options):
    theirs = gym.vector.SyncVectorEnv(
        [Walk] * 3, autoreset_mode=gym.vector.AutoresetMode[mode.upper()]
    )
    with walks(autoreset_mode=mode, **options) as ours:
        count = 6 if mode == "disabled" else 20
        got, expected = steps(ours, count), steps(theirs, count)
        # Then episodes end, and resets without a seed are other ones in each run.
        assert_same(got[:6], expected[:6])
        assert_same([s[2:4] for s in got], [s[2:4] for s in expected])
        assert_same(ours.reset(seed=1), theirs.reset(seed=1))
        if mode != "disabled":
            assert_same(steps(ours, 1), steps(theirs, 1))
    theirs.close()


@every_backend
def test_a_refusal_of_the_env_moves_and_breaks_nothing(options):
    with plangym_ext.make_vec([lambda: gym.make("CartPole-v1")] * 4, **options) as venv:
        for _ in range(2):
            with pytest.raises(gym.error.ResetNeeded, match=r"Cannot call env\.step"):
                venv.step(np.zeros(4, int))
        venv.reset(seed=[5, 6, 7, 8], options={"reset_mask": np.array([True] * 3 + [False])})
        with pytest.raises(gym.error.ResetNeeded, match=r"Cannot call env\.step"):
            venv.step(np.zeros(4, int))
        found = venv.step(np.zeros(3, int), [0, 1, 2])
    with plangym_ext.make_vec([lambda: gym.make("CartPole-v1")] * 3) as plain:
        plain.reset(seed=5)
        assert_same(found, plain.step(np.zeros(3, int)))


def test_a_killed_worker_plays_them_again():
    def played(kills):
        with walks(n_workers=2) as venv:
            found = steps(venv, 3)
            venv.set_attr("speed", 4.0)
            found += steps(venv, 2)
            if kills:
                kill(venv, 0)
                kill(venv, 1)
            found += steps(venv, 1)
            found.append(venv.reset_some([1], seed=[3]))
            if kills:
                kill(venv, 1)
            found.append(venv.step(np.ones(3, int)))
            found.append(venv.reset(seed=4))
            if kills:
                kill(venv, 0)
            return [*found, *steps(venv, 2), venv.get_attr("speed")]

    assert_same(played(kills=True), played(kills=False))


def test_a_start_that_is_another_one_each_time_is_told():
    with walks(make=lambda: Walk(None), n_workers=1, check=False) as venv:
        steps(venv, 3)
        kill(venv, 0)
        with pytest.raises(NotExact, match="3 calls"):
            steps(venv, 1)
        with pytest.raises(gym.error.ResetNeeded):
            steps(venv, 1)
        venv.reset(seed=0)
        steps(venv, 1)


def test_workers_go_on_after_a_call_that_failed():
    with walks(n_workers=2) as venv, walks() as plain:
        steps(venv, 3), steps(plain, 3)
        with pytest.raises(RuntimeError, match="told to fail"):
            venv.step(np.array([0, 1, FAIL]))
        assert_same(steps(venv, 2), steps(plain, 2))


def test_in_this_process_there_is_no_way_back_and_that_is_told():
    with walks() as venv:
        steps(venv, 3)
        with pytest.raises(RuntimeError, match="told to fail"):
            venv.step(np.array([0, 1, FAIL]))
        for text in (r"\[0, 1, 2\] were stepped before their first reset", "Reset all"):
            with pytest.raises(gym.error.ResetNeeded, match=text):
                steps(venv, 1)
        venv.reset(seed=0)
        steps(venv, 1)


def test_without_states_a_death_loses_them_and_says_so():
    with walks(capture="off", n_workers=2) as venv:
        steps(venv, 3)
        kill(venv, 0)
        with pytest.raises(WorkerDied, match="are not captured"):
            steps(venv, 1)
        with pytest.raises(gym.error.ResetNeeded, match="could not be rolled back"):
            steps(venv, 1)
        venv.reset(seed=0)
        steps(venv, 1)


def test_a_death_before_anything_was_done_loses_nothing():
    with walks(n_workers=2) as venv, walks() as plain:
        kill(venv, 0)
        assert_same(steps(venv, 2), steps(plain, 2))


def test_after_too_many_steps_to_play_again_a_reset_brings_states_back(monkeypatch):
    monkeypatch.setattr(row_states, "_MOST_STEPS", 80)
    with walks(make=Endless) as venv, walks(make=Endless) as plain:
        for envs in (venv, plain):
            steps(envs, 90)
            envs.reset(seed=0)
        with pytest.raises(RuntimeError, match="told to fail"):
            venv.step(np.array([0, 1, FAIL]))
        assert_same(steps(venv, 2), steps(plain, 2))
