"""The loop that every backend runs: restore a row, step it, store what came out."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, Protocol

import numpy as np

from plangym_ext.core.codec import StateCodec
from plangym_ext.core.envelope import HEADER, Envelope
from plangym_ext.core.infos import InfoWriter
from plangym_ext.core.rows import RowBatch
from plangym_ext.core.spaces import ObsWriter


class RowEnv(Protocol):
    """What the loop needs of the env that it drives."""

    gym_env: Any
    codec: StateCodec
    envelope: Envelope
    obs_writer: ObsWriter
    info_writer: InfoWriter
    frameskip: int


class RowError(Exception):
    """An env raised `reason` while one row was run."""

    def __init__(self, row: int, action: Any, reason: Exception) -> None:
        super().__init__(row, action, reason)
        self.row, self.action, self.reason = row, action, reason


def run_rows(env: RowEnv, batch: RowBatch, first: int, stop: int) -> None:
    """Run rows `first` to `stop - 1` of `batch` on one env, in place.

    Raises:
        RowError: the env raised. The rows before it are done.
    """
    # What the loop reads or writes for every row is gathered outside it: touching one
    # element of an array costs as much as a tenth of a light env's step.
    width = batch.layout.state_width
    source, target = batch.states_in.data.cast("B"), batch.states_out.data.cast("B")
    starts = range(first, stop) if batch.sources is None else batch.sources[first:stop].tolist()
    progress, infos = batch.progress, batch.infos
    restore, capture = env.codec.restore, env.codec.capture
    write_obs, write_info = env.obs_writer.write, env.info_writer.write
    actions = row_actions(batch, first, stop)
    repeats = (batch.dt[first:stop] * env.frameskip).tolist()
    resets = batch.reset_first[first:stop].tolist()
    lengths: list[int] = []
    outcomes: list[_Outcome] = []
    odd: list[int] = []
    row = first
    try:
        for row in range(first, stop):
            progress[0] = row
            restore(source, starts[row - first] * width + HEADER)
            if resets[row - first]:
                env.gym_env.reset()
            outcome = _play(env.gym_env.step, actions[row - first], repeats[row - first])
            write_obs(batch.obs, row, outcome.obs)
            if infos != "none":
                own = write_info(batch.info, row, outcome.info)
                own = outcome.info if infos == "all" else own
                if own is not None:
                    # Copied now: an env may go on writing to what it put into its info.
                    batch.own_infos[row] = copy.deepcopy(own)
                    odd.append(row)
            payload_at = row * width + HEADER
            lengths.append(capture(target, payload_at) - payload_at)
            outcomes.append(outcome)
    except Exception as error:
        action = batch.layout.action.join(tuple(a[row] for a in batch.actions))
        raise RowError(row, action, error) from error
    finally:
        _store(batch, first, outcomes)
        done = slice(first, first + len(outcomes))
        if outcomes:
            env.envelope.seal(batch.states_out[done], np.array(lengths, np.uint32))
            if batch.targets is not None:
                assert batch.store is not None
                batch.store[batch.targets[done]] = batch.states_out[done]
            batch.done[done] = True
        # Infos of their own are not in the memory, so these rows are not done yet.
        batch.done[odd] = False


class _Outcome(NamedTuple):
    """What one row came to."""

    obs: Any
    info: dict[str, Any]
    rewards: list[float]
    terminated: bool
    truncated: bool
    env_steps: int


def _play(step: Any, actions: Any, repeats: int) -> _Outcome:
    """Step the restored env through a row's actions until they or the episode end."""
    rewards = []
    env_steps = 0
    obs, info, terminated, truncated = None, {}, False, False
    for action in actions:
        total = 0.0
        for _ in range(repeats):
            obs, reward, terminated, truncated, info = step(action)
            total += float(reward)
            env_steps += 1
            if terminated or truncated:
                break
        rewards.append(total)
        if terminated or truncated:
            break
    return _Outcome(obs, info, rewards, terminated, truncated, env_steps)


def _store(batch: RowBatch, first: int, outcomes: list[_Outcome]) -> None:
    """Write what rows `first` on came to, but for obs, infos and states."""
    rows = slice(first, first + len(outcomes))
    if batch.horizon == 1:
        batch.rewards[rows, 0] = [outcome.rewards[0] for outcome in outcomes]
    else:
        for row, outcome in enumerate(outcomes, start=first):
            taken = len(outcome.rewards)
            batch.rewards[row, :taken] = outcome.rewards
            batch.rewards[row, taken:] = 0.0
    batch.terminated[rows] = [outcome.terminated for outcome in outcomes]
    batch.truncated[rows] = [outcome.truncated for outcome in outcomes]
    batch.steps[rows] = [len(outcome.rewards) for outcome in outcomes]
    batch.env_steps[rows] = [outcome.env_steps for outcome in outcomes]


def row_actions(batch: RowBatch, first: int, stop: int) -> Any:
    """Actions of some rows, `[row][h]`, as the env expects them.

    They are views of a private copy: an env may keep an action, and the shared memory
    behind it belongs to the next batch.
    """
    parts = tuple(actions[first:stop].copy() for actions in batch.actions)
    if batch.layout.action.is_flat:
        return parts[0]
    join = batch.layout.action.join
    return [
        [join(tuple(part[row, h] for part in parts)) for h in range(batch.horizon)]
        for row in range(stop - first)
    ]
