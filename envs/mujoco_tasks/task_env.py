"""TaskEnv: the gymnasium env of a MuJoCo `ModelTask`, the reference for the native backend."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np

from plangym_ext.envs.mujoco import MujocoPart
from plangym_ext.envs.mujoco_tasks.model_task import ModelTask
from plangym_ext.envs.mujoco_tasks.suite.suite_task import SuiteTask
from plangym_ext.envs.trials import checked_task
from plangym_ext.native.mujoco.task import rows_of
from plangym_ext.states.families import load_named


class TaskEnv(gym.Env[np.ndarray, np.ndarray]):
    """One simulation, and the functions of a task over rows of one.

    Args:
        task: a `ModelTask`, its class, or "module:name" of the class.
        render_mode: "rgb_array" or None.
        width, height: of pictures, in pixels.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012 - as in gymnasium.Env

    def __init__(
        self,
        task: ModelTask | type[ModelTask] | str,
        render_mode: str | None = None,
        width: int = 480,
        height: int = 480,
    ) -> None:
        found: Any = load_named(task)
        self.task: ModelTask = found() if isinstance(found, type) else found
        self.model = self.task.load_model()
        self.data = mujoco.MjData(self.model)
        self.frame_skip, self.render_mode = self.task.frame_skip, render_mode
        self._size = (height, width)
        self._renderer: Any = None
        if self.task.first_task:
            self.set_task(self.task.first_task)
        mujoco.mj_forward(self.model, self.data)
        seen = self._observation()
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, seen.shape, seen.dtype)
        limits = self.model.actuator_ctrlrange.astype(np.float32)
        # MuJoCo's range of an actuator without limits is [0, 0].
        limits[self.model.actuator_ctrllimited == 0] = -np.inf, np.inf
        self.action_space = gym.spaces.Box(limits[:, 0], limits[:, 1], dtype=np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start a fresh episode at what the task draws."""
        super().reset(seed=seed)
        task = self.get_task()
        mujoco.mj_resetData(self.model, self.data)
        self.data.userdata[:] = task
        self.task.begin(self._world, self.data, self.np_random)
        return self._observation(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, Any, bool, bool, dict[str, Any]]:
        """Hold the action for `frame_skip` simulation steps."""
        task = self.task
        before = rows_of(self.data, task.reads_before)
        self.data.ctrl[:] = action
        world = self._world
        mujoco.mj_step(world, self.data, nstep=self.frame_skip)
        if task.contact_forces:
            # `mj_step` leaves contact forces out.
            mujoco.mj_rnePostConstraint(world, self.data)
        if task.derives_after:
            mujoco.mj_step1(world, self.data)
        after = rows_of(self.data, task.reads)
        rewards, infos = task.reward(before, after, np.asarray(action, np.float32)[None])
        ended = task.terminated(after)
        info = {name: np.array(values[0])[()] for name, values in infos.items()}
        terminated = ended is not None and bool(ended[0])
        # A copy: the task may have returned views of the simulation, which moves on.
        return np.array(task.observation(after)[0]), rewards[0], terminated, False, info

    def sample_tasks(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Return n tasks; see `ModelTask.sample_tasks`."""
        return self.task.sample_tasks(n, rng)

    def set_task(self, task: Any) -> None:
        """Set the task, `[d]`; resets leave it as it is."""
        found = checked_task(self, task, self.model.nuserdata)
        self.task.model_of(found.tobytes())  # refuses what makes no model
        self.data.userdata[:] = found

    def get_task(self) -> np.ndarray:
        """Return the task, `[d]` float64, fresh."""
        found: np.ndarray = self.data.userdata.copy()
        return found

    def render(self) -> Any:
        """Return a picture `[height, width, 3]` uint8."""
        if self.render_mode is None:
            return None
        if self._renderer is None:
            self._renderer = _renderer(self.model, *self._size)
        self._renderer.update_scene(self.data)
        return self._renderer.render()

    def close(self) -> None:
        """Free the renderer."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    @property
    def _world(self) -> Any:
        """The model of the task, for all that depends on more than its sizes."""
        found = self.task.model_of(self.data.userdata.tobytes())
        return self.model if found is None else found

    def _observation(self) -> np.ndarray:
        return np.array(self.task.observation(rows_of(self.data, self.task.reads))[0])


def _renderer(model: mujoco.MjModel, height: int, width: int) -> Any:
    """Return a renderer that draws as `MUJOCO_GL` says now.

    MuJoCo looks when it is imported, which may be before it was known that there is no display.
    """
    importlib.reload(sys.modules[mujoco.Renderer.__module__].gl_context)
    return mujoco.Renderer(model, height, width)


#: Fields that the integration vector holds.
_IN_STATE = {
    *("qpos", "qvel", "act", "ctrl", "qacc_warmstart", "qfrc_applied", "xfrc_applied"),
    *("eq_active", "mocap_pos", "mocap_quat", "userdata", "plugin_state", "history", "plastic"),
}


def task_part(env: TaskEnv) -> MujocoPart:
    """Return the codec of a task's env; of derived fields it has those that the task compares."""
    derived = tuple(name for name in env.task.reads_before if name not in _IN_STATE)
    # Nothing edits the suite's models but a wrapper, and the dog's has 70 MB to compare.
    return MujocoPart(env, derived, thorough=not isinstance(env.task, SuiteTask))
