"""VectorizedEnv: base class of plangym's vectorized envs, a local env with copies in workers."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

from plangym_ext.arrays.closing import Closing
from plangym_ext.compat.plangym.core import PlangymEnv
from plangym_ext.core.numbers import at_least
from plangym_ext.workers.scheduling import default_n_workers


class VectorizedEnv(Closing):
    """Abstract; passes all calls except `step_batch` on to a local env, `plan_env`.

    Args:
        env_class: class of the face.
        name: of the env.
        frameskip: as of the class; None for its own.
        autoreset: as of the class; here and in the workers.
        delay_setup: build nothing yet.
        n_workers: envs that share a batch; None for one per processor.
        kwargs: for `env_class`.
    """

    AVAILABLE_RENDER_MODES = PlangymEnv.AVAILABLE_RENDER_MODES
    AVAILABLE_OBS_TYPES = PlangymEnv.AVAILABLE_OBS_TYPES
    DEFAULT_OBS_TYPE = PlangymEnv.DEFAULT_OBS_TYPE
    OBS_IS_ARRAY = STATE_IS_ARRAY = True
    SINGLETON = False

    def __init__(
        self,
        env_class: Callable[..., Any],
        name: str | None = None,
        frameskip: int | None = None,
        autoreset: bool = True,
        delay_setup: bool = False,
        n_workers: int | None = None,
        **kwargs: Any,
    ) -> None:
        self._env_class, self.delay_setup = env_class, delay_setup
        n_workers = default_n_workers() if n_workers is None else n_workers
        self.n_workers = at_least(f"{type(self).__name__}: n_workers", n_workers, 1)
        if name is not None:
            kwargs["name"] = name
        if frameskip is not None:
            kwargs["frameskip"] = frameskip
        self._env_kwargs = {**kwargs, "autoreset": autoreset}
        for flag in (
            "AVAILABLE_OBS_TYPES",
            "DEFAULT_OBS_TYPE",
            "SINGLETON",
            "STATE_IS_ARRAY",
            "OBS_IS_ARRAY",
        ):
            setattr(self, flag, getattr(env_class, flag, getattr(self, flag)))
        self._plan_env: Any = None
        self._batch_env: Any = None
        if not delay_setup:
            self.setup()

    @abstractmethod
    def _workers(self, make: Callable[[], Any]) -> Any:
        """Return the `BatchEnv` of envs that `make` makes elsewhere."""

    def setup(self) -> None:
        """Build the local env, and start the workers with what it learned of its states."""
        if self._batch_env is None:
            self._plan_env = self._env_class(**self._env_kwargs)
            kwargs = dict(self._env_kwargs)
            if kwargs.get("render_mode") == "human":  # one window is enough
                kwargs["render_mode"] = None
            binding = getattr(self._plan_env, "binding", None)
            self._batch_env = self._workers(
                functools.partial(_in_worker, self._env_class, kwargs, binding)
            )

    @property
    def plan_env(self) -> Any:
        """The local env."""
        self.setup()
        return self._plan_env

    @property
    def batch_env(self) -> Any:
        """The workers' envs."""
        self.setup()
        return self._batch_env

    def __getattr__(self, name: str) -> Any:
        # Not before there is one: copy and pickle ask for methods.
        if name.startswith("__") or "_batch_env" not in vars(self):
            raise AttributeError(name)
        return getattr(self.plan_env, name)

    def __repr__(self) -> str:
        built = "not built" if self._plan_env is None else repr(self._plan_env)
        return f"<{type(self).__name__} of {self.n_workers}: {built}>"

    def step_batch(
        self, actions: Any, states: Any = None, dt: Any = 1, return_state: bool | None = None
    ) -> tuple[list[Any], ...]:
        """Step rows in the workers; see `PlanEnv.step_batch`, with `return_state` None."""
        run = self.batch_env.make_transitions
        found: tuple[list[Any], ...] = self.plan_env.stepped_rows(
            run, actions, states, dt, return_state
        )
        return found

    #: plangym's word for it.
    make_transitions = step_batch

    def sync_states(self, state: Any = None) -> None:
        """Set the local env and the workers' envs to one state; None: the local env's."""
        state = self.plan_env.get_state() if state is None else state
        self.plan_env.set_state(state)
        self.batch_env.sync_states(state)

    def clone(self, **kwargs: Any) -> Self:
        """Return a new env with the same arguments, of which some may change, and own workers."""
        given = {"env_class": self._env_class, "n_workers": self.n_workers, **self._env_kwargs}
        blocking = {"blocking": self.blocking} if "blocking" in vars(self) else {}
        return type(self)(**{**given, "delay_setup": self.delay_setup, **blocking, **kwargs})

    def __getstate__(self) -> dict[str, Any]:
        """Return the settings, and the local env if there is one; the workers start anew."""
        return {**vars(self), "_batch_env": None}

    def close(self) -> None:
        """Close the local env, and end the workers."""
        for env in (self._batch_env, self._plan_env):
            if env is not None:
                env.close()
        self._batch_env = self._plan_env = None


# What programs ask of an env that they are given.
PlangymEnv.register(VectorizedEnv)  # type: ignore[type-abstract]


def _in_worker(env_class: Callable[..., Any], kwargs: dict[str, Any], binding: Any) -> Any:
    """Return an env that captures its states as the local one does, without another proof."""
    env = env_class(**{**kwargs, "delay_setup": True})
    if binding is not None:
        env.binding = binding
    env.setup()
    return env
