"""MujocoRows: batch requests on MuJoCo's threads (physics, rewards, endings, results)."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.infos import InfoBatch, InfoColumn
from plangym_ext.core.invalid import MARKS, InvalidValue
from plangym_ext.core.results import RowResults
from plangym_ext.core.row_request import RowRequest
from plangym_ext.native.mujoco.player import FreshRows, MujocoPlayer, Played
from plangym_ext.native.mujoco.resets import MujocoStates
from plangym_ext.native.mujoco.task import MujocoTask
from plangym_ext.native.row_checks import RowSeals

# A native call plays several steps of each row. Of a task that can end, those after an
# ending are thrown away, so they are few: enough to make a call worth its while, which
# takes a tenth of a millisecond beside the simulation.
_CALL_SECONDS, _MOST_STEPS = 1e-3, 8
# Other tasks are limited by the memory that is recorded into.
_MOST_BYTES = 1 << 24
_NOTHING = np.zeros(0, np.int64)


@dataclass
class _Batch:
    """One request in progress; its arrays fill as rows end.

    Attributes:
        request: what is asked for.
        columns: infos that are stored.
        wanted: `[B]` env steps to take if nothing ends.
        target: `[B, S]` states after the steps taken.
    """

    request: RowRequest
    columns: tuple[InfoColumn, ...]
    wanted: np.ndarray
    target: np.ndarray
    obs: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    env_steps: np.ndarray
    infos: list[np.ndarray]


@dataclass(frozen=True)
class _Outcome:
    """A task's results of K steps of n rows: cell (k, i) is entry k * n + i.

    Attributes:
        rewards: `[K, n]`.
        infos: arrays by name, flat.
        ended: `[n]` bool, or None if no row did.
        taken: `[n]` steps until a row ended, else K; None if none ended.
    """

    rewards: np.ndarray
    infos: dict[str, np.ndarray]
    ended: np.ndarray | None
    taken: np.ndarray | None


class MujocoRows:
    """Runs requests: physics by a `MujocoPlayer`, the rest as arithmetic on arrays.

    Args:
        env: whose rows they are.
        task: observation, reward and ending.
        player: steps the model.
        states: where state rows hold what a step changes.

    Attributes:
        seals: seal the states that are handed out; to be set.
    """

    seals: RowSeals

    def __init__(
        self, env: GymEnv, task: MujocoTask, player: MujocoPlayer, states: MujocoStates
    ) -> None:
        self._env, self._task, self._player, self._states = env, task, player, states
        self._frameskip = np.int32(env.frameskip)
        self._columns = env.info_writer.columns

    def run(self, request: RowRequest, fresh: FreshRows | None = None) -> RowResults:
        """Play checked rows; see `MujocoEnv`.

        Args:
            request: its `reset_first` has been seen to.
            fresh: rows whose simulations begin at a reset.
        """
        # Own rows are not stepped in place either: after an error they are where they were.
        target = request.states.copy()
        repeats = request.dt * self._frameskip
        once = request.horizon == 1 and repeats.ndim == 0 and repeats == 1
        with np.errstate(all="ignore"):  # what a simulation that blew up leads to
            if once and request.num_rows:
                batch = self._one_step(request, target, fresh)
            else:
                batch = self._begun(request, target)
                self._play(batch, fresh)
            # One sum checks all values; only if it is not a number is the culprit looked for.
            sound = bool(np.isfinite(batch.rewards.sum() + batch.obs.sum()))
        sound = sound and self._env.values.bounds_kept((batch.obs,))
        if self._states.limit is None:
            truncated = np.zeros(request.num_rows, bool)
        else:
            elapsed = self._states.elapsed(target)
            elapsed += batch.env_steps
            truncated = elapsed >= self._states.limit
        infos = self._infos(batch, sound=sound)
        if request.wants_states or "states_out" in request.out:
            self.seals.seal(target)
        return RowResults(
            states=target,
            rewards=batch.rewards,
            terminated=batch.terminated,
            truncated=truncated,
            steps=batch.env_steps.copy() if once else -(-batch.env_steps // repeats),
            obs=(batch.obs,),
            infos=infos,
        )

    def begin(self, states: np.ndarray, fresh: FreshRows) -> RowResults:
        """Return the results of rows that were reset without a step; their states have no seal.

        Args:
            states: `[B, S]` uint8, the rows, of which all but the simulation is reset; they
                are written to.
            fresh: the joints of all of them.
        """
        num_rows = len(states)
        played = self._player.memory(1, num_rows, states=False)
        simulation = self._states.simulation(states)
        self._player.play(played, None, simulation, simulation, fresh, steps=False)
        after = played.after
        # Of infos that a reset has too, a step says what they are after it: actions and what
        # was before have no part in them. Whether that holds has been tried.
        actions = np.zeros_like(played.actions[0])
        with np.errstate(all="ignore"):
            _, infos = self._task.reward(played.before, after, actions)
        none = np.zeros(num_rows, np.int32)
        columns = {column.key: _owned(infos[column.key]) for column in self._columns}
        if MARKS in self._env.layout.info:
            columns[MARKS.key] = np.zeros(num_rows, bool)
        return RowResults(
            states=states,
            rewards=np.zeros((num_rows, 1)),
            terminated=np.zeros(num_rows, bool),
            truncated=np.zeros(num_rows, bool),
            steps=none,
            obs=(_owned(self._task.observation(after)),),
            infos=InfoBatch({**columns, "n_step": none, "dt": none}, {}),
        )

    def _infos(self, batch: _Batch, *, sound: bool) -> InfoBatch:
        """Return the infos of a batch; its values are looked at unless they are `sound`."""
        request = batch.request
        columns = {c.key: array for c, array in zip(batch.columns, batch.infos, strict=True)}
        own: dict[int, dict[str, Any]] = {}
        if request.infos == "all":
            # These tasks have no other fields than numbers, of the columns' own types.
            for i in range(request.num_rows):
                own[i] = {c.key: _value(c, columns[c.key][i]) for c in batch.columns}
        if not sound or len(self._env.layout.info) > len(self._columns):
            marks = self._looked_at(batch, own)
            if marks is not None and request.infos != "none":
                columns[MARKS.key] = marks
        columns["n_step"] = batch.env_steps
        columns["dt"] = np.empty(request.num_rows, np.int32)
        columns["dt"][...] = request.dt
        return InfoBatch(columns, own)

    def _looked_at(self, batch: _Batch, own: dict[int, dict[str, Any]]) -> np.ndarray | None:
        """Refuse or mark values that are no numbers, by the env's `invalid`.

        Args:
            batch: with its rewards and observations.
            own: infos of whole rows, which get a mark too.

        Returns:
            `[B]` bool marks, or None if the env has none.

        Raises:
            InvalidObservation: there is one, and they are refused.
        """
        request, marks = batch.request, np.zeros(batch.request.num_rows, bool)
        seen: Any = SimpleNamespace(
            rewards=batch.rewards,
            obs=(batch.obs,),
            info=[*([None] * len(self._columns)), marks],
            own_infos=own,
        )
        try:
            self._env.values.apply(seen, slice(0, request.num_rows))
        except InvalidValue as error:
            action = request.actions[0][error.row]
            error.reason.add_note(f"{self._env.name}: in row {error.row}, action {action}")
            raise error.reason from None
        return marks if len(self._env.layout.info) > len(self._columns) else None

    def _one_step(self, request: RowRequest, target: np.ndarray, fresh: FreshRows | None) -> _Batch:
        """Take one env step of every row: what `_play` does, without its bookkeeping.

        Of a batch of light rows that would take as long as the simulation.
        """
        num_rows, states = request.num_rows, self._states
        columns = self._stored(request)
        played = self._player.memory(1, num_rows, states=False)
        held = np.ascontiguousarray(request.actions[0][:, 0])
        played.actions[0] = held
        self._player.play(
            played, None, states.simulation(request.states), states.simulation(target), fresh
        )
        rewards, infos = self._task.reward(played.before, played.after, held)
        ended = self._task.terminated(played.after) if self._task.can_end else None
        return _Batch(
            request,
            columns,
            wanted=_NOTHING,
            target=target,
            obs=_owned(self._task.observation(played.after)),
            # The reference adds them to 0, which makes a zero of -0.
            rewards=(rewards + 0.0).reshape(-1, 1),
            terminated=np.zeros(num_rows, bool) if ended is None else _owned(ended),
            env_steps=np.ones(num_rows, np.int32),
            infos=[_owned(infos[column.key]) for column in columns],
        )

    def _stored(self, request: RowRequest) -> tuple[InfoColumn, ...]:
        """Return the infos that a batch has columns for."""
        return self._columns if request.infos != "none" else ()

    def _begun(self, request: RowRequest, target: np.ndarray) -> _Batch:
        """Return the arrays of a request whose rows stand at their first states."""
        num_rows, columns = request.num_rows, self._stored(request)
        (leaf,) = self._env.layout.obs.leaves
        return _Batch(
            request,
            columns,
            self._wanted(request),
            target,
            obs=np.empty((num_rows, *leaf.shape), leaf.dtype),
            rewards=np.zeros((num_rows, request.horizon)),
            terminated=np.zeros(num_rows, bool),
            env_steps=np.zeros(num_rows, np.int32),
            infos=[np.empty((num_rows, *c.shape), c.dtype) for c in columns],
        )

    def _wanted(self, request: RowRequest) -> np.ndarray:
        """Return `[B]` env steps that rows take if nothing ends; one of them is always taken."""
        wanted = np.full(request.num_rows, request.horizon, np.int64)
        wanted *= request.dt * self._frameskip
        if self._states.limit is not None:
            # The limit is looked at after a step.
            left = np.maximum(self._states.limit - self._states.elapsed(request.states), 1)
            np.minimum(wanted, left, out=wanted)
        return wanted

    def _play(self, batch: _Batch, fresh: FreshRows | None) -> None:
        """Play all rows to their ends, some steps at a time; rows drop out as they end."""
        states, source, done = self._states, batch.request.states, 0
        rows: np.ndarray | None = None  # all of them
        repeats, wanted = batch.request.dt * self._frameskip, batch.wanted
        while len(wanted):
            num_rows, longest = len(wanted), int(wanted.max())
            # No row is played past what it wants, so nothing but an ending has to be undone.
            num_steps = min(self._most_steps(num_rows), int(wanted.min()) - done)
            held, actions_at = _held(batch.request, repeats, rows, done, num_steps)
            keeps_states = self._task.can_end and num_steps > 1
            played = self._player.memory(num_steps, num_rows, states=keeps_states)
            played.actions[...] = held
            self._player.play(
                played, rows, states.simulation(source), states.simulation(batch.target), fresh
            )
            fresh = None
            outcome = self._outcome(played, held)
            _add_rewards(batch.rewards, rows, actions_at, outcome)
            done += num_steps
            over = None  # all of them
            if done < longest:
                over = wanted == done
                if outcome.ended is not None:
                    over |= outcome.ended
            self._store(batch, rows, over, done, played, outcome)
            if over is None or over.all():
                return
            rows = np.flatnonzero(~over) if rows is None else rows[~over]
            # From here on rows begin where the last call has left them.
            wanted, source = batch.wanted[rows], batch.target

    def _most_steps(self, num_rows: int) -> int:
        """Return the most env steps of so many rows that one native call plays."""
        if self._task.can_end:
            steps = _CALL_SECONDS / (self._player.step_seconds * num_rows)
            return max(1, int(min(steps, _MOST_STEPS)))
        return max(1, _MOST_BYTES // (self._player.cell_bytes * num_rows))

    def _outcome(self, played: Played, held: np.ndarray) -> _Outcome:
        num_steps, num_rows = played.shape
        actions = held.reshape(num_steps * num_rows, -1)
        rewards, infos = self._task.reward(played.before, played.after, actions)
        rewards = rewards.reshape(played.shape)
        ends = self._task.terminated(played.after) if self._task.can_end else None
        if ends is None or not ends.any():
            return _Outcome(rewards, infos, None, None)
        ends = ends.reshape(played.shape)
        ended: Any = ends.any(axis=0)
        # `argmax` finds the first ending of a row.
        taken = np.where(ended, ends.argmax(axis=0) + 1, num_steps)
        return _Outcome(rewards, infos, ended, taken)

    def _store(
        self,
        batch: _Batch,
        rows: np.ndarray | None,
        over: np.ndarray | None,
        done: int,
        played: Played,
        outcome: _Outcome,
    ) -> None:
        """Store what those rows came to that are `over`: `[n]` bool, or None for all."""
        num_steps, num_rows = played.shape
        if over is not None and not over.any():
            return
        numbers: Any = slice(None) if over is None else np.flatnonzero(over)
        finished = numbers if rows is None else rows[numbers]
        env_steps: Any = done
        # Of each row that is over: entry k * n + i of its last step, as in `_Outcome`.
        cells, after = numbers, played.after
        if num_steps > 1 or over is not None:
            last: Any = num_steps - 1 if outcome.taken is None else outcome.taken[numbers] - 1
            env_steps = done - num_steps + 1 + last
            cells = last * num_rows + np.arange(num_rows)[numbers]
            after = played.after_at(cells)
            # `target` has the state after the last of the K steps: rows that ended before go back.
            early = np.flatnonzero(env_steps < done)
            if len(early):
                target = self._states.simulation(batch.target)
                places = np.arange(num_rows)[numbers][early]
                where = places if rows is None else rows[places]
                self._player.go_back(played, last[early], places, target, where)
        batch.env_steps[finished] = env_steps
        batch.obs[finished] = self._task.observation(after)
        if outcome.ended is not None:
            batch.terminated[finished] = outcome.ended[numbers]
        for column, array in zip(batch.columns, batch.infos, strict=True):
            array[finished] = outcome.infos[column.key][cells]


def _owned(values: np.ndarray) -> np.ndarray:
    """Return the values as an array of their own: a task may return what was recorded."""
    return values if values.flags.owndata else values.copy()


def _held(
    request: RowRequest, repeats: np.ndarray, rows: np.ndarray | None, done: int, num_steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the actions `[K, n, *act]` of the next steps; which of the H they are, `[K, n]`."""
    actions = request.actions[0]
    if rows is None:
        rows = np.arange(len(actions))
    elif repeats.ndim:
        repeats = repeats[rows]
    # [K, 1] env steps, of which each action is held for `repeats`.
    steps = (done + np.arange(num_steps))[:, None]
    actions_at = np.broadcast_to(steps // repeats, (num_steps, len(rows)))
    # Contiguous, so that sums over the last axis are those of a single action.
    return np.ascontiguousarray(actions[rows, actions_at]), actions_at


def _add_rewards(
    sums: np.ndarray, rows: np.ndarray | None, actions_at: np.ndarray, outcome: _Outcome
) -> None:
    """Add the rewards of each step to those of its action, first step first.

    A sum of floats depends on the order, and the reference adds them one by one to 0.
    """
    places = np.arange(len(sums)) if rows is None else rows
    for k, rewards in enumerate(outcome.rewards):
        live: Any = slice(None) if outcome.taken is None else outcome.taken > k
        sums[places[live], actions_at[k, live]] += rewards[live]


def _value(column: InfoColumn, value: Any) -> Any:
    return value.copy() if column.kind is np.ndarray else column.kind(value)
