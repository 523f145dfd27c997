"""The kernel backend equals the serial one, for every env that has a kernel."""

from typing import ClassVar

import numpy as np
import pytest
from contract.backend_contract import BackendContract
from contract.given_arrays import GivenArrays

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.native.kernel.kernel_env import KernelEnv
from plangym_ext.testing.backend import assert_equal

pytestmark = pytest.mark.slow  # each class compiles a loop, or loads it

LEVELS = ["#######\n#@ $. #\n#######", "#######\n#. $ @#\n#######", "#######\n# .$@ #\n#######"]


class KernelContract(GivenArrays, BackendContract):
    """The contract, and a long run with resets on every seed."""

    @pytest.fixture(scope="class", params=[None, 3], ids=["one-thread", "three-threads"])
    @classmethod
    def candidate(cls, request, pool):
        with KernelEnv(GymEnv(cls.constructor()), threads=request.param) as env:
            # Threads start with the first batch and belong to the class.
            env.step_batch(cls.actions(env, (12,), seed=0), pool[:12])
            yield env

    @pytest.mark.parametrize("seed", range(3))
    def test_two_thousand_steps_with_resets(self, serial, candidate, seed):
        for env in (serial, candidate):
            env.reset(seed=seed)
        rng = np.random.default_rng(seed)
        for t in range(100):
            actions = self.actions(serial, (20,), seed=seed * 1000 + t)
            dt = 1 if t % 3 else rng.integers(1, 5, size=20)
            want = serial.step_batch(actions, dt=dt, return_state=True)
            got = candidate.step_batch(actions, dt=dt, return_state=True)
            assert_equal(got, want, f"seed {seed}, step {t}")

    def test_slots(self, serial, candidate, pool):
        found = []
        for env in (serial, candidate):
            slots = env.states.allocate(6)
            env.states[slots] = pool[:6]
            actions = self.actions(serial, (6,), seed=8)
            env.step_slots(actions, slots, slots[::-1])
            found.append(env.states[slots].tobytes())
            env.states.free(slots)
        assert found[0] == found[1]


class TestCartPole(KernelContract):
    options: ClassVar = {"max_episode_steps": 15}


class TestCartPoleOfSuttonAndBarto(KernelContract):
    options: ClassVar = {"sutton_barto_reward": True}


class TestPendulum(KernelContract):
    name = "Pendulum-v1"
    options: ClassVar = {"max_episode_steps": 25}


class TestAcrobot(KernelContract):
    name = "Acrobot-v1"
    options: ClassVar = {"max_episode_steps": 20}


class TestMountainCar(KernelContract):
    name = "MountainCar-v0"
    options: ClassVar = {"max_episode_steps": 25, "goal_velocity": 0.01}


class TestMountainCarContinuous(KernelContract):
    name = "MountainCarContinuous-v0"
    options: ClassVar = {"max_episode_steps": 25}


class TestFrozenLake(KernelContract):
    name = "FrozenLake-v1"


class TestFrozenLakeDry(KernelContract):
    name = "FrozenLake-v1"
    options: ClassVar = {"desc": ["SFFF", "FHSF", "FFFG"], "is_slippery": False}


class TestCliffWalking(KernelContract):
    name = "CliffWalking-v1"
    options: ClassVar = {"is_slippery": True, "max_episode_steps": 20}


class TestTaxi(KernelContract):
    name = "Taxi-v4"
    options: ClassVar = {"max_episode_steps": 25}


class TestNarrowPath(KernelContract):
    name = "plangym_ext/NarrowPath-v0"
    options: ClassVar = {"n": 4}


class TestTicTacToe(KernelContract):
    name = "plangym_ext/TicTacToe-v0"
    options: ClassVar = {"stones_per_turn": 2}


class TestConnectFour(KernelContract):
    name = "plangym_ext/ConnectFour-v0"
    options: ClassVar = {"rows": 4, "columns": 4, "length": 3}


class TestChainMDP(KernelContract):
    name = "plangym_ext/ChainMDP-v0"
    options: ClassVar = {"n": 4, "p": 0.8}


class TestTMaze(KernelContract):
    name = "plangym_ext/TMaze-v0"
    options: ClassVar = {"n": 3, "max_episode_steps": 12}


class Test2048(KernelContract):
    name = "plangym_ext/2048-v0"
    options: ClassVar = {"size": 3, "four": 0.3}


class TestSokoban(KernelContract):
    name = "plangym_ext/Sokoban-v0"
    options: ClassVar = {"dim": (6, 7), "num_boxes": 1, "max_episode_steps": 20}


class TestSokobanPictures(KernelContract):
    name = "plangym_ext/Sokoban-v0"
    options: ClassVar = {
        "levels": LEVELS,
        "observation": "rgb",
        "cell_pixels": 2,
        "step_reward": -0.1,
        "max_episode_steps": 25,
    }


class TestSokobanInOrder(KernelContract):
    name = "plangym_ext/Sokoban-v0"
    options: ClassVar = {"levels": LEVELS, "level_order": "sequential", "max_episode_steps": 25}
