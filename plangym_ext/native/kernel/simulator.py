"""KernelSimulator: a kernel's step functions for other compiled loops, such as tree search."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.native.compiled import SharingThreads, build, compiled_inline, type_of
from plangym_ext.native.kernel.row_kernel import Kernel, RowRules, all_finite
from plangym_ext.native.kernel.row_memory import RowMemory
from plangym_ext.native.row_checks import seal_rows


class Rows(NamedTuple):
    """State rows as a kernel sees them: views of one array, and counts of steps."""

    words: np.ndarray  # [M, S / 8] uint64
    state: np.ndarray  # [M] structured, or [M, n] uint8: the simulator's bytes
    elapsed: np.ndarray  # [M] int64, steps of the episode


class Context(NamedTuple):
    """Constants of all rows, and memory for a step's infos and observation.

    Each thread has a lane of its own.
    """

    rules: RowRules
    params: Any  # the kernel's
    info: np.ndarray  # [lanes] structured
    obs: np.ndarray  # [lanes, *obs], or [lanes, 1] for numbers


class Functions(NamedTuple):
    """Functions for a compiled loop; plain Python, and compiled as part of it.

    Attributes:
        check: `(context, rows, row) -> bool`, whether it is safe to step a row.
        copy: `(rows, row, others, other)`, copies a row to one of `others`.
        advance: `(context, rows, row, action, lane) -> (reward, terminated, truncated)`,
            one control step in place. The row is not sealed.
        seal: `(context, rows, row)`, makes it a row that any env takes.
        observe: `(context, rows, row, lane)`, writes what is seen to `context.obs[lane]`.
        can_observe: `(context, rows, row, lane) -> bool`, whether no number of its
            observation is infinite or not a number.
        mask: `(context, lane, out)`, writes to `out` `[A]` which actions the row that
            was last advanced allows; everything if the env does not say so.
        swaps: `(context, lane) -> bool`, whether the player who is to move in the row that
            was last advanced is not the one who moved; False if the env has one.
    """

    check: Callable[..., Any]
    copy: Callable[..., Any]
    advance: Callable[..., Any]
    seal: Callable[..., Any]
    observe: Callable[..., Any]
    can_observe: Callable[..., Any]
    mask: Callable[..., Any]
    swaps: Callable[..., Any]


class KernelSimulator:
    """A kernel env's rules for compiled loops of others; made by `KernelEnv.simulator`.

    Args:
        name: of the env, for the files of compiled loops.
        kernel: of the env, which has been compared with it.
        memory: how the env's rows lie.
        check: `(states, where)`, raises what the env raises at states `[B, S]` that are
            damaged or foreign.
        threads: that may share the trees of a search.
        num_players: of the env.

    Attributes:
        check, threads: the same.
        functions: what a loop calls.
        width: bytes of the rows that they take.
        has_masks: whether `functions.mask` says anything.
    """

    def __init__(
        self,
        name: str,
        kernel: Kernel,
        memory: RowMemory,
        check: Callable[[np.ndarray, str], Any],
        threads: SharingThreads,
        num_players: int = 1,
    ) -> None:
        self._name, self.check, self.threads = name, check, threads
        self._memory, self._params = memory, kernel.params
        self.width = memory.width
        self.has_masks = kernel.info is not None and "action_mask" in (kernel.info.names or ())
        is_float = memory.obs_dtype.kind == "f"
        step, _, observe, fits, _ = kernel.functions()
        self.functions = _functions(step, observe, fits, is_float, self.has_masks, num_players == 2)

    def rows(self, states: np.ndarray) -> Rows:
        """Return views of sealed states `[M, S]` uint8, M at least 2; they are stepped in place."""
        return Rows(*self._memory.views(states))

    def context(self, lanes: int) -> Context:
        """Return room for `lanes` threads."""
        info, obs = self._memory.scratch(lanes)
        return Context(self._memory.rules, self._params, info, obs)

    def build(self, make: Callable[..., Callable[..., Any]], example: tuple[Any, ...]) -> Any:
        """Compile the loop that `make(functions)` returns, or load it from disk.

        Args:
            make: a function of a module, which makes a closure of plain functions.
            example: arguments for the loop; it must only be called with such as have
                the same types and memory layouts.
        """
        key = (make, self.functions, str(tuple(map(type_of, example))))
        if key not in _built:
            loop = make(self.functions)
            _mark(loop, set())
            name = f"searches of {self._name}"
            _built[key] = build(name, loop, example)
        return _built[key]


#: Loops of this process.
_built: dict[Any, Any] = {}


def _mark(function: Callable[..., Any], seen: set[Any]) -> None:
    """Mark everything in nested closures for compilation."""
    for cell in function.__closure__ or ():
        inner = cell.cell_contents
        if isinstance(inner, types.FunctionType) and inner not in seen:
            seen.add(inner)
            compiled_inline(inner)
            _mark(inner, seen)


@functools.cache
def _functions(
    step: Callable[..., Any],
    observe: Callable[..., Any],
    check: Callable[..., Any],
    is_float: bool,
    has_masks: bool,
    two_players: bool,
) -> Functions:
    """Return the functions around those of one kernel; the same ones every time."""

    def check_row(context: Any, rows: Any, row: int) -> Any:
        return check(rows.state[row], context.params)

    def copy(rows: Any, row: int, others: Any, other: int) -> None:
        source, target = rows.words[row], others.words[other]
        for word in range(source.size):
            target[word] = source[word]

    def advance(
        context: Any, rows: Any, row: int, action: int, lane: int
    ) -> tuple[float, bool, bool]:
        # As in `row_kernel`, with dt = 1.
        rules = context.rules
        state, info = rows.state[row], context.info[lane]
        total, terminated, truncated = 0.0, False, False
        for repeat in range(rules.frameskip):
            reward, terminated, truncated = step(state, context.params, action, info)
            total = total + reward if repeat > 0 else reward * 1.0
            rows.elapsed[row] += 1
            if rules.limit > 0 and rows.elapsed[row] >= rules.limit:
                truncated = True
            if terminated or truncated:
                break
        return total, terminated, truncated

    def seal(context: Any, rows: Any, row: int) -> None:
        rules = context.rules
        seal_rows(rows.words[row : row + 1], rules.header, rules.weights)

    def observed(context: Any, rows: Any, row: int, lane: int) -> None:
        observe(rows.state[row], context.params, context.obs[lane])

    def float_obs_is_finite(context: Any, rows: Any, row: int, lane: int) -> Any:
        observe(rows.state[row], context.params, context.obs[lane])
        return all_finite(context.obs[lane : lane + 1])  # as `row_kernel` has it

    def whole_numbers_are_finite(context: Any, rows: Any, row: int, lane: int) -> bool:  # noqa: ARG001
        return True

    def mask_of(context: Any, lane: int, out: Any) -> None:
        found = context.info[lane]["action_mask"]
        for action in range(out.size):
            out[action] = found[action] != 0

    def other_player(context: Any, lane: int) -> Any:
        info = context.info[lane]
        return info["player"] != info["to_play"]

    def same_player(context: Any, lane: int) -> bool:  # noqa: ARG001 - as `other_player`
        return False

    def no_mask(context: Any, lane: int, out: Any) -> None:  # noqa: ARG001 - as `mask_of`
        for action in range(out.size):
            out[action] = True

    return Functions(
        check_row,
        copy,
        advance,
        seal,
        observed,
        float_obs_is_finite if is_float else whole_numbers_are_finite,
        mask_of if has_masks else no_mask,
        other_player if two_players else same_player,
    )
