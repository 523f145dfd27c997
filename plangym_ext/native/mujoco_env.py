"""The MuJoCo backend: one env here to play, and rows on MuJoCo's own threads."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Self

import gymnasium as gym
import numpy as np
from gymnasium import wrappers

from plangym_ext.core.codec import layers
from plangym_ext.core.envelope import HEADER
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.plan_env import PlanEnv
from plangym_ext.core.results import StateTransition, Transition
from plangym_ext.core.row_request import RowRequest
from plangym_ext.core.rows import RowResults
from plangym_ext.errors import BackendUnavailable, EnvClosed
from plangym_ext.native.mujoco_library import batch_library
from plangym_ext.native.mujoco_player import MujocoPlayer
from plangym_ext.native.mujoco_rows import MujocoRows
from plangym_ext.native.mujoco_states import MujocoStates
from plangym_ext.native.mujoco_task import MujocoTask
from plangym_ext.native.threads import checked_threads

#: Wrappers whose step does no more than pass on what the env returned.
_TRANSPARENT = (wrappers.OrderEnforcing, wrappers.PassiveEnvChecker)
# What the check at construction plays, from several places of an episode.
_CHECK_SEED, _CHECK_PLACES, _CHECK_STEPS = 1, 4, 3


class MujocoEnv(PlanEnv):
    """Step a MuJoCo task in batches without a process.

    A local env of the serial kind does everything but the batches, and resets rows that
    ended. States are those of the serial backend, byte for byte.

    Args:
        make: callable that returns a gymnasium env, `TimeLimit` and nothing else with a
            state around the simulator.
        task_of: callable from the simulator to its `MujocoTask`, or None if it has none.
        n_workers: threads; as many as there are processors if None.
        name, frameskip, autoreset, state, check, trust: as of `GymEnv`. With `check`, the
            rows are compared with the serial ones once, bit for bit.

    Raises:
        BackendUnavailable: no task describes the env, a wrapper is in the way, MuJoCo is
            older than 4, or the rows differ from the serial ones.
    """

    backend = "mujoco"

    def __init__(
        self,
        make: Callable[[], gym.Env[Any, Any]],
        *,
        task_of: Callable[[Any], MujocoTask | None],
        n_workers: int | None = None,
        name: str | None = None,
        frameskip: int = 1,
        autoreset: bool = True,
        state: str = "auto",
        check: bool = True,
        trust: bool = False,
    ) -> None:
        super().__init__()
        self.n_workers = checked_threads(n_workers)
        batch_library()  # refuses an old MuJoCo before anything is built
        self._arguments: dict[str, Any] = {
            "make": make,
            "task_of": task_of,
            "n_workers": n_workers,
            "name": name,
            "frameskip": frameskip,
            "autoreset": autoreset,
            "state": state,
            "check": check,
            "trust": trust,
        }
        self.frameskip, self.autoreset = frameskip, autoreset
        self.plan_env = GymEnv(
            make,
            name=name,
            frameskip=frameskip,
            autoreset=autoreset,
            state=state,
            check=check,
            trust=trust,
        )
        self._closed = False
        try:
            self._prepare(task_of)
            if check:
                self._check_rows()
        except BaseException:
            self.close()
            raise

    def _prepare(self, task_of: Callable[[Any], MujocoTask | None]) -> None:
        stack = layers(self.plan_env.gym_env)
        limit = None
        for layer in stack[:-1]:
            if limit is None and type(layer) is wrappers.TimeLimit:
                limit = layer
            elif type(layer) not in _TRANSPARENT:
                raise BackendUnavailable(
                    f"{self.name}: the mujoco backend knows no wrapper "
                    f"{type(layer).__qualname__}, only TimeLimit. Use backend='process'."
                )
        base: Any = stack[-1]
        task = task_of(base)
        if task is None:
            raise BackendUnavailable(
                f"{self.name}: no task describes {type(base).__qualname__} to the mujoco backend. "
                "Use backend='process', or write a MujocoTask."
            )
        states = MujocoStates(self.plan_env.codec, limit)
        self._part = states.part
        self._player = MujocoPlayer(
            base.model,
            base.data,
            task,
            states.part.carried,
            frame_skip=base.frame_skip,
            n_threads=self.n_workers,
        )
        self._rows = MujocoRows(task, self._player, states, self.frameskip)

    def _check_rows(self) -> None:
        """Compare some rows with those of the serial backend.

        numpy's sums and roots are the same for a row of a batch and a row alone wherever
        this was tried, but its authors do not promise that.
        """
        env = self.plan_env
        state, *_ = env.reset(seed=_CHECK_SEED)
        rng = np.random.default_rng(_CHECK_SEED)
        (leaf,) = env.layout.action.leaves
        low, high = np.clip(leaf.space.low, -1, 1), np.clip(leaf.space.high, -1, 1)
        shape = (_CHECK_PLACES, _CHECK_STEPS, *leaf.shape)
        actions = rng.uniform(low, high, shape).astype(leaf.dtype)
        found = [state]
        for action in actions[:-1, 0]:
            found.append(env.step(action, return_state=True).state)
        states = np.stack(found)
        differing = _difference(
            self.rollout_batch(actions, states), env.rollout_batch(actions, states)
        )
        env.gym_env.reset(seed=0)
        env.is_reset = False
        if differing:
            raise BackendUnavailable(
                f"{self.name}: rows of the mujoco backend differ from the serial ones in "
                f"{differing}, with numpy {np.__version__}. Use backend='process'."
            )

    @property
    def name(self) -> str:  # type: ignore[override]
        """The env's id."""
        return self.plan_env.name

    @property
    def exact(self) -> bool:
        """Whether restored futures equal the real ones; see `PlanEnv.exact`."""
        return self.plan_env.exact

    @property
    def layout(self) -> Any:  # type: ignore[override]
        """What a row holds."""
        return self.plan_env.layout

    @property
    def envelope(self) -> Any:  # type: ignore[override]
        """Seals and checks states."""
        return self.plan_env.envelope

    # The env proper -------------------------------------------------------------

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,
        return_state: bool = True,
    ) -> tuple[Any, ...]:
        """Start a new episode; see `PlanEnv.reset`."""
        self._drop_rows()
        return self.plan_env.reset(seed=seed, options=options, return_state=return_state)

    def step(
        self,
        action: Any,
        state: np.ndarray | None = None,
        dt: int = 1,
        return_state: bool | None = None,
    ) -> Transition | StateTransition:
        """Advance the env; see `PlanEnv.step`."""
        return self.plan_env.step(action, state, dt, return_state)

    def get_state(self) -> np.ndarray:
        """Fresh `[S]` uint8 array; see `PlanEnv.get_state`."""
        return self.plan_env.get_state()

    def _set_env_state(self, state: np.ndarray) -> None:
        self.plan_env._set_env_state(state)

    def render(self) -> Any:
        """Picture of the env; see `PlanEnv.render`."""
        return self.plan_env.render()

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the gymnasium env; see `PlanEnv.metadata`."""
        return self.plan_env.metadata

    # Rows -----------------------------------------------------------------------

    def _first_state(self) -> np.ndarray:
        return self.plan_env._first_state()

    def _run_rows(self, request: RowRequest) -> RowResults:
        if self._closed:
            raise EnvClosed(f"step_batch: this {self.name} env is closed. Make a new one.")
        self._part.check_model()
        if request.reset_first is not None and request.reset_first.any():
            request = dataclasses.replace(request, states=self._reset_rows(request))
        return self._rows.run(request, self.layout, self.envelope)

    def _reset_rows(self, request: RowRequest) -> np.ndarray:
        """The states of a request, those to be reset first having been: by the env here."""
        env = self.plan_env
        assert request.reset_first is not None
        states = request.states if not request.wants_states else request.states.copy()
        here = env.get_state() if env.is_reset else None
        try:
            for i in request.reset_first.nonzero()[0]:
                row = states[i]
                env.codec.restore(row.data, HEADER)
                env.gym_env.reset()
                env.codec.capture(row.data, HEADER)
        finally:
            if here is not None:
                env.codec.restore(here.data, HEADER)
        return states

    def widen(self, width: int) -> None:
        """Make room for states of `width` bytes; see `RowStepper.widen`."""
        self.plan_env.widen(width)

    # Life -----------------------------------------------------------------------

    def clone(self, **overrides: Any) -> Self:
        """New env with the same settings; see `PlanEnv.clone`."""
        return type(self)(**{**self._arguments, **overrides})

    def close(self) -> None:
        """Close the env and end the threads; further calls do nothing."""
        self._closed = True
        player = getattr(self, "_player", None)
        if player is not None:
            player.close()
        self.plan_env.close()


def _difference(mine: Any, theirs: Any) -> str:
    """Name of the first field of two results that is not the same to the bit, or ""."""
    for name, one, other in zip(mine._fields, mine, theirs, strict=True):
        if name == "infos":
            if one.keys() != other.keys():
                return "the names of infos"
            for key in one.keys():  # noqa: SIM118 - iterating gives the rows
                if one[key].dtype != other[key].dtype or one[key].tobytes() != other[key].tobytes():
                    return f"infos[{key!r}]"
        elif one.dtype != other.dtype or one.tobytes() != other.tobytes():
            return str(name)
    return ""
