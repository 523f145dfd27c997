"""The Control Suite's tasks on the MuJoCo backend equal those on the serial one."""

import os
from typing import ClassVar

import pytest
from contract.mujoco_contract import MujocoContract

pytestmark = pytest.mark.slow  # the serial side steps in Python
on_request = pytest.mark.skipif(
    "PYTEST_LONG" not in os.environ, reason="runs in tox -e long: two of the tasks are enough"
)


class SuiteContract(MujocoContract):
    """Shorter: the tasks differ in what they read, not in how rows run."""

    horizons: ClassVar = (1, 12)
    run_length = 60


class TestCheetahRun(SuiteContract):
    """Starts take a simulation, so the env resets rows; derived fields are of the outcome."""

    name = "plangym_ext/cheetah-run-v0"


class TestWalkerRun(SuiteContract):
    """Ten simulation steps in an env step; starts are drawn."""

    name = "plangym_ext/walker-run-v0"


@on_request
class TestHopperHop(SuiteContract):
    """Touch sensors, which `mj_step1` leaves as the last simulation step had them."""

    name = "plangym_ext/hopper-hop-v0"


@on_request
class TestAcrobotSwingup(SuiteContract):
    """Runge-Kutta."""

    name = "plangym_ext/acrobot-swingup-v0"


@on_request
class TestHumanoidRun(SuiteContract):
    """Controls are paid for, and limbs seen from the torso: a product per row."""

    name = "plangym_ext/humanoid-run-v0"
