"""The MuJoCo backend equals the serial one, for every task of gymnasium's and one's own."""

from typing import ClassVar

import pytest
from balance_task import BalanceTask
from contract.mujoco_contract import MujocoContract

from plangym_ext.envs.mujoco_tasks import register_task

pytestmark = pytest.mark.slow  # the serial side steps in Python


class TestHalfCheetah(MujocoContract):
    """Never terminates: many steps in one native call."""

    name = "HalfCheetah-v5"


class TestHopper(MujocoContract):
    name = "Hopper-v5"


class TestWalker2d(MujocoContract):
    name = "Walker2d-v5"


class TestSwimmer(MujocoContract):
    name = "Swimmer-v5"


class TestAnt(MujocoContract):
    """Contact forces, and positions that lag the state."""

    name = "Ant-v5"
    # Few rows are unhealthy at random; a narrow range ends more.
    options: ClassVar = {"max_episode_steps": 30, "healthy_z_range": (0.4, 0.9)}


class TestHumanoid(MujocoContract):
    name = "Humanoid-v5"


class TestHumanoidStandup(MujocoContract):
    name = "HumanoidStandup-v5"


class TestInvertedPendulum(MujocoContract):
    """Falls within few steps: rows end inside a native call."""

    name = "InvertedPendulum-v5"


class TestInvertedDoublePendulum(MujocoContract):
    name = "InvertedDoublePendulum-v5"


class TestPusher(MujocoContract):
    """A reset draws until it likes what it has drawn."""

    name = "Pusher-v5"


class TestReacher(MujocoContract):
    name = "Reacher-v5"


register_task("test/Balance-v0", BalanceTask, max_episode_steps=30)


class TestOwnTask(MujocoContract):
    """A model and three functions of one's own."""

    name = "test/Balance-v0"
    options: ClassVar = {}
