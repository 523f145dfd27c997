"""The compiled row loop of the kernel backend: restore, step, observe, store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.native.compiled import compiled
from plangym_ext.native.seals import seal_rows


class RowArrays(NamedTuple):
    """One batch, as the compiled loop sees it; every array is written but the inputs.

    `elapsed` and `state` are views of `rows`. An env without a TimeLimit has `elapsed`
    of its own, which is not read.
    """

    rows: np.ndarray  # [B, S / 8] uint64, the state rows; stepped in place
    state: np.ndarray  # [B] structured, or [B, n] uint8: the simulator's bytes
    elapsed: np.ndarray  # [B] int64, steps of the episode
    actions: np.ndarray  # input, [B, H, *act]
    dt: np.ndarray  # input, [B] int32; 0 with H = 1 for rows that take no step
    reset_first: np.ndarray  # input, [B] bool
    obs: np.ndarray  # [B, *obs], or [B, 1] for numbers
    rewards: np.ndarray  # [B, H] float64
    terminated: np.ndarray  # [B] bool
    truncated: np.ndarray  # [B] bool
    steps: np.ndarray  # [B] int32, actions taken
    env_steps: np.ndarray  # [B] int32
    info: np.ndarray  # [B] structured
    final_obs: np.ndarray  # as obs, written in rows that are reset as they end
    reset_info: np.ndarray  # as info, likewise


class RowRules(NamedTuple):
    """Constants of all batches of an env."""

    limit: int  # of the TimeLimit; 0 for none
    frameskip: int
    header: np.ndarray  # [6] uint64, checksum 0
    weights: np.ndarray  # [S / 8] uint64


@compiled
def all_finite(values: Any) -> bool:
    """Return whether no value is infinite or not a number."""
    odd = 0
    for value in values.flat:  # without a way out, so that it runs on whole vectors
        odd += not np.isfinite(value)
    return odd == 0


def make_loop(
    step: Callable[..., Any],
    reset: Callable[..., Any],
    observe: Callable[..., Any],
    check: Callable[..., Any],
    reset_info: Callable[..., Any],
) -> Callable[..., Any]:
    """Return the loop around a kernel's functions, ready to be compiled."""

    def loop(
        batch: Any, rules: Any, params: Any, first: int, stop: int, seal: bool, autoreset: bool
    ) -> int:
        """Run rows `first` to `stop - 1` in place; with `autoreset`, reset those that end.

        Returns:
            -1, or a row that the env itself has to judge, with those about it: the kernel
            refuses its state, or one came to a number that may be invalid.
        """
        horizon = batch.actions.shape[1]
        for row in range(first, stop):
            state = batch.state[row]
            if not check(state, params):
                return row
            info = batch.info[row]
            if batch.reset_first[row]:
                reset(state, params)
                reset_info(state, params, info)
                batch.elapsed[row] = 0
            terminated = truncated = False
            taken = env_steps = 0
            while taken < horizon and not terminated and not truncated:
                action = batch.actions[row, taken]
                # No zero is added to the first reward: it would turn -0 into 0.
                total = 0.0
                for repeat in range(batch.dt[row] * rules.frameskip):
                    reward, terminated, truncated = step(state, params, action, info)
                    total = total + reward if repeat > 0 else reward * 1.0
                    env_steps += 1
                    batch.elapsed[row] += 1
                    if rules.limit > 0 and batch.elapsed[row] >= rules.limit:
                        truncated = True
                    if terminated or truncated:
                        break
                batch.rewards[row, taken] = total
                taken += 1
            for untaken in range(taken, horizon):
                batch.rewards[row, untaken] = 0.0
            batch.terminated[row], batch.truncated[row] = terminated, truncated
            batch.steps[row], batch.env_steps[row] = taken, env_steps
            if autoreset and (terminated or truncated):
                observe(state, params, batch.final_obs[row])
                # As a batch of one: of other dimensions it would be compiled once more.
                if not all_finite(batch.final_obs[row : row + 1]):
                    return row
                reset(state, params)
                reset_info(state, params, batch.reset_info[row])
                batch.elapsed[row] = 0
            observe(state, params, batch.obs[row])
        if not (all_finite(batch.obs[first:stop]) and all_finite(batch.rewards[first:stop])):
            return first
        if seal:
            seal_rows(batch.rows[first:stop], rules.header, rules.weights)
        return -1

    return loop
