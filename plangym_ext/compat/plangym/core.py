"""PlangymEnv: a gymnasium env under plangym's interface, with exact states as `[S]` uint8."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import numpy as np

from plangym_ext.compat.plangym.plan_env import PlanEnv
from plangym_ext.compat.plangym.utils import process_frame, remove_time_limit
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.make_words import wrapped
from plangym_ext.errors import CannotDraw, InvalidOption, UnknownName
from plangym_ext.registry import find_spec, make, make_gym

__all__ = ["PlanEnv", "PlangymEnv"]


class PlangymEnv(PlanEnv):
    """A gymnasium env with plangym's keywords and hooks.

    Its states are those of `plangym_ext.make`: exact, or the env is refused. It is built and reset
    by the constructor, or at first use with `delay_setup`; a closed one is built again when used.
    What hooks keep in the face itself is no part of states: extend `get_state` and `set_state`.

    Args:
        name: a gymnasium id.
        frameskip: times that an action is applied for one `dt`.
        autoreset: whether an env that ended is reset, unless the step was given a state.
        wrappers: each a class, or a tuple of a class and a dict, a list or one argument.
        delay_setup: build nothing yet.
        remove_time_limit: take the env's own `TimeLimit` off, before `wrappers` are put on.
        render_mode: None, "human" or "rgb_array".
        episodic_life: end the episode with a lost life; games alone have lives.
        obs_type: "coords", "rgb", "grayscale", and "ram" of games; None for the class's default.
        return_image: put a picture into every info, as "rgb".
        clone_seeds: whether `set_state` restores random generators too. False: what follows a
            restored state is drawn anew.
        capture: how states are captured, as in `plangym_ext.make`.
        kwargs: for the env's constructor.

    Raises:
        InvalidOption: a mode or type that the class does not have.
        IncompleteState: the env's state cannot be captured exactly.
    """

    AVAILABLE_RENDER_MODES: frozenset[str | None] = frozenset({"human", "rgb_array", None})
    AVAILABLE_OBS_TYPES: frozenset[str] = frozenset({"coords", "rgb", "grayscale"})
    #: What the gymnasium env itself returns.
    DEFAULT_OBS_TYPE = "coords"

    def __init__(
        self,
        name: str,
        frameskip: int = 1,
        autoreset: bool = True,
        wrappers: Iterable[Any] | None = None,
        delay_setup: bool = False,
        remove_time_limit: bool = True,
        render_mode: str | None = "rgb_array",
        episodic_life: bool = False,
        obs_type: str | None = None,
        return_image: bool = False,
        clone_seeds: bool = True,
        capture: str = "auto",
        **kwargs: Any,
    ) -> None:
        for word, got, known in (
            ("render_mode", render_mode, {*self.AVAILABLE_RENDER_MODES, None}),
            ("obs_type", obs_type, {*self.AVAILABLE_OBS_TYPES, None}),
        ):
            if got not in known:
                raise InvalidOption(
                    f"Invalid {word}: {got!r}. Must be one of {sorted(map(str, known))}"
                )
        if return_image and render_mode is None:
            raise InvalidOption(
                "return_image=True requires render_mode='rgb_array'; got render_mode=None"
            )
        self._wrappers, self._remove_time_limit = wrappers, remove_time_limit
        self._render_mode, self.episodic_life = render_mode, episodic_life
        self._obs_type = obs_type or self.DEFAULT_OBS_TYPE
        self.clone_seeds, self._capture, self._gym_env_kwargs = clone_seeds, capture, kwargs
        self._seed: int | None = None
        self._forget()
        super().__init__(name, frameskip, autoreset, delay_setup, return_image)

    def _forget(self) -> None:
        #: The env itself, once it is built; how equal ones capture their states; where it begins.
        self._exact: GymEnv | None = None
        self.binding: Any = None
        self._start: np.ndarray | None = None
        self._obs_space: Any = None

    # Construction -------------------------------------------------------------------

    def init_gym_env(self) -> Any:
        """Return a new gymnasium env, without wrappers."""
        return self._made(self.name)

    def _made(self, name: Any, **kwargs: Any) -> Any:
        """Return the env of an id or spec, as `plangym_ext.make` makes it."""
        try:
            spec = find_spec(name) if isinstance(name, str) else name
        except UnknownName as error:
            # Ported programs expect gymnasium's error.
            if isinstance(error.__cause__, gym.error.Error):
                raise error.__cause__ from None
            raise
        arguments = {"render_mode": self.render_mode, **kwargs, **self._gym_env_kwargs}
        return make_gym(spec, self._capture, make, **arguments)

    def setup(self) -> None:
        """Build the env and reset it, unless that has been done."""
        if self._exact is None:
            self._use(functools.partial(_built, self), self.binding)
        assert self._exact is not None
        self.binding = self._exact.binding
        self.init_spaces()
        if self._start is not None:
            self._exact.set_state(self._start)
            self._start = None

    def _use(self, build: Any, binding: Any = None) -> None:
        exact = GymEnv(
            build, name=self.name, autoreset=False, capture=self._capture, binding=binding
        )
        if not exact.is_reset:
            exact.reset(return_state=False)
        self._exact = exact

    @property
    def exact_env(self) -> GymEnv:
        """The env of this library, which is built at first use."""
        if self._exact is None:
            self.setup()
        assert self._exact is not None
        return self._exact

    @property
    def gym_env(self) -> Any:
        """The gymnasium env, with its wrappers."""
        return self.exact_env.gym_env

    @property
    def _gym_env(self) -> Any:
        return None if self._exact is None else self._exact.gym_env

    @_gym_env.setter
    def _gym_env(self, gym_env: Any) -> None:
        self._use(lambda: gym_env)

    def apply_wrappers(self, wrappers: Iterable[Any]) -> None:
        """Put wrappers on the present env, and reset it; each is an item of `wrappers`."""
        for item in wrappers:
            self._gym_env = wrapped(self.gym_env, item)

    def wrap(self, wrapper: Any, *args: Any, **kwargs: Any) -> None:
        """Put one wrapper on the present env, and reset it."""
        self._gym_env = wrapper(self.gym_env, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings, and the state if there is one."""
        start = self._start if self._exact is None else self.get_state()
        return {**vars(self), "_exact": None, "_obs_space": None, "_start": start, "_rows": []}

    def close(self) -> None:
        if self._exact is not None:
            self._exact.close()
            self._exact = None

    # Spaces and settings ------------------------------------------------------------

    def init_spaces(self) -> None:
        """Find the observation space of `obs_type`."""
        space = self.gym_env.observation_space
        if self.obs_type != self.DEFAULT_OBS_TYPE:
            obs = self.process_obs(obs=None)
            low, high = (0, 255) if obs.dtype == np.uint8 else (-np.inf, np.inf)
            space = gym.spaces.Box(low, high, obs.shape, obs.dtype.type)
        self._obs_space = space

    @property
    def observation_space(self) -> Any:
        """Space of the observations, by `obs_type`."""
        if self._obs_space is None:
            self.setup()
        return self._obs_space

    @property
    def action_space(self) -> Any:
        """Space of the actions."""
        return self.gym_env.action_space

    @property
    def obs_shape(self) -> tuple[int, ...] | None:
        shape: tuple[int, ...] | None = self.observation_space.shape
        return shape

    @property
    def action_shape(self) -> tuple[int, ...] | None:
        shape: tuple[int, ...] | None = self.action_space.shape
        return shape

    @property
    def obs_type(self) -> str:
        """Kind of observation."""
        return self._obs_type

    @property
    def render_mode(self) -> str | None:
        """How the env draws."""
        return self._render_mode

    @property
    def remove_time_limit(self) -> bool:
        """Whether the env's own time limit was taken off."""
        return self._remove_time_limit

    @property
    def reward_range(self) -> Any:
        """Range of rewards, where the gymnasium env names one."""
        return getattr(self.gym_env, "reward_range", None)

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the gymnasium env."""
        found: dict[str, Any] = self.gym_env.metadata
        return found

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.name}, obs_type={self.obs_type}, "
            f"render_mode={self.render_mode}, frameskip={self.frameskip}>"
        )

    # Hooks --------------------------------------------------------------------------

    def seed(self, seed: int | None = None) -> None:
        """Have the next reset use a seed."""
        self._seed = seed

    def apply_reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        seed, self._seed = kwargs.pop("seed", self._seed), None
        obs, info = self.exact_env.reset(seed=seed, return_state=False, **kwargs)
        if self.return_image:
            info["rgb"] = self.get_image()
        return obs, info

    def apply_action(self, action: Any) -> tuple[Any, ...]:
        return tuple(self.exact_env.step(action))

    def get_state(self) -> np.ndarray:
        """Return the complete state, `[S]` uint8, fresh."""
        return self.exact_env.get_state()

    def set_state(self, state: np.ndarray) -> None:
        """Bring the env to a state, `[S]` uint8 of an equal env."""
        self._rows = []
        if not self.clone_seeds:
            state = self.exact_env.reseeded(state[None], np.random.default_rng())[0]
        self.exact_env.set_state(state)

    def sample_action(self) -> Any:
        """Return one action, drawn by the action space's own generator."""
        return self.action_space.sample()

    def render(self) -> Any:
        """Draw, as the render mode says."""
        return self.exact_env.render()

    def get_image(self) -> Any:
        """Return a picture, `[H, W, 3]` uint8.

        Raises:
            CannotDraw: the render mode is None, or the renderer failed.
        """
        if self.render_mode is None:
            raise CannotDraw(
                "Cannot get image when render_mode=None. Make the env with render_mode='rgb_array'."
            )
        return self.render()

    def process_obs(self, obs: Any, **kwargs: Any) -> Any:
        """Return the observation of `obs_type`."""
        if self.obs_type == self.DEFAULT_OBS_TYPE:
            return obs
        found: Any = getattr(self, f"get_{self.obs_type}_obs")(obs, **kwargs)
        return found

    def get_coords_obs(self, obs: Any, **kwargs: Any) -> Any:
        """Return the observation for obs_type "coords", of an env that has another."""
        raise NotImplementedError

    def get_rgb_obs(self, obs: Any, **kwargs: Any) -> Any:  # noqa: ARG002
        """Return the observation for obs_type "rgb"."""
        return self.get_image()

    def get_grayscale_obs(self, obs: Any, **kwargs: Any) -> Any:
        """Return the observation for obs_type "grayscale", `[H, W]` uint8."""
        return process_frame(self.get_rgb_obs(obs, **kwargs), mode="L")


def _built(face: PlangymEnv) -> Any:
    """Return the gymnasium env of a face, with its wrappers; the constructor of `GymEnv`."""
    env = face.init_gym_env()
    if face.remove_time_limit:
        env = remove_time_limit(env)
    for item in face._wrappers or ():
        env = wrapped(env, item)
    return env
