"""RowLoop: restore, step and store each row of a batch on one env."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np

from plangym_ext.arrays.nested import reward_of
from plangym_ext.arrays.spaces import ObsWriter, own_copy
from plangym_ext.core.infos import InfoWriter
from plangym_ext.core.invalid import InvalidValue, ValuePolicy
from plangym_ext.core.rows import NO_ROW, RowBatch
from plangym_ext.states.codec import StateCodec
from plangym_ext.states.envelope import HEADER, Envelope
from plangym_ext.states.trials.audit import Audit, shown

#: Given a row and its info, what the columns do not hold of it, or None.
PutInfo = Callable[[int, dict[str, Any]], dict[str, Any] | None]


class RowEnv(Protocol):
    """Protocol of the env that the loop drives."""

    gym_env: Any
    envelope: Envelope
    obs_writer: ObsWriter
    values: ValuePolicy
    info_writer: InfoWriter
    frameskip: int
    audit: Audit

    @property
    def codec(self) -> StateCodec:
        """Captures and restores states of the env."""


class RowError(Exception):
    """An env raised `reason` while one row was run."""

    def __init__(self, row: int, action: Any, reason: BaseException) -> None:
        super().__init__(row, action, reason)
        self.row, self.action, self.reason = row, action, reason


class RowLoop:
    """Runs rows of one batch on one env, in place.

    Where it reads and writes is gathered once for all ranges of the batch, and holds until
    the batch's arrays or the env's rows change. Single values go to the memory itself:
    touching one element of an array costs as much as a tenth of a light env's step.

    Args:
        env: runs them.
        batch: whose rows.
        unchecked: the method that was given states whose content is yet to be checked; empty
            if there are none.
    """

    def __init__(self, env: RowEnv, batch: RowBatch, unchecked: str = "") -> None:
        self.env, self.batch, self._unchecked = env, batch, unchecked
        self._width = batch.layout.state_width
        self._source = batch.states_in.data.cast("B")
        self._target = batch.states_out.data.cast("B")
        self._resets = batch.reset_first.data
        self._rewards: Any = batch.rewards[:, 0].data
        self._terminated, self._truncated = batch.terminated.data, batch.truncated.data
        self._put_obs = env.obs_writer.into(batch.obs)
        self._put_info = _info_keeper(env.info_writer.into(batch.info), batch.infos)

    def run(self, first: int, stop: int) -> None:
        """Run rows `first` to `stop - 1`.

        Raises:
            RowError: the env raised. The rows before it are done.
            StateError: a state is damaged or belongs to another env. No row is done.
        """
        env, batch, source, target = self.env, self.batch, self._source, self._target
        if self._unchecked and not env.envelope.holds_own(batch.states_in[first:stop]):
            env.envelope.check(batch.states_in[first:stop], self._unchecked)
        rewards, terminated, truncated = self._rewards, self._terminated, self._truncated
        put_obs, put_info, progress = self._put_obs, self._put_info, batch.progress
        restore, capture, width = env.codec.restore, env.codec.capture, self._width
        places = range(first * width + HEADER, stop * width + HEADER, width)
        starts: Any = places
        if batch.sources is not None:
            # Python ints at once: as numpy scalars, offsets would slow down every restore.
            starts = (batch.sources[first:stop] * width + HEADER).tolist()
        resets = None if batch.single else self._resets
        step, moves, played = _steps(env, batch, first, stop)
        # As many as rows that were run to their end: the row that raised has none.
        lengths: list[int] = []
        odd: list[int] = []
        failure: RowError | None = None
        row = first
        try:
            for row, start, place, move in zip(
                range(first, stop), starts, places, moves, strict=True
            ):
                progress[0] = row
                restore(source, start)
                if resets is not None and resets[row]:
                    env.gym_env.reset()
                obs, reward, terminated[row], truncated[row], info = step(move)
                try:
                    rewards[row] = reward
                except TypeError:  # an array of one number
                    rewards[row] = reward_of(reward)
                put_obs(row, obs)
                if put_info is not None and (own := put_info(row, info)) is not None:
                    # Copied now: an env may go on writing to what it put into its info.
                    batch.own_infos[row] = copy.deepcopy(own)
                    odd.append(row)
                lengths.append(capture(target, place) - place)
        # An env's `sys.exit()` would end the worker; an interrupt is no row's fault and passes.
        except (Exception, SystemExit) as error:
            failure = row_error(batch, row, error)
        # Whatever happens after this is of this process's own making, not of a row.
        progress[0] = NO_ROW
        # The rows before an error are done.
        if lengths:
            failure = self._finish(first, lengths, odd, played) or failure
        if failure is not None:
            raise failure from failure.reason
        if resets is None and lengths and env.audit.is_due():
            self._audit(first, starts[0])

    def _audit(self, row: int, start: int) -> None:
        """Have the future of a row's state replayed and compared with its results."""
        env, batch = self.env, self.batch
        env.audit.open(self._source[start : start - HEADER + self._width])
        if env.frameskip == 1:  # a batch keeps the sums of several env steps
            layout = batch.layout
            action = layout.action.join(tuple(a[row, 0].copy() for a in batch.actions))
            obs = layout.obs.join(tuple(leaf[row] for leaf in batch.obs))
            result = self._rewards[row], self._terminated[row], self._truncated[row]
            env.audit.note(action, shown(layout.obs, obs, *result))
        env.audit.start(env.gym_env, env.codec)

    def _finish(
        self, first: int, lengths: list[int], odd: list[int], played: _Sequences | None
    ) -> RowError | None:
        """Seal the states of the rows that were run, bring them where they belong, and say so.

        Returns:
            The error of the first row with an invalid value, if there is one: it and the rows
            after it are not done.
        """
        batch = self.batch
        rows = slice(first, first + len(lengths))
        failure = None
        _store_counts(batch, rows, played)
        try:
            self.env.values.apply(batch, rows)
        except InvalidValue as error:
            failure = row_error(batch, error.row, error.reason)
            del lengths[error.row - first :]
            rows = slice(first, error.row)
        self._seal(first, lengths)
        if batch.targets is not None:
            assert batch.store is not None
            batch.store[batch.targets[rows]] = batch.states_out[rows]
        # After everything else: the parent takes a row whose worker has died as it finds it.
        batch.done[rows] = True
        if batch.objects:
            batch.keep_objects(range(rows.start, rows.stop))
            batch.done[rows] = False
        if odd:
            # Infos of their own are not in the memory, so these rows are not done yet.
            batch.done[odd] = False
        return failure

    def _seal(self, first: int, lengths: list[int]) -> None:
        """Seal states of which `lengths` bytes were written, and clear what follows these."""
        states = self.batch.states_out[first : first + len(lengths)]
        target, width, envelope = self._target, self._width, self.env.envelope
        # Of nearly all envs: one checksum over all rows instead of a loop.
        if lengths and lengths.count(lengths[0]) == len(lengths):
            if HEADER + lengths[0] < width:
                states[:, HEADER + lengths[0] :] = 0
            envelope.seal(states, lengths[0])
            return
        for end, length in zip(itertools.count((first + 1) * width, width), lengths, strict=False):
            # There may have been a longer state before.
            rest = width - HEADER - length
            target[end - rest : end] = bytes(rest)
        envelope.seal(states, np.array(lengths, np.uint32))


