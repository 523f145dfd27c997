"""Self-test of a backend's resets against the env's own, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.infos import InfoColumn, InfoWriter
from plangym_ext.core.results import RowResults
from plangym_ext.native.native_env import state_of
from plangym_ext.states.envelope import HEADER

_RESETS = 4


def proved_resets(
    env: GymEnv, run: Callable[[np.ndarray, np.ndarray, np.ndarray], RowResults | None]
) -> tuple[InfoColumn, ...] | None:
    """Return the infos of a reset, if a backend resets rows without a step as the env does.

    Args:
        env: the reference; it is left where it was.
        run: resets rows on the backend: actions, states and which are reset, as of `step_live`.
            Its states may lack a seal.

    Returns:
        The fields, in the env's order; None if states, observations or infos differ, or not
        all infos are numbers of the same types every time.
    """
    here = state_of(env)
    try:
        before, after, shown, infos = _played(env)
    finally:
        env.codec.restore(here[0].data, HEADER)
    columns = InfoWriter(infos[0]).columns
    if any(InfoWriter(info).columns != columns or len(info) != len(columns) for info in infos):
        return None
    action = env.layout.action.leaves[0]
    actions = np.zeros((_RESETS, *action.shape), action.dtype)
    found = run(actions, before, np.ones(_RESETS, bool))
    if found is None or found.rewards.any() or found.terminated.any() or found.truncated.any():
        return None
    # Without the headers, as these states may lack a seal.
    same = found.states[:, HEADER:].tobytes() == after[:, HEADER:].tobytes()
    same = same and found.obs[0].tobytes() == shown.tobytes()
    if not same or not {column.key for column in columns} <= set(found.infos.keys()):
        return None
    said = all(
        np.array_equal(found.infos[column.key][k], info[column.key])
        for k, info in enumerate(infos)
        for column in columns
    )
    return columns if said else None


def _played(env: GymEnv) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
    """Return states before and after some resets, their observations and infos."""
    leaf = env.layout.obs.leaves[0]
    before, infos = [], []
    shown = np.zeros((_RESETS, *leaf.shape), leaf.dtype)
    write = env.obs_writer.into((shown,))
    for k in range(_RESETS):
        before.append(state_of(env))
        # Vector envs pass empty options on with a mask.
        obs, info = env.gym_env.reset(options={} if k % 2 else None)
        write(k, obs)
        infos.append(info)
    # What a reset has led to is where the next one began.
    after = [*before[1:], state_of(env)]
    return np.concatenate(before), np.concatenate(after), shown, infos
