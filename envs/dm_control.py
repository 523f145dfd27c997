"""DeepMind Control Suite envs as gymnasium envs: ids such as `dm_control/cheetah-run-v0`.

Its endings are kept apart: discount 0 is a termination, the time limit (discount 1) a
truncation. Its package needs `mujoco<4` and so an environment of its own:
`pip install '.[dm_control]'` in a checkout, into a virtual environment of its own.
"""

from __future__ import annotations

import contextlib
import logging
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np

from plangym_ext.envs.mujoco_arrays import ModelArrays
from plangym_ext.errors import IncompleteState, UnknownName, suggestion
from plangym_ext.states.families import simulator
from plangym_ext.states.part import StatePart, StateTooWide, get_block, put_block
from plangym_ext.states.snapshot import SnapshotPart

_PREFIX, _SUFFIX = "dm_control/", "-v0"


class DMControlEnv(gym.Env[Any, np.ndarray]):
    """A `dm_control.rl.control.Environment` with gymnasium's interface.

    An episode that is over can be stepped on, as gymnasium's own simulators allow;
    nothing is reset unless `reset` is called.

    Args:
        environment: the suite's, or one of your own tasks on the same class.
        flat_observation: one float64 vector instead of a dict of arrays.
        render_mode: "rgb_array" or None. Pictures need OpenGL; without a display set
            the environment variable `MUJOCO_GL` to egl or osmesa.
        width: of the pictures.
        height: of the pictures.
        camera_id: number or name; -1 is a free camera.
    """

    def __init__(
        self,
        environment: Any,
        *,
        flat_observation: bool = True,
        render_mode: str | None = None,
        width: int = 320,
        height: int = 240,
        camera_id: int | str = -1,
    ) -> None:
        self.environment, self._is_flat = environment, flat_observation
        #: The model before any task has changed it, and what it has become.
        self.model_arrays = ModelArrays(environment.physics.model.ptr)
        self.metadata = {
            "render_modes": ["rgb_array"],
            "render_fps": round(1 / environment.control_timestep()),
        }
        self.render_mode = render_mode
        self._picture = {"width": width, "height": height, "camera_id": camera_id}
        self._is_seeded = False
        #: Whether the graphics card has the height fields of the model as it is now.
        self.is_terrain_shown = True
        spec = environment.action_spec()
        low, high = (np.broadcast_to(x, spec.shape) for x in (spec.minimum, spec.maximum))
        self.action_space = gym.spaces.Box(low, high, spec.shape, spec.dtype.type)
        # Many tasks have no observation before their first episode.
        self.observation_space = _space(self._observation(environment.reset().observation))

    @property
    def physics(self) -> Any:
        """The simulator, with its model and data."""
        return self.environment.physics

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode; with a seed, the one that `suite.load` starts with it."""
        super().reset(seed=seed, options=options)
        random = getattr(self.environment.task, "random", None)
        # The generator of the task, which `suite.load` would have made of the seed.
        if random is not None and seed is not None:
            random.seed(seed)
        # Later resets without a seed go on with the task's generator, as gymnasium's own envs do.
        elif random is not None and not self._is_seeded:
            random.seed(int(self.np_random.integers(2**32)))
        self._is_seeded = True
        return self._observation(self.environment.reset().observation), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Advance by one control step."""
        # Otherwise the step after an ending would be a reset in disguise.
        self.environment._reset_next_step = False
        timestep = self.environment.step(action)
        discount = float(timestep.discount)
        terminated = bool(timestep.last() and discount == 0.0)
        truncated = bool(timestep.last() and not terminated)
        obs = self._observation(timestep.observation)
        return obs, float(timestep.reward), terminated, truncated, {"discount": discount}

    def render(self) -> Any:
        """Return a picture `[height, width, 3]` uint8; None without a render mode."""
        if self.render_mode is None:
            return None
        if not self.is_terrain_shown:
            self._show_terrain()
        return self.physics.render(**self._picture)

    def _show_terrain(self) -> None:
        self.is_terrain_shown = True
        model = self.physics.model.ptr
        if model.nhfield:
            contexts = self.physics.contexts
            with contexts.gl.make_current() as context:
                for field in range(model.nhfield):
                    context.call(mujoco.mjr_uploadHField, model, contexts.mujoco.ptr, field)

    def close(self) -> None:
        """Free the simulator and its windows."""
        self.environment.close()

    def _observation(self, observation: Any) -> Any:
        # Copies: a task may hand out views of the simulator's memory.
        if self._is_flat:
            return np.concatenate([np.ravel(part) for part in observation.values()], dtype=float)
        return {key: np.array(part, dtype=float) for key, part in observation.items()}


def _space(observation: Any) -> gym.Space[Any]:
    if isinstance(observation, dict):
        return gym.spaces.Dict({key: _space(part) for key, part in observation.items()})
    return gym.spaces.Box(-np.inf, np.inf, observation.shape, observation.dtype.type)


