"""Self-test of a kernel: the same rows on kernel and env, compared byte for byte.

A kernel is a second text of the same rules. Another version of the simulator, another
mathematics library or a slip of the pen would make it another env, so it is compared
before its first results are used.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.results import RESULT_FIELDS, RowResults
from plangym_ext.core.row_request import RowRequest
from plangym_ext.native.native_env import state_of

_ROUNDS, _ROWS, _HORIZON = 4, 6, 12
#: Env steps of the comparison: every other round takes two for each action.
_STEPS = _ROUNDS * _ROWS * _HORIZON * 3 // 2
#: Seconds of env steps that a comparison may take which was not asked for.
_MOST_SECONDS = 20.0
_GUARD = 0xA5


class GuardedMemory:
    """Allocates arrays with a guard row of known bytes before and after."""

    def __init__(self) -> None:
        self._guards: list[np.ndarray] = []

    def new(self, shape: int | tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return a new array of a shape and dtype, as `numpy.empty` does."""
        size, *rest = (shape,) if isinstance(shape, int) else shape
        whole = np.empty((size + 2, *rest), dtype)
        whole.view(np.uint8).reshape(-1)[...] = _GUARD
        self._guards += [whole[:1], whole[-1:]]
        return whole[1:-1]

    def intact(self) -> bool:
        """Return whether nothing was written outside the arrays."""
        return all((guard.view(np.uint8) == _GUARD).all() for guard in self._guards)


def first_difference(
    env: GymEnv,
    run: Callable[[RowRequest, GuardedMemory], RowResults | None],
    *,
    required: bool = True,
) -> str:
    """Return the first difference between an env and its kernel, or "" without any.

    Args:
        env: the reference; it is left where it was.
        run: runs a request on the kernel; None if the kernel refused a row.
        required: whether to compare however long it takes; else an env whose steps take too
            long differs.
    """
    seconds = (env.step_seconds or 0.0) * _STEPS
    if seconds > _MOST_SECONDS and not required:
        return (
            f"a step of the env takes {env.step_seconds:.2g} s, so to compare it with the kernel "
            f"would take {seconds:.0f} s"
        )
    space = copy.deepcopy(env.action_space)
    space.seed(0)
    states = np.repeat(state_of(env), _ROWS, axis=0)
    reset_first = np.ones(_ROWS, bool)
    for turn in range(_ROUNDS):
        actions = np.array([[space.sample() for _ in range(_HORIZON)] for _ in range(_ROWS)])
        actions = actions.astype(env.layout.action.leaves[0].dtype, copy=False)
        dt = np.array(1 + turn % 2, np.int32)
        request = RowRequest((actions,), states, dt, reset_first)
        memory = GuardedMemory()
        got = run(request, memory)
        if not memory.intact():
            return "the kernel wrote outside its row"
        try:
            want = env._run_rows(request)
        except Exception as error:  # such as an invalid value, which ends the comparison
            return "" if got is None else f"the env raises {error!r}, the kernel goes on,"
        if got is None and not _all_finite(want):
            return ""  # such rows are left to the env, here and later
        if got is None:
            return "the kernel refused a state that the env takes, or raised"
        field = _differs(want, got)
        if field:
            return f"{field} of row {_first_row(want, got)} differ in batch {turn + 1} of {_ROUNDS}"
        states, reset_first = want.states, want.terminated | want.truncated
    return ""


def _all_finite(results: RowResults) -> bool:
    return bool(np.isfinite(results.rewards).all() and np.isfinite(results.obs[0]).all())


def _fields(results: RowResults) -> dict[str, np.ndarray]:
    fields = {"observations": results.obs[0]}
    fields |= {one.name: getattr(results, one.name) for one in RESULT_FIELDS}
    fields |= {f"infos[{key!r}]": results.infos[key] for key in results.infos.keys()}  # noqa: SIM118
    # Last: what else differs says more.
    return fields | {"states": fields.pop("states")}


def _differs(want: RowResults, got: RowResults) -> str:
    mine, theirs = _fields(want), _fields(got)
    if mine.keys() != theirs.keys():
        return "info fields"
    if any(a.keys() != b.keys() for a, b in zip(want.infos, got.infos, strict=True)):
        return "info fields"
    return next((name for name in mine if mine[name].tobytes() != theirs[name].tobytes()), "")


def _first_row(want: RowResults, got: RowResults) -> int:
    mine, theirs = _fields(want), _fields(got)
    for row in range(len(want.terminated)):
        if any(mine[name][row].tobytes() != theirs[name][row].tobytes() for name in mine):
            return row
    return -1
