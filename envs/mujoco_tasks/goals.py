"""MuJoCo envs for meta-learning: a task is a direction, speed, place or set of body parameters.

Source: Rakelly et al. 2019, "Efficient off-policy meta-reinforcement learning via probabilistic
context variables"; Finn et al. 2017, "Model-agnostic meta-learning for fast adaptation".
"""

from __future__ import annotations

import copy
import functools
import math
import re
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np

from plangym_ext.envs.mujoco import quiet_compiler
from plangym_ext.envs.mujoco_tasks.model_task import ModelTask
from plangym_ext.envs.mujoco_tasks.walkers import Hopper, Walker2d
from plangym_ext.errors import InvalidOption
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


class _Parameters(_GoalTask):
    """A walker of gymnasium's, whose task multiplies each of the parameters below.

    Source: Rakelly et al. 2019, whose envs draw from 1.5 (damping: 1.3) to the power of -3 to 3.
    """

    reset_noise = 5e-3
    frame_skip = 4
    paid_by: type[Walker2d]
    #: Fields of the model, and the base of their multipliers.
    scaled = (
        *(("body_mass", 1.5), ("body_inertia", 1.5)),
        *(("dof_damping", 1.3), ("geom_friction", 1.5)),
    )

    def __init__(self) -> None:
        env = gymnasium.make(f"{self.paid_by.__name__}-v5", disable_env_checker=True)
        self._paid_by = self.paid_by(env.unwrapped)
        env.close()

    @classmethod
    @functools.cache
    def _loaded(cls) -> Any:
        return cls().load_model()

    @classmethod
    @functools.lru_cache(maxsize=1024)
    def model_of(cls, task: bytes) -> Any:
        """Return the model with its parameters multiplied.

        Raises:
            InvalidOption: a number is not above 0.
        """
        left = np.frombuffer(task)
        if not (left > 0).all():
            raise InvalidOption(f"{cls.__name__}: a task's numbers must be above 0; got {left}.")
        model = copy.copy(cls._loaded())
        for name, _ in cls.scaled:
            values = getattr(model, name)
            part, left = left[: values.size], left[values.size :]
            values *= part.reshape(values.shape)
        # What MuJoCo has derived of them.
        mujoco.mj_setConst(model, mujoco.MjData(model))
        return model

    def sample_tasks(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return multipliers, `[n, d]`, field by field."""
        model = self._loaded()
        bases = [np.full(getattr(model, name).size, base) for name, base in self.scaled]
        base = np.concatenate(bases)
        found: np.ndarray = base ** rng.uniform(-3.0, 3.0, (n, len(base)))
        return found

    def observation(self, after: Rows) -> np.ndarray:
        return self._paid_by.observation(after)

    def reward(self, before: Rows, after: Rows, actions: np.ndarray) -> Any:
        return self._paid_by.reward(before, after, actions)

    def terminated(self, after: Rows) -> np.ndarray | None:
        return self._paid_by.terminated(after)


class HopperParameters(_Parameters):
    """Hopper whose masses, inertias, dampings and frictions are multiplied by the task."""

    model, paid_by, first_task = "hopper.xml", Hopper, (1.0,) * 41


class WalkerParameters(_Parameters):
    """Walker2d whose masses, inertias, dampings and frictions are multiplied by the task."""

    model, paid_by, first_task = "walker2d_v5.xml", Walker2d, (1.0,) * 65
