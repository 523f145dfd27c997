"""StateBackend: vector-env rows as states of one native env."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array

from plangym_ext.core.backend_env import LiveStepper
from plangym_ext.core.results import RowResets, RowResults
from plangym_ext.errors import InvalidObservation, InvalidOption, ResetNeeded
from plangym_ext.vector.arguments import UNWRAPPED
from plangym_ext.vector.backend import RowsDescription, RowStep, VectorBackend, no_envs
from plangym_ext.vector.infos import GroupedInfos
from plangym_ext.vector.kept_states import ALL_FRESH, KeptStates, NativeResults
from plangym_ext.vector.memory.step_out import StepOut
from plangym_ext.vector.results import StepResults, VectorResetNeeded
from plangym_ext.vector.row_values import RowValues
from plangym_ext.vector.shown import ObsBuffer
from plangym_ext.vector.sub_envs.plain_attributes import changed_attributes, plain_attributes

_COUNTS = ("n_step", "dt")
#: Methods of an env that leave it where it is.
_READING = ("get_wrapper_attr", "has_wrapper_attr")
#: What an env may write into after it has given it away.
_CHANGEABLE = (np.ndarray, np.random.Generator, list, dict, set, tuple)


class StateBackend(VectorBackend):
    """Steps n states with one env; see `VectorBackend`.

    A step, with the resets of rows that ended, is one native call for all rows
    (`_step_all`). Rows that the native code cannot judge, resets with seeds or options, and
    calls run on the env proper one by one: its state is set, and captured afterwards. So the
    env proper holds nothing: the changes of a call are in `KeptStates`, and `keep` commits them.

    Args:
        env: the env; its env proper is `plan_env`. It belongs to this.
        num_envs: n.
    """

    #: States are replaced when all has succeeded.
    lost = False

    def __init__(self, env: LiveStepper, num_envs: int) -> None:
        self._env, self._num_envs = env, num_envs
        self._gym_env = env.gym_env
        self._results = NativeResults(env, num_envs)

    @property
    def nbytes(self) -> int:
        """See `VectorBackend`: observations and states, of which native calls keep two more."""
        return 2 * self._kept.now.shown.nbytes + 3 * self._kept.now.states.nbytes

    def build(self) -> None:
        """Do nothing: the env is there."""

    @property
    def backend_note(self) -> str:
        return self._env.backend_note

    @property
    def description(self) -> RowsDescription:
        env = self._env
        return RowsDescription(
            env.name,
            [env.observation_space] * self._num_envs,
            [env.action_space] * self._num_envs,
            dict(env.metadata),
            self._gym_env.render_mode,
        )

    @property
    def backend(self) -> str:
        return self._env.backend

    @property
    def envs(self) -> list[gym.Env[Any, Any]]:
        """See `VectorBackend`: they are states."""
        raise no_envs(self.backend)

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """None: rows are stepped in this process."""
        return ()

    @property
    def note(self) -> Any:
        return self._kept.now.note

    def keep(self, note: Any) -> None:
        self._kept.keep(note)

    def use(self, space: spaces.Space[Any]) -> None:
        self._kept = KeptStates(self._num_envs, self._env.state_width, space)
        # A space of the caller's own may ask for another dtype than the env's.
        self._values = RowValues(self._env.plan_env.values.policy, self.obs, self._env.name)
        self._is_cast = space.dtype != self._env.observation_space.dtype

    @property
    def obs(self) -> ObsBuffer:
        return self._kept.obs

    # All rows at once ---------------------------------------------------------------

    def begin_step(self, step: RowStep) -> StepResults | RowStep:
        rows, actions, resets, same_step, out, ahead = step
        if ahead:  # what was begun before is not kept yet
            # Copied: the caller may write to its array before this step's turn comes.
            return step._replace(actions=copy.deepcopy(actions), ahead=False)
        self._kept.forget()
        if self._kept.now.fresh is not self._kept.none_fresh:
            self._kept.check_begun(rows)
        batch = actions if isinstance(actions, np.ndarray) else self._array_of(actions)
        found = self._step_all(rows, batch, resets, same_step, out)
        # The native call has moved nothing.
        if found is None:
            found = self._step_each(rows, actions, resets, same_step)
        if out is not None:
            shown = self.obs.leaves(_index(rows)) if found.batch is None else (found.batch,)
            out.arrays.write_results(found, shown)
        return found

    def finish_rows(
        self,
        call: StepResults | RowStep,
        timeout: float | None,  # noqa: ARG002 - it cannot be stopped
    ) -> StepResults:
        """Return a call's results, which are computed at once or in turn."""
        return cast("StepResults", self.begin_step(call) if isinstance(call, RowStep) else call)

    def _step_all(
        self,
        rows: Sequence[int],
        actions: np.ndarray,
        resets: np.ndarray,
        same_step: bool,
        out: StepOut | None = None,
        states: np.ndarray | None = None,
    ) -> StepResults | None:
        """Step or reset rows by native calls; None, and nothing moved, if they cannot.

        Rows begin where they are, or in `states` `[k, S]`.
        """
        whole = isinstance(rows, range)
        results, use = self._results, ALL_FRESH
        if out is not None:
            use = results.use_of(out, with_obs=not self._is_cast)
        live = whole and states is None
        if states is None:
            kept = self._kept.now.states
            states = kept if whole else kept[rows]
        found = self._env.step_live(actions, states, resets, whole=live, same_step=same_step, **use)
        if found is None:
            return None
        groups = [] if "infos" in use else results.groups(found.infos, resets)
        if same_step and (over := found.terminated | found.truncated).any():
            anew = found.resets or self._reset_all(found, over, actions)
            # Only the results of the step are lost; nothing refers to them yet.
            if anew is None:
                return None
            groups = results.groups_of_resets(found.infos, anew, over, "infos" in use)
        (obs,) = found.obs
        self._kept.reach(rows, found.states, obs)
        infos = GroupedInfos(groups) if groups else ()
        ended = found.terminated, found.truncated
        batch = None if self._is_cast else obs
        return StepResults(found.rewards.reshape(-1), *ended, infos, [], batch)

    def _reset_all(
        self, found: RowResults, over: np.ndarray, actions: np.ndarray
    ) -> RowResets | None:
        """Reset rows that ended in the step that gave `found`, which is written to.

        Args:
            found: results of the step, of a backend that resets nothing in a step.
            over: `[k]` bool, rows that ended.
            actions: of the step.

        Returns:
            What is said of them; None if a row cannot be reset natively.
        """
        ended = np.flatnonzero(over)
        every = np.ones(len(ended), bool)
        anew = self._env.step_live(actions[ended], found.states[ended], every, whole=False)
        if anew is None:
            return None
        # [k, *obs], before the resets write over what the endings showed.
        final_obs = found.obs[0].copy()
        found.obs[0][ended] = anew.obs[0]
        found.states[ended] = anew.states
        infos = {
            column.key: _spread(anew.infos[column.key], ended, len(over))
            for column in self._env.reset_columns or ()
        }
        return RowResets((final_obs,), infos)

    def _array_of(self, actions: Sequence[Any]) -> np.ndarray:
        space = self._env.action_space
        out: Any = create_empty_array(space, n=len(actions), fn=np.zeros)
        found: Any = concatenate(space, actions, out)
        return np.asarray(found)

    # One row after another ----------------------------------------------------------

    def begin_reset(
        self, rows: Sequence[int], seeds: Sequence[int | None], options: dict[str, Any] | None
    ) -> StepResults:
        self._kept.forget()
        given = zip(rows, seeds, strict=True)
        self._kept.seed({row: seed for row, seed in given if seed is not None})
        # Native resets know of no options.
        results = None if options else self._reset_all_of(rows, seeds)
        if results is not None:
            return results
        begun = [self._reset(row, seed, options) for row, seed in zip(rows, seeds, strict=True)]
        states, shown, infos = zip(*begun, strict=True)
        self._kept.reach_each(rows, states, shown)
        return self._checked(rows, _quiet_results(len(rows), infos, []))

    def _reset_all_of(self, rows: Sequence[int], seeds: Sequence[int | None]) -> StepResults | None:
        """Reset rows by one native call; None, and nothing moved, if it cannot."""
        kept, fresh, *_ = self._kept.now
        states = None
        if any(seed is not None for seed in seeds):
            states = self._env.seeded_rows(kept[rows], fresh[rows], seeds)
            if states is None:
                return None
        # Those need a seed of their own, which `_reset` draws.
        elif fresh[rows].any():
            return None
        # Rows that are reset take no action, but native code wants an array of them.
        leaf = self._env.layout.action.leaves[0]
        ignored, every = np.zeros((len(rows), *leaf.shape), leaf.dtype), np.ones(len(rows), bool)
        results = self._step_all(rows, ignored, every, same_step=False, states=states)
        if results is not None:
            self._kept.reach_reset(rows)
        return results

    def _reset(
        self, row: int, seed: int | None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, Any, dict[str, Any]]:
        if not self._kept.now.fresh[row]:
            self._visit(row)
        elif seed is None:
            # Rows begin as copies of one env: each needs a seed of its own.
            seed = int(np.random.SeedSequence().generate_state(1)[0] >> 1)
            self._kept.seed({row: seed})
        state, obs, info = self._env.reset(seed=seed, options=options)
        return state, copy.deepcopy(obs), info

    def _step_each(
        self,
        rows: Sequence[int],
        actions: Sequence[Any] | np.ndarray,
        resets: np.ndarray,
        same_step: bool,
    ) -> StepResults:
        """Step as `_step_all` does, by the env proper."""
        infos: list[dict[str, Any]] = []
        finals: list[tuple[int, Any, dict[str, Any]]] = []
        found = _quiet_results(len(rows), infos, finals)
        kept: list[tuple[np.ndarray, Any]] = []
        for k, row in enumerate(rows):
            if resets[k]:
                state, obs, info = self._reset(row, None)
            else:
                self._visit(row)
                stepped: Any = self._env.step(actions[k], return_state=True)
                state, obs, reward, ended, cut, info = stepped
                obs = copy.deepcopy(obs)  # the env may use its memory again
                info = {key: value for key, value in info.items() if key not in _COUNTS}
                found.rewards[k], found.terminations[k], found.truncations[k] = reward, ended, cut
                if same_step and (ended or cut):
                    # The ending's own observation: the reset below shows another one.
                    finals.append((k, obs, info))
                    self._env.set_state(state)
                    state, obs, info = self._env.reset()
            kept.append((state, obs))
            infos.append(info)
        states, shown = zip(*kept, strict=True)
        self._kept.reach_each(rows, states, shown)
        return self._checked(rows, found._replace(infos=_noted(infos)))

    def _checked(self, rows: Sequence[int], results: StepResults) -> StepResults:
        """Return results of rows that show their observations, with marks if they are wanted."""
        try:
            self._kept.obs  # noqa: B018 - brings the buffer to where the call leads
            return self._values.checked(results, rows)
        except InvalidObservation:
            self._kept.forget()
            raise

    # Everything else ----------------------------------------------------------------

    def begin_call(
        self, rows: Sequence[int], name: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> list[Any]:
        self._kept.forget()
        if name == "set_wrapper_attr" and len(args) == 2 and not kwargs:
            # By the other way, which refuses what states do not hold: it would act on nothing.
            self.set_attr(rows, args[0], [args[1]] * len(rows))
            return [True] * len(rows)
        if name in ("np_random_seed", "_np_random_seed"):
            # No state holds it; -1 is gymnasium's word for a generator that came otherwise.
            return [self._kept.now.seeds.get(row, -1) for row in rows]
        found, moved, states = [], [], []
        for row in rows:
            if self._kept.now.fresh[row]:
                found.append(self._given_anyhow(row, name, args, kwargs))
                continue
            self._visit(row)
            before = plain_attributes(self._gym_env)
            given, moves = self._given(name, args, kwargs)
            found.append(given)
            if moves:
                self._check_held(row, before)
                moved.append(row)
                states.append(self._env.get_state())
        if moved:
            self._kept.reach_each(moved, states, None)
        return found

    def _given(self, name: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, bool]:
        """Return the env proper's result at its present state, and whether it may have moved."""
        env = self._gym_env
        value = functools.partial(name, env) if callable(name) else env.get_wrapper_attr(name)
        moves = callable(value)  # what is only read moves nothing
        given = value(*args, **kwargs) if moves else value
        # One env is brought to row after row: what it gave for one is changed by the next.
        return copy.deepcopy(given) if isinstance(given, _CHANGEABLE) else given, moves

    def _given_anyhow(
        self, row: int, name: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return what the env proper gives whatever its episode: such a row has none yet."""
        is_method = not callable(name) and callable(self._gym_env.get_wrapper_attr(name))
        found, still = [], not is_method or name in _READING
        for seed in (0, 1) if still else ():
            before, *_ = self._env.reset(seed=seed)
            found.append(self._given(name, args, kwargs)[0])
            still = still and np.array_equal(before, self._env.get_state())
        if still and _equal(*found):
            return found[0]
        what = getattr(name, "__qualname__", name)
        raise VectorResetNeeded(
            f"call: row {row} was never reset, so it has no env for a call of {what!r}. Call "
            "reset first."
        )

    def _check_held(self, row: int, before: dict[str, Any]) -> None:
        """Refuse what a call has set that states do not hold: no row would be stepped with it.

        Raises:
            ValueError: it has; the env proper is as it was.
        """
        env = self._gym_env
        if not changed_attributes(env, before):
            return
        lost = set(self._env.codec.fixed.changed())
        state = None if lost else self._env.get_state()
        # Attributes that differ after the restore are not part of a state.
        self._visit(row)
        unheld = changed_attributes(env, before)
        for name in unheld.keys() & before.keys():
            setattr(env.unwrapped, name, before[name])
        lost |= unheld.keys()
        if state is None or lost:
            raise InvalidOption(
                f"call: it has set {', '.join(sorted(lost))}, which is not part of a state, and "
                f"the {self._env.backend} backend keeps nothing else for each row. Use "
                f"backend='serial' or 'process'."
            )
        self._env.set_state(state)

    def finish_call(self, call: list[Any], timeout: float | None) -> list[Any]:  # noqa: ARG002
        """Return each env's result, which was computed at once."""
        return call

    def _visit(self, row: int) -> None:
        """Set the env proper to a row's state, unless the row was never reset."""
        if not self._kept.now.fresh[row]:
            self._env.set_state(self._sealed([row])[0])

    def _sealed(self, rows: Sequence[int]) -> np.ndarray:
        return self._env.sealed(self._kept.now.states[_index(rows)])

    def set_attr(self, rows: Sequence[int], name: str, values: Sequence[Any]) -> None:
        """Set an attribute that is part of a state.

        Raises:
            ValueError: it is not, so rows cannot differ in it.
        """
        self._kept.forget()
        name, states = name.removeprefix(UNWRAPPED), []
        for row, value in zip(rows, values, strict=True):
            if self._kept.now.fresh[row]:
                raise ResetNeeded(f"set_attr: row {row} was never reset. Call reset first.")
            self._visit(row)
            before = self._gym_env.get_wrapper_attr(name)
            self._gym_env.set_wrapper_attr(name, value)
            lost = bool(self._env.codec.fixed.changed())
            state = None if lost else self._env.get_state()
            # The state has not changed although the attribute has: so states do not hold it.
            same = state is not None and np.array_equal(state, self._sealed([row])[0])
            if state is None or (same and not _equal(before, value)):
                self._gym_env.set_wrapper_attr(name, before)
                raise InvalidOption(
                    f"set_attr: {name!r} is not part of a state, and the {self._env.backend} "
                    "backend keeps nothing else for each row. Use backend='serial' or 'process'."
                )
            states.append(state)
        if states:
            self._kept.reach_each(rows, states, None)

    def get_states(self, rows: Sequence[int]) -> np.ndarray:
        """See `VectorBackend`; they are `[k, S]`, fresh."""
        self._kept.forget()
        fresh = self._kept.now.fresh[_index(rows)]
        if fresh.any():
            row = rows[int(np.argmax(fresh))]
            raise ResetNeeded(f"row {row} was never reset. Call reset first.")
        return self._sealed(rows)

    def set_states(
        self, rows: Sequence[int], states: Sequence[np.ndarray], observations: Any
    ) -> None:
        self._kept.forget()
        if len(rows):
            # Checked as a whole first: a bad one leaves all rows where they are.
            checked = list(self._env.checked_states(states, "set_states"))
            self._kept.seed(dict.fromkeys(rows, -1))
            self._kept.reach_each(rows, checked, observations)

    def close(self) -> None:
        self._env.close()


def _equal(one: Any, other: Any) -> bool:
    """Return whether two values of an attribute are the same, arrays by their numbers."""
    if one is other:
        return True
    try:
        return type(one) is type(other) and bool(np.array_equal(one, other))
    except (TypeError, ValueError):  # values of a kind that numpy makes no array of
        return False


def _index(rows: Sequence[int]) -> Any:
    return slice(None) if isinstance(rows, range) else rows


def _spread(values: np.ndarray, rows: np.ndarray, num_rows: int) -> np.ndarray:
    """Return `[num_rows, ...]` with the values in some rows."""
    # Unset in other rows, which no group of infos names.
    found = np.empty((num_rows, *values.shape[1:]), values.dtype)
    found[rows] = values
    return found


def _noted(infos: Sequence[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    return [(k, info) for k, info in enumerate(infos) if info]


def _quiet_results(
    num_rows: int, infos: Sequence[dict[str, Any]], finals: list[tuple[int, Any, dict[str, Any]]]
) -> StepResults:
    """Return results of k rows without endings and rewards."""
    quiet = np.zeros(num_rows), np.zeros(num_rows, bool), np.zeros(num_rows, bool)
    return StepResults(*quiet, _noted(infos), finals)
