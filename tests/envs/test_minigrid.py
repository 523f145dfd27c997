"""MiniGrid and BabyAI: the contract through snapshots, and missions in words."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from contract.env_contract import EnvContract

import plangym_ext

pytest.importorskip("minigrid", reason="minigrid is not installed: pip install '.[minigrid]'")

pytestmark = pytest.mark.slow


class TurnsFirst(EnvContract):
    """Going on may end an episode, turning never does."""

    @classmethod
    def harmless_action(cls, env):
        return np.int64(0)


class TestDoorKey(EnvContract):
    """Things are picked up and dropped, so the grid and the agent share them."""

    name = "MiniGrid-DoorKey-6x6-v0"
    options: ClassVar = {"max_episode_steps": 120}
    stranger = "MiniGrid-Empty-5x5-v0"


class TestDynamicObstacles(TurnsFirst):
    """Balls roll at random, and end the episode by a hit."""

    name = "MiniGrid-Dynamic-Obstacles-6x6-v0"

    @classmethod
    def policy(cls, env, seed):
        # Turning on the spot meets no ball, as only a step forward can; then go.
        return lambda t: np.int64(0 if t < 70 else 2)


class TestBabyAI(TurnsFirst):
    """Instructions refer to things on the grid."""

    name = "BabyAI-GoToLocal-v0"
    options: ClassVar = {"max_episode_steps": 110}


@pytest.mark.parametrize(
    "name",
    [
        "MiniGrid-ObstructedMaze-2Dlhb-v1",  # keys in boxes
        "MiniGrid-MemoryS7-v0",
        "MiniGrid-FourRooms-v0",
        "BabyAI-PutNextLocal-v0",
    ],
)
def test_round_trip_is_exact_without_a_pickle(name):
    with plangym_ext.make(name, check=False) as env:
        report = plangym_ext.check_env(env, num_steps=30)
        assert report.exact, report
        assert "objects" in [method for _, method, _ in report.layers]


def test_missions_are_texts_in_batches_too():
    with plangym_ext.make("BabyAI-GoToLocal-v0", check=False) as env:
        rows = [env.reset(seed=seed) for seed in range(4)]
        missions = [obs["mission"] for _, obs, _ in rows]
        assert len(set(missions)) > 1
        states = np.stack([state for state, *_ in rows])
        batch = env.step_batch(np.zeros(4, np.int64), states)
        assert batch.obs["mission"].dtype == np.dtype("<U512")
        assert batch.obs["mission"].tolist() == missions


def test_workers_give_what_the_local_env_gives():
    name = "MiniGrid-DoorKey-5x5-v0"
    with plangym_ext.make(name) as serial, plangym_ext.make(name, n_workers=2) as parallel:
        state, *_ = serial.reset(seed=0)
        actions = np.arange(14) % 7
        mine = serial.step_batch(actions, np.stack([state] * 14))
        theirs = parallel.step_batch(actions, np.stack([state] * 14))
        for key in mine.obs:
            np.testing.assert_array_equal(mine.obs[key], theirs.obs[key])
        np.testing.assert_array_equal(mine.states, theirs.states)


def test_states_of_the_full_picture_wrapper_are_exact():
    from minigrid.wrappers import FullyObsWrapper, RGBImgObsWrapper

    def make():
        import gymnasium as gym

        return RGBImgObsWrapper(FullyObsWrapper(gym.make("MiniGrid-DoorKey-5x5-v0")))

    with plangym_ext.GymEnv(make) as env:
        report = plangym_ext.check_env(env, num_steps=15)
        assert report.exact, report
