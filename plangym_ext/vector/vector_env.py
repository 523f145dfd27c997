"""PlanVectorEnv: a `gymnasium.vector.VectorEnv` with states to save, restore and branch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from plangym_ext.core.numbers import at_least, check_kind, html_table, one_line, wait_or_none
from plangym_ext.core.one_caller import OneCaller
from plangym_ext.states.envelope import stacked_rows
from plangym_ext.vector.arguments import (
    ObservationMode,
    check_call,
    checked_actions,
    checked_autoreset,
    checked_mask,
    checked_name,
    checked_options,
    checked_rows,
    checked_seeds,
    checked_states,
    observation_spaces,
    per_row,
)
from plangym_ext.vector.backend import RowStep, VectorBackend
from plangym_ext.vector.infos import only_infos, widen
from plangym_ext.vector.memory.step_out import RESET_FIELDS, STEP_FIELDS, StepOut, checked_out
from plangym_ext.vector.pending import Begun, Episodes, PendingCalls, first_episodes
from plangym_ext.vector.results import StepResults, VectorResetNeeded
from plangym_ext.vector.shown import infos_of, layout_of, listed_infos, some_infos
from plangym_ext.workers.limits import CLOSE_GRACE

_SAME_STEP = AutoresetMode.SAME_STEP
#: Which sub-envs a call is for; None for all.
EnvIds = Sequence[int] | np.ndarray | None
_Found = TypeVar("_Found")
StepResult = tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]


# skrl asks for the names of the direct bases, so there is nothing in between.
class PlanVectorEnv(gym.vector.VectorEnv[Any, Any, np.ndarray]):
    """A vector env of n sub-envs with gymnasium's step interface and restorable states.

    What `reset` and `step` return equals what `gymnasium.vector.SyncVectorEnv` returns, bit
    for bit and for any number of workers. Arrays are fresh and belong to the caller.

    A call that fails (an env raises, hangs or shows what is refused, or Ctrl-C comes) has not
    happened: the next call finds every sub-env where it was before. A worker that dies is
    replaced and its sub-envs go on from where they were: the step is not lost. Both need states;
    without them all sub-envs have to be reset.

    Args:
        backend: what moves the sub-envs; `plangym_ext.make_vec` chooses it.
        num_envs: n.
        autoreset_mode: "next_step", "same_step", "disabled" or gymnasium's `AutoresetMode`.
        observation_mode: "same", "different", or a tuple of batched and single space.
        copy: whether observations are the caller's own. Otherwise those of `step` and
            `reset` are memory that the next call changes.

    Attributes:
        list_infos: whether infos come as a list of n dicts, each as the sub-env gave it, with
            `final_obs` and `final_info` of one that was reset in the same step; False for
            gymnasium's dict of arrays. For adapters to frameworks that expect lists.

    Raises:
        UnequalEnvs: spaces of sub-envs differ in a way that `observation_mode` forbids.
    """

    def __init__(
        self,
        backend: VectorBackend,
        num_envs: int,
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        observation_mode: ObservationMode = "same",
        copy: bool = True,
    ) -> None:
        check_kind("PlanVectorEnv: backend", backend, VectorBackend, "a VectorBackend of make_vec")
        num_envs = at_least("PlanVectorEnv: num_envs", num_envs, 1)
        self._backend, self.num_envs, self.copy = backend, num_envs, copy
        self._one_caller = OneCaller("PlanVectorEnv")
        # Workers answer this process: a forked child that asks them would take its answers.
        if backend.worker_pids:
            self._one_caller.bind_to_process()
        self.autoreset_mode = checked_autoreset(autoreset_mode)
        self.observation_mode = observation_mode
        found = backend.description
        self._name = found.name
        # A dict of its own: gymnasium's metadata belong to the env's class.
        self.metadata = {**found.metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = found.render_mode
        self.single_action_space = found.action_spaces[0]
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space, self.single_observation_space = observation_spaces(
            found, observation_mode
        )
        self._action_layout = layout_of(self.single_action_space)
        #: The second: why `make_vec` chose workers, if they were not asked for.
        self.list_infos, self.choice_note = False, ""
        backend.use(self.single_observation_space)
        backend.keep(first_episodes(num_envs))
        self._all, self._pending = range(num_envs), PendingCalls()

    def _as_one(self, moving: Callable[[], tuple[_Found, Episodes]]) -> _Found:
        """Commit a call that returns its result and the sub-envs' episodes; undone if it raises."""
        guard = self._one_caller
        guard.__enter__()
        try:
            found, episodes = moving()
            # An interrupt or an error before its last line, an assignment, leaves the call undone.
            # After that no function is called: none comes until the caller has the result.
            self._backend.keep(episodes)
            guard.depth -= 1
        except BaseException as error:
            guard.depth -= 1
            self._pending.check_not_closed_under(error)
            raise
        return found

    # Reset --------------------------------------------------------------------------

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
        out: Any = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Reset all sub-envs, or those of a mask.

        Args:
            seed: None, an int for seeds `seed + i`, or one seed or None for each sub-env.
            options: for every sub-env's `reset`; `options["reset_mask"]`, `[n]` bool, says
                which are reset and is not passed on. The dict is not changed.
            out: arrays to write `obs` `[n, *obs]` and `infos` to; see `step`.

        Returns:
            obs `[n, *obs]` of all sub-envs, as they show now; infos of those reset.
        """
        return self._as_one(lambda: self._were_reset(self._begin_reset(seed, options, out), None))

    def reset_async(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
        out: Any = None,
    ) -> None:
        """Begin `reset`; `reset_wait` returns its result."""
        with self._one_caller:
            self._pending.begin(self._begin_reset(seed, options, out))

    def _begin_reset(
        self, seed: int | Sequence[int | None] | None, options: dict[str, Any] | None, out: Any
    ) -> Begun:
        rows: Sequence[int] = range(self.num_envs)
        seeds = checked_seeds(seed, self.num_envs)
        mask, options = checked_options(options, self.num_envs)
        if mask is not None:
            rows = np.flatnonzero(mask).tolist()
            # Seeds belong to sub-envs, not to places in the mask: `seed + i` is for sub-env i.
            seeds = [seeds[row] for row in rows]
        if out is not None:
            out = checked_out(out, self._backend.obs, self.num_envs, "reset", RESET_FIELDS)
        return Begun("reset", rows, self._begin_reset_of(rows, seeds, options), out)

    def _begin_reset_of(
        self, rows: Sequence[int], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> Any:
        self._pending.check_idle("reset")
        # A reset of all needs no states. One of some would leave the others where nothing is known.
        if self._backend.lost and len(rows) < self.num_envs:
            raise self._lost("reset")
        return self._backend.begin_reset(rows, seeds, options)

    def reset_wait(self, timeout: float | None = None) -> tuple[Any, dict[str, Any]]:
        """Wait for the reset; return what `reset` returns.

        Args:
            timeout: seconds after which sub-envs that have not answered are stopped, and
                all are brought back to where they were.

        Raises:
            VectorTimeout: (`multiprocessing.TimeoutError`) so it was.
        """
        # Before anything is taken: what was begun can still be waited for.
        limit = wait_or_none("reset_wait: timeout", timeout)
        return self._as_one(lambda: self._were_reset(self._pending.take("reset"), limit))

    def _were_reset(
        self, begun: Begun, timeout: float | None
    ) -> tuple[tuple[Any, dict[str, Any]], Episodes]:
        _, rows, call, out = begun
        results = self._backend.finish_rows(call, timeout)
        infos = self._infos(rows, results, some=False)
        if out is not None:
            out.arrays.write_reset(self._backend.obs.leaves(slice(None)), rows, results.infos)
        obs = out.given["obs"] if out and out.has_obs else self._backend.obs.batch(copy=self.copy)
        return (obs, infos), self._backend.note.begun(rows)

    def reset_some(
        self,
        env_ids: Sequence[int] | np.ndarray,
        *,
        seed: Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Reset some sub-envs.

        Args:
            env_ids: `[k]` distinct ints, the sub-envs.
            seed: None, or one seed or None for each of them.
            options: for their `reset`, as they are.

        Returns:
            obs `[k, *obs]`, fresh, and infos of these sub-envs, in their order.
        """

        def moving() -> tuple[tuple[Any, dict[str, Any]], Episodes]:
            rows = checked_rows(env_ids, self.num_envs, "reset_some: env_ids")
            call = self._begin_reset_of(rows, checked_seeds(seed, len(rows)), options)
            results = self._backend.finish_rows(call, None)
            infos = self._infos(rows, results, some=True)
            return (self._backend.obs.batch(rows), infos), self._backend.note.begun(rows)

        return self._as_one(moving)

    def observations(self) -> Any:
        """Return the current observations of all sub-envs, `[n, *obs]`."""
        self._pending.check_open("observations")
        return self._backend.obs.batch(copy=self.copy)

    # Step ---------------------------------------------------------------------------

    def step(self, actions: Any, env_ids: EnvIds = None, *, out: Any = None) -> StepResult:
        """Step all sub-envs, or some.

        Args:
            actions: one for each sub-env that is stepped: an element of `action_space`.
            env_ids: `[k]` distinct ints, the sub-envs to step; None for all.
            out: arrays that results are written to: a mapping, an `ArrayDict` or a named tuple
                with any of the names below, or what `step_out` made of one. They are numpy
                arrays, or each an `Array`; those in shared memory workers write to themselves. The
                same objects are returned. They are the caller's: a later call writes to them only
                if it is given them. Undefined after an error.

                * `obs`: `[k, *obs]`, nested as the space.
                * `rewards`: `[k]` float64 or float32.
                * `terminateds`, `truncateds`: `[k]` bool.
                * `final_obs`: `[k, *obs]`: what sub-envs showed that ended and were reset in
                  this step. The other rows are left alone.
                * `infos`: by name `[k, ...]` numbers: what the step said (of a sub-env that was
                  reset in the same step, before what its reset said), 0 where it said nothing;
                  `_NAME`, `[k]` bool, says where it did.

        Returns:
            obs `[n, *obs]`, rewards `[n]` float64, terminations and truncations `[n]` bool,
            infos; `[k]` of each with `env_ids`, in their order. Fresh arrays, but for those of
            `out`; infos are the same with `out` as without.

        Raises:
            ValueError: another number of actions, or an array of `out` does not fit: another
                shape or dtype, read-only, or in memory of another one.
            UnknownName: `out` has another name.
            ResetNeeded: (gymnasium's too) a sub-env has ended and is not reset by itself, or
                was never reset and refuses to be stepped so.
        """

        def moving() -> tuple[StepResult, Episodes]:
            self._pending.check_idle("step")
            rows = self._all if env_ids is None else checked_rows(env_ids, self.num_envs)
            return self._stepped(self._begin_step(rows, actions, out, ahead=False), None)

        return self._as_one(moving)

    def step_async(self, actions: Any, env_ids: EnvIds = None, *, out: Any = None) -> None:
        """Begin `step`; `step_wait` returns its result.

        Steps of other sub-envs may be begun before it is waited for: workers begin with them
        when they have answered the first one; in this process they run when they are waited for.

        Raises:
            VectorPending: something else was begun, or a step of one of these sub-envs.
        """
        with self._one_caller:
            rows = checked_rows(env_ids, self.num_envs)
            ahead = self._pending.check_apart(rows)
            self._pending.begin(self._begin_step(rows, actions, out, ahead=ahead))

    def step_out(
        self, out: Any, num_rows: int | None = None, *, infos: Iterable[str] | None = None
    ) -> StepOut:
        """Return the arrays of an `out` for `step`, checked once for many calls.

        Args:
            out: as for `step`.
            num_rows: k, how many sub-envs it is for; None for all.
            infos: names of the infos that such a step returns, and `final_info` with it, without
                `final_obs`; None for all. To gather them takes time.

        Raises:
            ValueError, UnknownName, TypeError: as `step`.
        """
        self._pending.check_open("step_out")
        num_rows = self.num_envs if num_rows is None else num_rows
        if type(out) is StepOut:
            if out.num_rows == num_rows and out.owner is self._backend.obs:
                return out
            infos = out.wanted if infos is None else infos
            out = out.given
        found = checked_out(out, self._backend.obs, num_rows, "step", STEP_FIELDS)
        found.wanted = None if infos is None else frozenset(infos)
        return found

    def _begin_step(self, rows: Sequence[int], actions: Any, out: Any, ahead: bool) -> Begun:
        space = self.action_space
        if len(rows) != self.num_envs:
            space = batch_space(self.single_action_space, len(rows))
        actions = checked_actions(actions, space, len(rows), self._action_layout)
        # Ahead of others it cannot be known yet: theirs are the states that this begins from.
        if not ahead and self._backend.lost:
            raise self._lost("step")
        mode = self.autoreset_mode
        resets = self._backend.note.resets(rows, mode)
        out = None if out is None else self.step_out(out, len(rows))
        step = RowStep(rows, actions, resets, mode is _SAME_STEP, out, ahead)
        return Begun("step", rows, self._backend.begin_step(step), out)

    def step_wait(self, timeout: float | None = None, env_ids: EnvIds = None) -> StepResult:
        """Wait for the step that was begun first; return what `step` returns.

        Args:
            timeout: as for `reset_wait`.
            env_ids: the sub-envs that it was begun with, to be sure which one it is; None for
                whichever was begun first.

        Raises:
            VectorPending: others were begun before that of `env_ids`.
        """
        limit = wait_or_none("step_wait: timeout", timeout)

        def moving() -> tuple[StepResult, Episodes]:
            rows = None if env_ids is None else checked_rows(env_ids, self.num_envs)
            return self._stepped(self._pending.take("step", rows), limit)

        return self._as_one(moving)

    def _stepped(self, begun: Begun, timeout: float | None) -> tuple[StepResult, Episodes]:
        _, rows, call, out = begun
        results = self._backend.finish_rows(call, timeout)
        whole = isinstance(rows, range)
        rewards, terminations, truncations = results[:3]
        episodes = self._backend.note.stepped(rows, terminations | truncations, self.autoreset_mode)
        if out is not None and out.wanted is not None:
            results = only_infos(results, out.wanted)
        infos = self._infos(rows, results, some=not whole)
        obs = results.batch
        # `copy=False` promises the memory itself, which a backend's fresh array is not.
        if not (out and out.has_obs) and (obs is None or not self.copy):
            obs = self._backend.obs.batch(None if whole else rows, copy=self.copy)
        found = obs, rewards, terminations, truncations, infos
        return found if out is None else out.in_place_of(found), episodes

    # States -------------------------------------------------------------------------

    @property
    def ended(self) -> np.ndarray:
        """`[n]` bool, fresh: sub-envs whose episode is over and that were not reset yet."""
        return self._backend.note.ended.copy()

    def get_states(self) -> np.ndarray:
        """Return `[n, S]` uint8, fresh: the complete state of every sub-env.

        They are states as of `plangym_ext.make` for an equal env: a planner may start from
        them, and they may be set here again, on any row whose env is equal.

        Raises:
            IncompleteState: the state of a sub-env cannot be captured.
            ResetNeeded: a sub-env was never reset.
        """
        with self._one_caller:
            self._pending.check_idle("get_states")
            return stacked_rows(self._backend.get_states(range(self.num_envs)))

    def set_states(
        self, states: np.ndarray, mask: np.ndarray | None = None, *, ended: np.ndarray | None = None
    ) -> None:
        """Set sub-envs to saved states; nothing is reset.

        The observation of a state is that of the step before it, so a reset by mask shows
        the old one until a sub-env has been stepped.

        Args:
            states: `[n, S]` uint8; rows outside of the mask are not looked at.
            mask: `[n]` bool, which sub-envs; None for all.
            ended: `[n]` bool, which states are of episodes that are over, as `ended` was when
                they were saved; None for none.

        Raises:
            StateError: a state is damaged or of another env.
        """

        def moving() -> tuple[None, Episodes]:
            self._pending.check_idle("set_states")
            if self._backend.lost:
                raise self._lost("set_states")
            given = checked_states(states, self.num_envs)
            chosen: Any = range(self.num_envs)
            if mask is not None:
                which = checked_mask(mask, self.num_envs, "set_states: mask", some=False)
                chosen = np.flatnonzero(which).tolist()
            # By row of the env, not of the mask: `ended` is as long as `states`.
            over = np.zeros(self.num_envs, bool)
            if ended is not None:
                over = checked_mask(ended, self.num_envs, "set_states: ended", some=False)
            self._backend.set_states(chosen, [given[row] for row in chosen], None)
            return None, self._backend.note.begun(chosen, over[chosen])

        self._as_one(moving)

    def fork(self, row: int, rows: int | Sequence[int] | np.ndarray) -> None:
        """Copy the state of one sub-env to others, its random generator included.

        They show its observation and have its future: given the same actions, they do the
        same for ever.

        Args:
            row: number of the sub-env.
            rows: number or numbers `[n]` of those that become like it.

        Raises:
            IndexError: there is no such sub-env.
            StateError: two of the envs are not equal.
        """

        def moving() -> tuple[None, Episodes]:
            self._pending.check_idle("fork")
            (source,) = checked_rows([row], self.num_envs, "fork: row")
            targets = checked_rows(np.atleast_1d(rows), self.num_envs, "fork: rows")
            (state,) = self._backend.get_states([source])
            # Copies: the targets may be written before all of them have been read.
            shown = self._backend.obs.rows([source] * len(targets))
            self._backend.set_states(targets, [state] * len(targets), shown)
            episodes = self._backend.note
            return None, episodes.begun(targets, episodes.ended[source])

        self._as_one(moving)

    def __repr__(self) -> str:
        shown = {"num_envs": self.num_envs, "backend": self.backend}
        return one_line(f"{type(self).__name__} {self._name}", shown)

    def _repr_html_(self) -> str:
        """Return the notebook view."""
        rows = {
            "num_envs": self.num_envs,
            "backend": self.backend,
            "why": self.backend_note or None,
            "observations": self.single_observation_space,
            "actions": self.single_action_space,
            "autoreset": self.autoreset_mode.value,
        }
        return html_table(self._name, [row for row in rows.items() if row[1] is not None])

    @property
    def backend(self) -> str:
        """Name of the backend: "serial", "process", "kernel" or "mujoco"."""
        return self._backend.backend

    @property
    def backend_note(self) -> str:
        """Reason for workers chosen by "auto", and the sub-envs without states; "" for neither."""
        return "\n".join(filter(None, [self.choice_note, self._backend.backend_note]))

    @property
    def nbytes(self) -> int:
        """Bytes of the memory for results; without the envs' own memory.

        It holds what they show and showed last, rewards and endings, actions, and infos of
        numbers; the states, where sub-envs are rows of states.
        """
        return self._backend.nbytes

    @property
    def envs(self) -> list[gym.Env[Any, Any]]:
        """The sub-envs themselves, where they live in this process.

        Raises:
            AttributeError: they live in workers, or are rows of states.
        """
        return self._backend.envs

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the present workers; empty if the sub-envs live in this process."""
        return self._backend.worker_pids

    @property
    def signs(self) -> Sequence[int]:
        """Descriptors to wait on: one is readable when a pending call may be complete.

        None where the sub-envs live in this process: such a call is done when it was begun.
        """
        return self._backend.signs

    # The sub-envs' own --------------------------------------------------------------

    def call(self, name: Any, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Read an attribute of every sub-env, or call its method.

        Args:
            name: of the attribute or method; or a function of a sub-env, which travels to
                the workers by pickle.
            *args: for the method or function.
            **kwargs: for the method or function.
        """
        rows = range(self.num_envs)
        return self._as_one(lambda: self._called(self._begin_call(rows, name, args, kwargs), None))

    def call_async(self, name: Any, *args: Any, **kwargs: Any) -> None:
        """Begin `call`; `call_wait` returns its result."""
        with self._one_caller:
            rows = range(self.num_envs)
            call = self._begin_call(rows, name, args, kwargs)
            self._pending.begin(Begun("call", rows, call))

    def _begin_call(
        self, rows: Sequence[int], name: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        self._pending.check_idle("call")
        check_call(name)
        return self._backend.begin_call(rows, name, args, kwargs)

    def _called(self, call: Any, timeout: float | None) -> tuple[tuple[Any, ...], Episodes]:
        return tuple(self._backend.finish_call(call, timeout)), self._backend.note

    def call_wait(self, timeout: float | None = None) -> tuple[Any, ...]:
        """Wait for the call; return what `call` returns; `timeout` as for `reset_wait`."""
        limit = wait_or_none("call_wait: timeout", timeout)
        return self._as_one(lambda: self._called(self._pending.take("call").call, limit))

    def call_some(
        self, env_ids: Sequence[int], name: Any, *args: Any, **kwargs: Any
    ) -> tuple[Any, ...]:
        """Call a method of some sub-envs; see `call`."""

        def moving() -> tuple[tuple[Any, ...], Episodes]:
            rows = checked_rows(env_ids, self.num_envs, "call")
            return self._called(self._begin_call(rows, name, args, kwargs), None)

        return self._as_one(moving)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of every sub-env."""
        return self.call(name)

    def set_attr(
        self,
        name: str,
        values: list[Any] | tuple[Any, ...] | Any,
        env_ids: Sequence[int] | None = None,
    ) -> None:
        """Set an attribute of every sub-env, or of some.

        Args:
            name: of the attribute; "unwrapped.NAME" sets it on the env under all wrappers.
            values: a list or tuple has one for each sub-env; anything else is for all.
            env_ids: which sub-envs; None for all.
        """

        def moving() -> tuple[None, Episodes]:
            self._pending.check_idle("set_attr")
            rows = checked_rows(env_ids, self.num_envs, "set_attr")
            self._backend.set_attr(rows, checked_name(name), per_row(values, len(rows)))
            return None, self._backend.note

        self._as_one(moving)

    def render(self) -> tuple[Any, ...]:
        """Return the picture of every sub-env."""
        return self.call("render")

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """Seed of every sub-env."""
        return self.get_attr("np_random_seed")

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        """Copy of the generator of every sub-env."""
        return self.get_attr("np_random")

    # Life ---------------------------------------------------------------------------

    def close_extras(self, **kwargs: Any) -> None:  # noqa: ARG002 - gymnasium's signature
        """Release everything; called once by `close`.

        Raises:
            ConcurrentUse: another thread's call does not come to an end. No other call is taken.
        """
        if hasattr(self, "_pending") and self._pending.name:
            gym.logger.warn(
                f"Calling `close` while waiting for a pending call to `{self._pending.name}` to "
                "complete. Its results are lost."
            )
        # A vector env that was not built may be closed.
        if hasattr(self, "_pending"):
            # First: pending calls are forgotten before their workers are told to leave, and another
            # thread that steps in a loop is refused its next step.
            self._pending.close()
        if hasattr(self, "_one_caller"):
            # No env is closed under a step.
            with self._one_caller.after_interrupting(self._end_call, CLOSE_GRACE):
                self._backend.close()

    def _end_call(self) -> None:
        """Wait for another thread's call to end by itself; where it is in workers, end these."""
        if self._one_caller.enter_within(CLOSE_GRACE):
            self._one_caller.depth -= 1
        else:
            self._backend.kill()

    def __reduce__(self) -> NoReturn:
        self._one_caller.__reduce__()

    def __enter__(self) -> PlanVectorEnv:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _infos(self, rows: Sequence[int], results: StepResults, *, some: bool) -> Any:
        """Return infos of the rows of a call that returns `some` sub-envs, or else all."""
        if self.list_infos:
            return listed_infos(len(rows), results)
        if not results.infos and not results.finals:
            return {}
        infos = infos_of(rows, results, self.num_envs, self._add_info)
        return some_infos(infos, rows) if some else infos

    def _add_info(
        self, vector_infos: dict[str, Any], env_info: dict[str, Any], env_num: int
    ) -> dict[str, Any]:
        """Add the info of one env to those of all, whatever type its values are of."""
        widen(vector_infos, env_info)
        added: dict[str, Any] = super()._add_info(vector_infos, env_info, env_num)
        return added

    def _lost(self, where: str) -> VectorResetNeeded:
        return VectorResetNeeded(
            f"{where}: an earlier call failed and could not be rolled back. Reset all sub-envs "
            "first."
        )
