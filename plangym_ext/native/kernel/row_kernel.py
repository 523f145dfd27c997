"""The compiled row loop of the kernel backend: restore, step, observe, store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.native.compiled import compiled
from plangym_ext.native.row_checks import are_within, seal_rows
from plangym_ext.states.families import load_named

#: Flags of the loop: seal the rows that it writes; reset rows that end; and, for vector envs, check
#: the actions and give each row one step, or none if it is reset first.
SEAL, AUTORESET, LIVE = 1, 2, 4
#: What the loop returns for a row or an action that the env itself has to judge.
BAD_ROW, BAD_ACTION = -1, -2


class RowArrays(NamedTuple):
    """Arrays of one batch for the compiled loop, which writes all except the inputs.

    `elapsed` and `state` are views of `rows`. An env without a TimeLimit has `elapsed`
    of its own, which is not read.
    """

    rows: np.ndarray  # [B, S / 8] uint64, where the rows end
    state: np.ndarray  # [B] structured, or [B, n] uint8: the simulator's bytes
    elapsed: np.ndarray  # [B] int64, steps of the episode
    actions: np.ndarray  # input, [B, H, *act]
    dt: np.ndarray  # input, [B] int32; not read with `LIVE`
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
    low: np.ndarray  # [size of an action], in its dtype: least values
    high: np.ndarray  # likewise, most


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
        begin: Any, batch: Any, rules: Any, params: Any, first: int, stop: int, how: int
    ) -> int:
        """Run rows `first` to `stop - 1` of a batch.

        Args:
            begin: `[B, S / 8]` uint64, where they begin; may be `batch.rows` itself.
            batch: the `RowArrays`.
            rules: the `RowRules`.
            params: of the kernel.
            first: first row.
            stop: the row after the last one.
            how: a sum of `SEAL`, `AUTORESET` and `LIVE`.

        Returns:
            How many rows have ended; `BAD_ACTION`, and nothing was run; or `BAD_ROW`: the kernel
            refuses a state, or a row came to a number that may be invalid.
        """
        horizon = batch.actions.shape[1]
        size = horizon * rules.low.size
        flat = batch.actions.reshape(-1)[first * size : stop * size]
        if how & LIVE and not are_within(flat, rules.low, rules.high):
            return BAD_ACTION
        # All of them first, which takes a third of the time that it would take row by row.
        rows, source = batch.rows.reshape(-1), begin.reshape(-1)
        for word in range(first * batch.rows.shape[1], stop * batch.rows.shape[1]):
            rows[word] = source[word]
        ended = 0
        for row in range(first, stop):
            state = batch.state[row]
            if not check(state, params):
                return BAD_ROW
            info = batch.info[row]
            terminated = truncated = False
            taken = env_steps = 0
            most = horizon
            held = rules.frameskip if how & LIVE else batch.dt[row] * rules.frameskip
            if batch.reset_first[row]:
                reset(state, params)
                reset_info(state, params, info)
                batch.elapsed[row] = 0
                if how & LIVE:
                    most = 0
            while taken < most and not terminated and not truncated:
                action = batch.actions[row, taken]
                # No zero is added to the first reward: it would turn -0 into 0.
                total = 0.0
                for repeat in range(held):
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
            ended += terminated or truncated
            if how & AUTORESET and (terminated or truncated):
                observe(state, params, batch.final_obs[row])
                # As a batch of one: of other dimensions it would be compiled once more.
                if not all_finite(batch.final_obs[row : row + 1]):
                    return BAD_ROW
                reset(state, params)
                reset_info(state, params, batch.reset_info[row])
                batch.elapsed[row] = 0
            observe(state, params, batch.obs[row])
        if not (all_finite(batch.obs[first:stop]) and all_finite(batch.rewards[first:stop])):
            return BAD_ROW
        if how & SEAL:
            seal_rows(batch.rows[first:stop], rules.header, rules.weights)
        return ended

    return loop


# Kernel -----------------------------------------------------------------------


@compiled
def always(state: Any, params: Any) -> bool:  # noqa: ARG001 - as every kernel's `check`
    """Return True: any bytes are a valid state."""
    return True


@compiled
def silent(state: Any, params: Any, info: Any) -> None:
    """Write no reset info."""


@dataclass(frozen=True)
class Kernel:
    """An env's rules as functions over a structured state record, with their parameters.

    The functions are plain Python that `numba.njit` can compile; what they call is
    marked with `compiled`. They write only to what they are given.

    Attributes:
        state: dtype of the simulator's bytes in a state row, exactly as its codec or its
            `get_state` writes them: a structured dtype without padding, or
            `np.dtype(("u1", (n,)))` for plain bytes. Generators are `pcg64.RNG`.
        step: `step(state, params, action, info) -> (reward, terminated, truncated)`;
            moves `state` by one env step. `action` is a number, or the `[*act]` array
            of a Box; `info` is a record of the numeric info fields, all to be written.
        reset: `reset(state, params)`; begins an episode as `env.reset()` does.
        observe: `observe(state, params, obs)`; writes the observation of a state that
            `step` has left to `obs`, an array shaped as the space, `[1]` for a number.
        check: `check(state, params) -> bool`: whether it is safe to step a state. Only
            rows with a right checksum are asked about, so it is the last line of
            defence against indices that lie outside.
        reset_info: `reset_info(state, params, info)`; writes the infos that `env.reset()`
            returns to the fields of `info` that have their names. Without it, and with infos
            of a reset, vector envs reset rows on the env itself.
        params: a NamedTuple of numbers and arrays: the env's arguments. It never changes.
        info: dtype of the numeric info fields, in the order of the env's info dict.

    A function may be given as "module:name"; it is imported when it is compiled.
    """

    state: np.dtype[Any]
    step: Callable[..., Any] | str
    reset: Callable[..., Any] | str
    observe: Callable[..., Any] | str
    params: Any = ()
    info: np.dtype[Any] | None = None
    check: Callable[..., Any] | str = always
    reset_info: Callable[..., Any] | str = silent

    def functions(self) -> tuple[Callable[..., Any], ...]:
        """Return `(step, reset, observe, check, reset_info)`, imported."""
        given = (self.step, self.reset, self.observe, self.check, self.reset_info)
        return tuple(map(load_named, given))
