"""Training targets (value, policy, Q) computed from episode records. Imports no torch.

Named as in Alpacka, where it has a name. Truncation is not termination: the value after a
truncation is the record's `final_value` or, where that is unknown, the last plan's value beyond its
reward.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.errors import InvalidSamples, UnknownName, suggestion
from plangym_ext.learn.records import EpisodeRecord
from plangym_ext.learn.returns.discounted import multistep, returns

Floats = npt.NDArray[np.float64]


def solved(record: EpisodeRecord, discount: float, n_steps: int) -> Floats:  # noqa: ARG001
    """Return `[T]` float64, fresh: 1 at every step of a solved episode, 0 of any other."""
    if "solved" not in record.attributes:
        raise InvalidSamples(
            f"targets: 'solved' needs records whose attributes say so; got "
            f"{sorted(record.attributes)}. Let the collector add attributes['solved']."
        )
    return np.full(record.length, float(record.attributes["solved"]))


def discounted_return(record: EpisodeRecord, discount: float, n_steps: int) -> Floats:  # noqa: ARG001
    """Return `[T]` float64, fresh: G_t = r_t + gamma G_{t+1}.

    After the last step comes 0 or, if the episode was cut, its value.
    """
    record, sides = of_one_side(record)
    tail = value_after_last(record, discount)
    # `[T, 1]`, as the functions of returns take `[T, B]`.
    rows = returns(record.rewards[:, None], _never(record), discount=discount, bootstrap=tail)
    found: Floats = rows[:, 0] * sides[:-1]
    return found


def root_value(record: EpisodeRecord, discount: float, n_steps: int) -> Floats:  # noqa: ARG001
    """Return `[T]` float64, the record's: the search's value, by its rollouts or evaluator."""
    return _root_values(record, "value")


def n_return(record: EpisodeRecord, discount: float, n_steps: int) -> Floats:
    """Return `[T]` float64, fresh: n rewards, then the search's value of the state after them."""
    record, sides = of_one_side(record)
    rows = multistep(
        record.rewards[:, None],
        _root_values(record, "n_return")[:, None],
        _never(record),
        discount=discount,
        n=n_steps,
        bootstrap=value_after_last(record, discount),
    )
    found: Floats = rows[:, 0] * sides[:-1]
    return found


def weights(record: EpisodeRecord) -> Floats:
    """Return `[T, A]` float64, the record's: visit shares, or Gumbel's improved policy."""
    return _known(record.policies, "weights", "weights")


def action_histogram(record: EpisodeRecord) -> Floats:
    """Return `[T, A]` float64, fresh: visits as shares, of planners that choose by them."""
    visits = _known(record.visits, "action_histogram", "visits").astype(np.float64)
    return visits / visits.sum(axis=1, keepdims=True)


def action_histogram_smooth(record: EpisodeRecord) -> Floats:
    """Return `[T, A]` float64, fresh: visits plus one as shares of the legal actions.

    No legal action has 0, and no row is 0 / 0.
    """
    # Before the mask: illegal actions stay at 0.
    visits = _known(record.visits, "action_histogram_smooth", "visits") + 1.0
    if record.legal is not None:
        visits = np.where(record.legal, visits, 0.0)
    return visits / visits.sum(axis=1, keepdims=True)


def qualities(record: EpisodeRecord) -> Floats:
    """Return `[T, A]` float64, the record's: the return of each action, NaN where unknown."""
    return _known(record.q, "qualities", "q")


#: Name -> function of (record, discount, n_steps) to `[T]` float64.
VALUE_TARGETS: Mapping[str, Callable[[EpisodeRecord, float, int], Floats]] = {
    "solved": solved,
    "return": lambda record, _, n_steps: discounted_return(record, 1.0, n_steps),
    "discounted_return": discounted_return,
    "value": root_value,
    "n_return": n_return,
}
#: Name -> function of record to `[T, A]` float64 that sums to 1. "action", what was
#: played, is there as well: it needs an action space, and algorithms know that.
POLICY_TARGETS: Mapping[str, Callable[[EpisodeRecord], Floats]] = {
    "weights": weights,
    "action_histogram": action_histogram,
    "action_histogram_smooth": action_histogram_smooth,
}
ACTION = "action"
QUALITIES = "qualities"


def of_one_side(record: EpisodeRecord) -> tuple[EpisodeRecord, Floats]:
    """Return the record with all rewards and values from the view of the first step's player.

    Returns:
        The record, and the sides `[T + 1]`: what follows from it, times these, is the mover's.
    """
    sides, last = record.sides, record.final_value
    if sides is None:
        return record, np.ones(record.length + 1)
    one = dataclasses.replace(
        record,
        rewards=record.rewards * sides[:-1],
        root_values=record.root_values * sides[:-1],
        final_value=None if last is None else last * float(sides[-1]),
        sides=None,
    )
    return one, sides


def value_after_last(record: EpisodeRecord, discount: float) -> float:
    """Return the value after the last step; 0 after a termination.

    A discount below 0 says that it is the other player's.
    """
    if record.terminated:
        return 0.0
    if record.final_value is not None:
        return float(record.final_value)
    last, reward = float(record.root_values[-1]), float(record.rewards[-1])
    if not math.isfinite(last):
        raise InvalidSamples(
            "targets: a truncated episode needs a value of its last state; its plans have none. "
            "Pass final_value to the record."
        )
    # The search's value of the last state is r + gamma V of what follows, solved for V.
    # With a discount of 0 nothing reads what follows.
    return (last - reward) / discount if discount else 0.0


def check_target(where: str, name: str | None, known: Mapping[str, Any] | tuple[str, ...]) -> None:
    """Refuse an unknown name of a target."""
    if name is not None and name not in known:
        raise UnknownName(
            f"{where} must be one of {', '.join(known)}, or None; "
            f"got {name!r}{suggestion(name, known)}."
        )


def _never(record: EpisodeRecord) -> npt.NDArray[np.bool_]:
    # The one ending is the last step's, and what follows it is given as the bootstrap.
    return np.zeros((record.length, 1), np.bool_)


def _root_values(record: EpisodeRecord, target: str) -> Floats:
    if not np.isfinite(record.root_values).all():
        raise InvalidSamples(
            f"targets: {target!r} needs a finite value of every plan; got "
            f"{record.root_values[:8]}. Take a planner that values states, or another target."
        )
    return record.root_values


def _known(rows: Any, target: str, field: str) -> Any:
    if rows is None:
        raise InvalidSamples(
            f"targets: {target!r} needs the plans' {field}; this record has none, since its "
            f"planner has none or does not choose by them. Take another planner, or another "
            f"target, such as 'weights'."
        )
    return rows
