"""The process backend equals the serial one, with one, two and three workers."""

from typing import ClassVar

import nested_env
import pytest
from contract.backend_contract import BackendContract

pytestmark = pytest.mark.slow  # each class starts six processes


class TestCartPole(BackendContract):
    """Terminations by falling and truncations at 15 steps."""

    options: ClassVar = {"max_episode_steps": 15}


class TestPendulum(BackendContract):
    """Continuous actions, rewards of every size, truncations alone."""

    name = "Pendulum-v1"
    options: ClassVar = {"max_episode_steps": 25}
    num_steps = 60


class TestNestedSpaces(BackendContract):
    """Dict and Tuple spaces, numeric and other infos, keys that not every row has."""

    @classmethod
    def constructor(cls):
        return nested_env.limited_nested


class TestMsPacman(BackendContract):
    """Sticky actions; few rows, since a frame costs 50 us."""

    name = "ALE/MsPacman-v5"
    options: ClassVar = {"obs_type": "ram", "max_episode_steps": 20}
    batch_sizes: ClassVar = (1, 7)
    horizons: ClassVar = (1, 30)
    num_steps = 30
