"""HalfCheetah and Ant with directions, velocities and places to adapt to, on MuJoCo rows.

Source: Rakelly et al. 2019, "Efficient off-policy meta-reinforcement learning via probabilistic
context variables"; Finn et al. 2017, "Model-agnostic meta-learning for fast adaptation".
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np

from plangym_ext.envs.mujoco import quiet_compiler
from plangym_ext.envs.mujoco_tasks.model_task import ModelTask
from plangym_ext.native.mujoco.task import Rows


class _GoalTask(ModelTask):
    """Common base: a model of gymnasium's, whose task is in `userdata` and is not observed."""

    reads = ("qpos", "qvel", "userdata")
    reads_before = ("qpos",)
    frame_skip = 5
    reset_noise = 0.1
    _control_weight = 0.05

    def load_model(self) -> Any:
        folder = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
        text = (folder / self.model).read_text()
        room = rf'\g<0><size nuserdata="{len(self.first_task)}"/>'
        with quiet_compiler():
            return mujoco.MjModel.from_xml_string(re.sub("<mujoco[^>]*>", room, text, count=1))

    def draw(self, rng: np.random.Generator) -> None:
        # The env resets rows itself, as MuJoCo's own reset would drop the task.
        return None

    def begin(self, model: Any, data: Any, rng: np.random.Generator) -> None:
        joints = super().draw(rng)
        assert joints is not None
        data.qpos[:], data.qvel[:] = joints
        mujoco.mj_forward(model, data)

    def _paid(self, earned: np.ndarray, actions: np.ndarray) -> Any:
        control = self._control_weight * np.square(actions).sum(axis=-1)
        return earned - control, {"reward_task": earned, "reward_ctrl": -control}


class HalfCheetahDirection(_GoalTask):
    """HalfCheetah, paid for its speed forwards (task 1) or backwards (task -1)."""

    model = "half_cheetah.xml"
    first_task = (1.0,)

    def sample_tasks(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return both directions in turn, `[n, 1]`."""
        return np.resize([1.0, -1.0], (n, 1))

    def observation(self, after: Rows) -> np.ndarray:
        return np.concatenate((after.qpos[:, 1:], after.qvel), axis=1)

    def reward(self, before: Rows, after: Rows, actions: np.ndarray) -> Any:
        # An env step is five simulation steps of 0.01 s.
        speed = (after.qpos[:, 0] - before.qpos[:, 0]) / 0.05
        return self._paid(self._earned(speed, after.userdata[:, 0]), actions)

    def _earned(self, speed: np.ndarray, task: np.ndarray) -> np.ndarray:
        return speed * task


class HalfCheetahVelocity(HalfCheetahDirection):
    """HalfCheetah, paid minus the difference of its speed from the task, 0 to 3 m/s."""

    first_task = (1.5,)

    def sample_tasks(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return speeds, `[n, 1]`."""
        return rng.uniform(0.0, 3.0, (n, 1))

    def _earned(self, speed: np.ndarray, task: np.ndarray) -> np.ndarray:
        difference: np.ndarray = np.abs(speed - task)
        return -difference


class AntGoal(_GoalTask):
    """Ant, paid minus its distance from the task, a place within 3 m, along both axes.

    Contacts cost nothing, and contact forces are not observed, unlike in the source.
    """

    model = "ant.xml"
    first_task = (3.0, 0.0)
    _control_weight = 0.1

    def sample_tasks(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return places, `[n, 2]`, evenly over the disc."""
        angle, share = rng.uniform(size=(n, 2)).T
        radius = 3.0 * np.sqrt(share)
        return np.stack(
            (radius * np.cos(2 * math.pi * angle), radius * np.sin(2 * math.pi * angle)), axis=1
        )

    def observation(self, after: Rows) -> np.ndarray:
        return np.concatenate((after.qpos, after.qvel), axis=1)

    def reward(self, before: Rows, after: Rows, actions: np.ndarray) -> Any:
        away = np.abs(after.qpos[:, :2] - after.userdata)
        return self._paid(-(away[:, 0] + away[:, 1]), actions)
