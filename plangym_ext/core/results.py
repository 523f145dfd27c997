"""Result types of batch calls: the list of result fields and the named tuples.

`RESULT_FIELDS` is the one list of the arrays of a batch's results. The memory of a batch, what
`out` may name, and what travels from workers and actors follow from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.core.infos import InfoBatch

#: What an array of `out` for rewards may hold: batches of learners are float32, as networks are.
REWARDS = (np.dtype(np.float64), np.dtype(np.float32))


class ResultField(NamedTuple):
    """One array of a batch's results, with B rows.

    Attributes:
        name: in `RowResults`.
        shown: in what calls return, and in their `out`.
        stored: in the memory of a batch (`RowLayout`) and in `RowRequest.out`.
        axis: what a row consists of: "" one value, "S" the bytes of a state, "H" a value for
            each of its H actions.
        code: dtype, as numpy writes it: dtypes themselves are slow to compare.
        others: dtypes that an array of `out` may have instead.
    """

    name: str
    shown: str
    stored: str
    axis: str
    code: str
    others: tuple[np.dtype[Any], ...] = ()

    @property
    def dtypes(self) -> tuple[np.dtype[Any], ...]:
        """The dtypes allowed in `out`; first the backends' own."""
        return np.dtype(self.code), *self.others


#: Without observations and infos, whose arrays follow from the env's spaces. Rows write to them
#: in `core/row_loop.py`, in `native/kernel/row_kernel.py` and in `native/mujoco/rows.py`.
RESULT_FIELDS = (
    ResultField("states", "states", "states_out", "S", "|u1"),
    ResultField("rewards", "rewards", "rewards", "H", "<f8", REWARDS[1:]),
    ResultField("terminated", "terminateds", "terminated", "", "|b1"),
    ResultField("truncated", "truncateds", "truncated", "", "|b1"),
    ResultField("steps", "steps", "steps", "", "<i4"),
)


def shapes_by_axis(rows: tuple[int, ...], state_width: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of a field by its `axis`.

    Args:
        rows: `(B, H)`, or `(B,)` where a row has one reward without an axis of its own.
        state_width: S.
    """
    return {"": rows[:1], "H": rows, "S": (rows[0], state_width)}


class RowResets(NamedTuple):
    """Results of the resets within a step; arrays have B rows, unset for rows without a reset.

    Attributes:
        final_obs: what a row showed before it was reset, one array per leaf.
        infos: of the reset, columns by name.
    """

    final_obs: tuple[np.ndarray, ...]
    infos: Mapping[str, np.ndarray]


class RowResults(NamedTuple):
    """Outputs of B rows, as backends return them: first `RESULT_FIELDS`, in that order.

    Attributes:
        states: `[B, S]` uint8, where the rows ended.
        rewards: `[B, H]` float64, or the `[B]` array given for them if H is 1.
        terminated, truncated: `[B]` bool.
        steps: `[B]` int32, actions taken.
        obs: one `[B, ...]` array per leaf of the space.
        infos: of the last step of each row.
        resets: of rows that were reset in the step that ended them: states and obs are those
            of the reset. None if no row was.
    """

    states: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    steps: np.ndarray
    obs: tuple[np.ndarray, ...]
    infos: InfoBatch
    resets: RowResets | None = None


class Transition(NamedTuple):
    """One step. `reward` is summed over the steps taken."""

    obs: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class StateTransition(NamedTuple):
    """One step, with the `[S]` uint8 state after it."""

    state: np.ndarray
    obs: Any
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class Transitions(NamedTuple):
    """A batch of steps; fresh arrays that belong to the caller.

    obs `[B, *obs]` (nested as the space), rewards `[B]` float64, terminateds and
    truncateds `[B]` bool.
    """

    obs: Any
    rewards: np.ndarray
    terminateds: np.ndarray
    truncateds: np.ndarray
    infos: InfoBatch


class StateTransitions(NamedTuple):
    """A batch of steps with the states after them, `[B, S]` uint8."""

    states: np.ndarray
    obs: Any
    rewards: np.ndarray
    terminateds: np.ndarray
    truncateds: np.ndarray
    infos: InfoBatch


class Rollouts(NamedTuple):
    """A batch of action sequences played from states; fresh arrays.

    states `[B, S]` uint8 and obs `[B, *obs]` are those after the last action taken,
    rewards `[B, H]` float64 (zero after an ending), terminateds and truncateds `[B]`
    bool, steps `[B]` int32 the number of actions taken.
    """

    states: np.ndarray
    obs: Any
    rewards: np.ndarray
    terminateds: np.ndarray
    truncateds: np.ndarray
    steps: np.ndarray
    infos: InfoBatch
