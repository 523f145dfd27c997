"""MujocoEnv: the native MuJoCo backend, a local env with rows on MuJoCo's threads."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from gymnasium import wrappers

from plangym_ext.core.backend_env import NO_OUT
from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.infos import InfoBatch
from plangym_ext.core.plan_env import PlanEnv
from plangym_ext.core.results import RESULT_FIELDS, RowResults
from plangym_ext.core.row_request import ONE_STEP, RowRequest
from plangym_ext.errors import BackendUnavailable, EnvClosed, InvalidObservation
from plangym_ext.native.compiled import checked_threads
from plangym_ext.native.mujoco.play import batch_library, prepared_seconds
from plangym_ext.native.mujoco.player import MujocoPlayer
from plangym_ext.native.mujoco.resets import MujocoResets, MujocoStates
from plangym_ext.native.mujoco.rows import MujocoRows
from plangym_ext.native.mujoco.task import MujocoTask
from plangym_ext.native.native_env import NativeEnv, proved_resets
from plangym_ext.native.row_checks import RowChecks, RowSeals
from plangym_ext.states.codec import layers
from plangym_ext.states.families import family_of

#: Wrappers whose step does no more than pass on what the env returned.
_TRANSPARENT = (wrappers.OrderEnforcing, wrappers.PassiveEnvChecker)
# What the check at construction plays, from several places of an episode.
_CHECK_SEED, _CHECK_PLACES, _CHECK_STEPS = 1, 4, 3


class MujocoEnv(NativeEnv):
    """The native MuJoCo backend: batches run on MuJoCo's threads, without processes.

    A local env of the serial kind does everything but the batches, and resets rows that
    ended. States are those of the serial backend, byte for byte.

    Args:
        env: the env to play, with at most `TimeLimit` and wrappers without a state of
            their own around the simulator. It belongs to this one from now on.
        task: what a step returns; None looks it up.
        threads: threads; as many as there are processors if None.
        check: compare some rows with the serial ones now, bit for bit.

    Raises:
        BackendUnavailable: no task describes the env, a wrapper is in the way, MuJoCo is
            older than 4, or the rows differ from the serial ones.
    """

    backend = "mujoco"

    def __init__(
        self,
        env: GymEnv,
        task: MujocoTask | None = None,
        *,
        threads: int | None = None,
        check: bool = True,
    ) -> None:
        super().__init__()
        self.threads = checked_threads(threads)
        self._given: dict[str, Any] = {"threads": threads, "check": check}
        self._arguments: dict[str, Any] = {**env._arguments, **self._given}
        self._given_task = task
        self._plan_env = env
        self.name, self.frameskip, self.autoreset = env.name, env.frameskip, env.autoreset
        self._closed = self._tried_resets = False
        batch_library()  # refuses an old MuJoCo
        self._prepare(task)
        if check:
            self._check_rows()

    def _prepare(self, task: MujocoTask | None) -> None:
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
        #: Seconds that compiling or loading took.
        self.compile_seconds = prepared_seconds()
        base: Any = stack[-1]
        task = self._found_task(base) if task is None else task
        states = MujocoStates(self.plan_env.codec, limit)
        self._part = states.part
        self._player = MujocoPlayer(
            base.model,
            base.data,
            task,
            states.part.carried,
            frame_skip=base.frame_skip,
            n_threads=self.threads,
        )
        self._rows = MujocoRows(self.plan_env, task, self._player, states)
        self._states = states
        self._prepare_checks()
        self._resets = MujocoResets(self.plan_env, task, states, self._player.carried_end)
        self._live = MujocoLive(self._rows, self._resets)

    def _prepare_checks(self) -> None:
        """Make the seals and input checks for rows of the present width."""
        envelope = self.envelope
        seals = RowSeals(envelope, self._states.length)
        self._rows.seals = seals
        self._checks = RowChecks(self.layout.action, envelope, seals.header)
        self.compile_seconds += seals.seconds + self._checks.seconds

    def _found_task(self, base: Any) -> MujocoTask:
        family = family_of(base)
        find = family.load_native("mujoco") if family is not None else None
        task: MujocoTask | None = find(base) if find is not None else None
        if task is None:
            raise BackendUnavailable(
                f"{self.name}: no task describes {type(base).__qualname__} to the mujoco backend. "
                "Use backend='process', or write a MujocoTask."
            )
        return task

    def _check_rows(self) -> None:
        """Compare some rows with those of the serial backend.

        numpy's sums and roots are the same for a row of a batch and a row alone wherever
        this was tried, but its authors do not promise that.
        """
        env = self.plan_env
        state, *_ = env.reset(seed=_CHECK_SEED)
        rng = np.random.default_rng(_CHECK_SEED)
        (leaf,) = env.layout.action.leaves
        box: Any = leaf.space
        # Bounds may be infinite, of which nothing could be drawn.
        low, high = np.clip(box.low, -1, 1), np.clip(box.high, -1, 1)
        shape = (_CHECK_PLACES, _CHECK_STEPS, *leaf.shape)
        actions = rng.uniform(low, high, shape).astype(leaf.dtype)
        found = [state]
        for action in actions[:-1, 0]:
            env.step(action)
            found.append(env.get_state())
        states = np.stack(found)
        played = RowRequest((actions,), states, np.array(1, np.int32))
        # Every other row: resets and steps have to go together in one batch.
        fresh = dataclasses.replace(played, reset_first=np.arange(len(states)) % 2 == 0)
        differing = ""
        for request in (played, fresh):
            mine, theirs = self._run_rows(request), env._run_rows(request)
            differing = differing or _difference(mine, theirs)
        # As a new env is: reset by the library, which does not count.
        env.gym_env.reset(seed=0)
        env.is_reset = False
        if differing:
            raise BackendUnavailable(
                f"{self.name}: rows of the mujoco backend differ from the serial ones in "
                f"{differing}, with numpy {np.__version__}. Use backend='process'."
            )

    # Rows -----------------------------------------------------------------------

    def _run_rows(self, request: RowRequest) -> RowResults:
        if self._closed:
            raise EnvClosed(f"step_batch: this {self.name} env is closed. Make a new one.")
        self._part.guard.check()
        fresh = None
        if request.reset_first is not None and request.reset_first.any():
            states = request.states.copy()
            fresh = self._resets.reset(states, request.reset_first)
            request = dataclasses.replace(request, states=states)
        return self._rows.run(request, fresh)

    def step_live(
        self,
        actions: np.ndarray,
        states: np.ndarray,
        resets: np.ndarray,
        *,
        whole: bool,
        same_step: bool = False,  # noqa: ARG002 - rows that end are reset by another call
        infos: str = "numeric",
        out: Mapping[str, np.ndarray] = NO_OUT,
    ) -> RowResults | None:
        if self._closed:
            raise EnvClosed(f"step: this {self.name} env is closed. Make a new one.")
        self._part.guard.check()
        if not self._tried_resets:
            self._tried_resets = True
            self.reset_columns = proved_resets(self.plan_env, self._live.run)
        if self.reset_columns is None and resets.any():
            return None
        if self._checks is None or not self._checks.in_range(actions, resets.shape):
            actions = self._live_actions(actions, resets)
        try:
            found = self._live.run(
                actions, states, resets, infos=infos, wants_states=not whole, out=out
            )
        except InvalidObservation:
            return None  # the env itself plays the rows again, and finds the one
        kept = found is None or self.plan_env.values.bounds_kept(found.obs)
        return found if kept else None

    def widen(self, width: int) -> None:
        self.plan_env.widen(width)
        self._prepare_checks()

    # Life -----------------------------------------------------------------------

    def clone(self, **overrides: Any) -> Self:
        threads = overrides.pop("threads", self._given["threads"])
        check = overrides.get("check", self._given["check"])
        env = self.plan_env.clone(**overrides)
        try:
            return type(self)(env, self._given_task, threads=threads, check=check)
        except BaseException:
            env.close()
            raise

    def close(self) -> None:
        self._closed = True
        self._player.close()
        self.plan_env.close()


def _difference(mine: RowResults, theirs: RowResults) -> str:
    """Name of the first field of two results that is not the same to the bit, or ""."""
    if mine.infos.keys() != theirs.infos.keys():
        return "the names of infos"
    keys = mine.infos.keys()
    pairs = [(f"infos[{key!r}]", mine.infos[key], theirs.infos[key]) for key in keys]
    pairs += [("obs", mine.obs[0], theirs.obs[0])]
    names = [one.name for one in RESULT_FIELDS]
    pairs += [(name, getattr(mine, name), getattr(theirs, name)) for name in names]
    for name, one, other in pairs:
        # By bytes: nan equals itself then, and -0.0 is not 0.0.
        if one.dtype != other.dtype or one.tobytes() != other.tobytes():
            return name
    return ""


# Construction of the native MuJoCo backend for an env -------------------------


def make_native(
    env: GymEnv, threads: int | None, *, check: bool | float, required: bool
) -> tuple[PlanEnv | None, str]:
    """Return an env on the MuJoCo backend, or None with the reason and no change.

    Args:
        env: it is closed if this raises.
        threads: threads; None for as many as there are processors.
        check: as for `make`.
        required: raise rather than return None.

    Raises:
        BackendUnavailable: the backend cannot run this env.
    """
    try:
        return MujocoEnv(env, threads=threads, check=bool(check)), ""
    except BackendUnavailable as error:
        if required:
            env.close()
            raise
        return None, str(error)
    except BaseException:
        env.close()
        raise


# MujocoLive -------------------------------------------------------------------


class MujocoLive:
    """Runs rows that are stepped once, or reset and not stepped."""

    def __init__(self, rows: MujocoRows, resets: MujocoResets) -> None:
        self._rows, self._resets = rows, resets

    def run(
        self, actions: np.ndarray, states: np.ndarray, resets: np.ndarray, **how: Any
    ) -> RowResults | None:
        """Return the results of all rows; None if some are to be reset that only the env can reset.

        Args:
            actions: `[B, *act]`; those of rows that are reset are ignored.
            states: `[B, S]` uint8.
            resets: `[B]` bool, which rows are reset and take no step.
            **how: other fields of `RowRequest`.
        """
        request = RowRequest((actions[:, None],), states, ONE_STEP, **how)
        fresh = np.flatnonzero(resets)
        if not len(fresh):
            return self._rows.run(request)
        begun = self._reset(states[fresh])
        if begun is None or len(fresh) == request.num_rows:
            return begun
        stepped = np.flatnonzero(~resets)
        part = dataclasses.replace(
            request, actions=(request.actions[0][stepped],), states=states[stepped]
        )
        return _merged(request.num_rows, (stepped, self._rows.run(part)), (fresh, begun))

    def _reset(self, states: np.ndarray) -> RowResults | None:
        """Return the results of resets of rows `[k, S]`, which are written to."""
        if not self._resets.draws:
            return None
        fresh = self._resets.reset(states, np.ones(len(states), bool))
        assert fresh is not None
        return self._rows.begin(states, fresh)


def _merged(size: int, *parts: tuple[np.ndarray, RowResults]) -> RowResults:
    """Return the results of B rows from two parts of them; missing columns are 0."""

    def merged(field: str) -> np.ndarray:
        return _filled(size, [(rows, getattr(found, field)) for rows, found in parts])

    keys = dict.fromkeys(key for _, found in parts for key in found.infos.keys())  # noqa: SIM118
    columns = {
        key: _filled(
            size,
            [(rows, found.infos[key]) for rows, found in parts if key in found.infos.keys()],  # noqa: SIM118
        )
        for key in keys
    }
    obs = _filled(size, [(rows, found.obs[0]) for rows, found in parts])
    fields: dict[str, Any] = {one.name: merged(one.name) for one in RESULT_FIELDS}
    return RowResults(**fields, obs=(obs,), infos=InfoBatch(columns, {}))


def _filled(size: int, parts: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    _, first = parts[0]
    found = np.zeros((size, *first.shape[1:]), first.dtype)
    for rows, values in parts:
        found[rows] = values
    return found
