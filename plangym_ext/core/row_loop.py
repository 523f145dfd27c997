"""The loop that every backend runs: restore a row, step it, store what came out."""

from __future__ import annotations

from typing import Any, Protocol

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
    width = batch.layout.state_width
    source = batch.states_in.data.cast("B")
    target = batch.states_out.data.cast("B")
    lengths = np.zeros(stop - first, np.uint32)
    row = first
    try:
        for row in range(first, stop):
            payload_at = row * width + HEADER
            env.codec.restore(source, payload_at)
            if batch.reset_first[row]:
                env.gym_env.reset()
            obs, info = _play(env, batch, row)
            env.obs_writer.write(batch.obs, row, obs)
            own = env.info_writer.write(batch.info, row, info)
            if own is not None:
                batch.own_infos[row] = own
            end = env.codec.capture(target, payload_at)
            lengths[row - first] = end - payload_at
            # Memory is used again and again: what an earlier batch left behind the
            # payload would be sealed into the state.
            behind = (row + 1) * width
            target[end:behind] = bytes(behind - end)
        row = stop
    except Exception as error:
        action = batch.layout.action.join(tuple(a[row] for a in batch.actions))
        raise RowError(row, action, error) from error
    finally:
        if row > first:
            env.envelope.seal(batch.states_out[first:row], lengths[: row - first])
            batch.done[first:row] = True


def _play(env: RowEnv, batch: RowBatch, row: int) -> tuple[Any, dict[str, Any]]:
    """Step the restored env through the row's actions; returns the last obs and info."""
    step = env.gym_env.step
    repeats = int(batch.dt[row]) * env.frameskip
    rewards = batch.rewards
    taken = env_steps = 0
    obs, info, terminated, truncated = None, {}, False, False
    for taken in range(batch.horizon):
        action = row_action(batch, row, taken)
        total = 0.0
        for _ in range(repeats):
            obs, reward, terminated, truncated, info = step(action)
            total += float(reward)
            env_steps += 1
            if terminated or truncated:
                break
        rewards[row, taken] = total
        if terminated or truncated:
            rewards[row, taken + 1 :] = 0.0
            break
    batch.terminated[row], batch.truncated[row] = terminated, truncated
    batch.steps[row], batch.env_steps[row] = taken + 1, env_steps
    return obs, info


def row_action(batch: RowBatch, row: int, h: int) -> Any:
    """Action `h` of a row as the env expects it: its own copy, never shared memory."""
    parts = tuple(a[row, h] if a.ndim == 2 else a[row, h].copy() for a in batch.actions)
    return parts[0] if batch.layout.action.is_flat else batch.layout.action.join(parts)