def _info_keeper(put: PutInfo, infos: str) -> PutInfo | None:
    """Return a function of a row and its info, which returns what to keep beside the columns."""

    # Some envs return None where they have nothing to tell.
    def put_all(row: int, info: dict[str, Any] | None) -> dict[str, Any]:
        put(row, info or {})
        return info or {}

    def put_numeric(row: int, info: dict[str, Any] | None) -> dict[str, Any] | None:
        return put(row, info or {})

    return {"none": None, "numeric": put_numeric, "all": put_all}[infos]


def row_error(batch: RowBatch, row: int, reason: BaseException) -> RowError:
    """Return `reason`, as the error of one row of a batch."""
    return RowError(row, batch.layout.action.join(tuple(a[row] for a in batch.actions)), reason)


def _steps(
    env: RowEnv, batch: RowBatch, first: int, stop: int
) -> tuple[Callable[[Any], Any], Iterable[Any], _Sequences | None]:
    """Return how to step rows: a function, what it takes for each row, and what it remembers."""
    actions = row_actions(batch, first, stop)
    if batch.single and env.frameskip == 1:
        moves = actions[:, 0] if batch.layout.action.is_flat else [action for (action,) in actions]
        return env.gym_env.step, moves, None
    played = _Sequences(env.gym_env.step)
    repeats = (batch.dt[first:stop] * env.frameskip).tolist()
    return played.step, zip(actions, repeats, strict=True), played


class _Sequences:
    """Plays each row's actions, and each of them for some env steps, as if it were one step.

    Attributes:
        rewards: of every row, one for each action taken.
        env_steps: of every row.
    """

    def __init__(self, step: Callable[[Any], Any]) -> None:
        self._step = step
        self.rewards: list[list[float]] = []
        self.env_steps: list[int] = []

    def step(self, move: tuple[Iterable[Any], int]) -> Any:
        """Step the restored env until a row's actions or the episode end."""
        step, (actions, repeats) = self._step, move
        rewards: list[float] = []
        env_steps = 0
        obs, info, terminated, truncated = None, {}, False, False
        for action in actions:
            # An env may write into what it is given, and a held action is the same again.
            held = action if repeats == 1 else own_copy(action)
            obs, reward, terminated, truncated, info = step(action)
            total = reward_of(reward)
            env_steps += 1
            for _ in range(repeats - 1):
                if terminated or truncated:
                    break
                obs, reward, terminated, truncated, info = step(own_copy(held))
                total += reward_of(reward)
                env_steps += 1
            rewards.append(total)
            if terminated or truncated:
                break
        self.rewards.append(rewards)
        self.env_steps.append(env_steps)
        return obs, rewards[0], terminated, truncated, info


def _store_counts(batch: RowBatch, rows: slice, played: _Sequences | None) -> None:
    """Write how many steps rows took, and the rewards after the first."""
    if played is None:
        batch.steps[rows] = 1
        batch.env_steps[rows] = 1
        return
    batch.steps[rows] = [len(rewards) for rewards in played.rewards][: rows.stop - rows.start]
    batch.env_steps[rows] = played.env_steps[: rows.stop - rows.start]
    # With one action the reward is in place already. `strict=False`: rows after an error have none.
    if batch.horizon > 1:
        for row, rewards in zip(range(rows.start, rows.stop), played.rewards, strict=False):
            taken = len(rewards)
            batch.rewards[row, :taken] = rewards
            batch.rewards[row, taken:] = 0.0


def row_actions(batch: RowBatch, first: int, stop: int) -> Any:
    """Return the actions of some rows, `[row][h]`, as the env expects them.

    They are views of a private copy: an env may keep an action, and the shared memory
    under it belongs to the next batch.
    """
    if batch.layout.action.is_flat:
        return batch.actions[0][first:stop].copy()
    parts = tuple(actions[first:stop].copy() for actions in batch.actions)
    join = batch.layout.action.join
    return [
        [join(tuple(part[row, h] for part in parts)) for h in range(batch.horizon)]
        for row in range(stop - first)
    ]
