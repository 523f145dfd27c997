"""Kernel: an env's rules (step, reset, observe) as functions on a structured state row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from plangym_ext.native.compiled import compiled
from plangym_ext.states.families import load_named


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