def suite_env(
    domain: str,
    task: str,
    *,
    task_kwargs: dict[str, Any] | None = None,
    environment_kwargs: dict[str, Any] | None = None,
    visualize_reward: bool = False,
    **kwargs: Any,
) -> DMControlEnv:
    """Return one of the suite's envs.

    Args:
        domain: as of `dm_control.suite.load`.
        task: as of the same.
        task_kwargs: for the task, such as `{"time_limit": 5}` in seconds.
        environment_kwargs: for dm_control's own environment.
        visualize_reward: paint the reward into the pictures.
        kwargs: for `DMControlEnv`.
    """
    name = f"{_PREFIX}{domain}-{task}{_SUFFIX}"
    with _quiet():
        suite = simulator("dm_control.suite", "dm_control", name=name)
        environment = suite.load(
            domain,
            task,
            # Some tasks draw their very model; all instances have to have the same one.
            task_kwargs={"random": 0, **(task_kwargs or {})},
            environment_kwargs=environment_kwargs,
            visualize_reward=visualize_reward,
        )
        return DMControlEnv(environment, **kwargs)


def resolve(name: str) -> gym.envs.registration.EnvSpec:
    """Return the spec of `dm_control/DOMAIN-TASK-v0`.

    Raises:
        MissingExtra: dm_control is not installed.
        UnknownName: the suite has no such task.
    """
    with _quiet():
        suite = simulator("dm_control.suite", "dm_control", name=name)
    known = {
        f"{_PREFIX}{domain}-{task}{_SUFFIX}": (domain, task) for domain, task in suite.ALL_TASKS
    }
    if name not in known:
        raise UnknownName(
            f"environment: expected {_PREFIX}DOMAIN-TASK{_SUFFIX} with a task of the Control "
            f"Suite; got {name!r}{suggestion(name, known)}"
        )
    domain, task = known[name]
    return gym.envs.registration.EnvSpec(
        id=name, entry_point=f"{__name__}:suite_env", kwargs={"domain": domain, "task": task}
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence what dm_control says about missing displays and its own model files."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


# State codec of dm_control envs -----------------------------------------------
# The simulator's integration state holds time, warm start and controls. dm_control stops
# between the two halves of MuJoCo's step, so restoring it runs the first half again
# (`mj_step1`), from which the quantities come that the next step reads. Tasks keep their
# targets and terrains in the model: what differs in it from the loaded one is part of
# the state. So are the task's attributes and generator.


_INTEGRATION = int(mujoco.mjtState.mjSTATE_INTEGRATION)


class DMControlPart(StatePart):
    """Codec of `DMControlEnv`."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._environment, self._arrays = env.environment, env.model_arrays
        physics = env.environment.physics
        self._model, self._data = physics.model.ptr, physics.data.ptr
        self._size = mujoco.mj_stateSize(self._model, _INTEGRATION)
        # Step count, integration state, sensors: those of forces belong to the last step.
        self._numbers = np.zeros(1 + self._size + self._model.nsensordata)
        task = env.environment.task
        self._task = SnapshotPart([task], [task])
        self.width = self._numbers.nbytes + self._task.width + len(self._arrays.changes()) + 1024

    def learned(self, before: Mapping[str, bytes]) -> Any:
        """Return what the task's snapshot learned."""
        return self._task.learned(before)

    def adopt(self, learned: Any, before: Mapping[str, bytes]) -> None:
        self._task.adopt(learned, before)

    def capture(self, buffer: memoryview, offset: int, end: int) -> int:
        self._check_model()
        numbers, size = self._numbers, self._size
        stop = offset + numbers.nbytes
        if stop > end:
            raise StateTooWide(stop - end)
        numbers[0] = self._environment._step_count
        mujoco.mj_getState(self._model, self._data, numbers[1 : 1 + size], _INTEGRATION)
        numbers[1 + size :] = self._data.sensordata
        buffer[offset:stop] = numbers.data.cast("B")
        offset = put_block(buffer, stop, end, self._arrays.changes())
        return self._task.capture(buffer, offset, end)

    def restore(self, buffer: memoryview, offset: int) -> int:
        self._check_model()
        numbers, size = self._numbers, self._size
        stop = offset + numbers.nbytes
        numbers.data.cast("B")[:] = buffer[offset:stop]
        changes, offset = get_block(buffer, stop)
        self._arrays.apply(changes)
        mujoco.mj_setState(self._model, self._data, numbers[1 : 1 + size], _INTEGRATION)
        mujoco.mj_step1(self._model, self._data)
        self._data.sensordata[:] = numbers[1 + size :]
        self._environment._step_count = int(numbers[0])
        self._env.is_terrain_shown = False
        return self._task.restore(buffer, offset)

    def identity(self) -> dict[str, Any]:
        """Return the simulator's version, the loaded model, and the task's class."""
        return {
            "mujoco": mujoco.__version__,
            "model": self._arrays.digest(),
            "task": type(self._environment.task).__qualname__,
        }

    def _check_model(self) -> None:
        if self._environment.physics.model.ptr is not self._model:
            raise IncompleteState(
                "dm_control: the task has built a new model since the env was made; a state can "
                "only hold changes of one. Change the model in place."
            )
