"""Shares of a batch and their answers, the messages between driver and Ray actors.

Actors on the driver's machine read and write the batch's own page; to others the inputs of their
rows travel once, through Ray's object store, and results come back the same way.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.core.results import RESULT_FIELDS
from plangym_ext.core.row_request import ONE_STEP, RowRequest
from plangym_ext.core.rows import RowLayout
from plangym_ext.workers.remote_errors import ErrorReport


class Place(NamedTuple):
    """The page of a batch, for actors on the same machine.

    Attributes:
        block: pickle of the `SharedBlock`, which finds it by the driver's process.
        num_rows, horizon: of the whole batch.
        state_width: of its rows.
        infos, wants_states, unchecked, single: as of the batch's `RowRequest`.
        resets: whether it says which rows to reset first.
    """

    block: bytes
    num_rows: int
    horizon: int
    state_width: int
    infos: str
    wants_states: bool
    unchecked: str
    single: bool
    resets: bool

    @property
    def layout(self) -> tuple[Any, ...]:
        """What views of the page follow from."""
        return self[:5]


@dataclass(frozen=True)
class Share:
    """Rows `first` to `stop - 1` of a batch.

    Attributes:
        work: what to do with them, or the place where that lies.
    """

    first: int
    stop: int
    work: RowRequest | Place


class Answer(NamedTuple):
    """The result of a share.

    Attributes:
        seconds: that the actor took.
        fields: results that are not in the place, by `RowLayout`'s names, `[n, ...]` each.
        own: pickle of what rows have of their own: infos by row of the share.
        problem: what was raised instead.
    """

    seconds: float
    fields: dict[str, np.ndarray]
    own: bytes = b""
    problem: ErrorReport | None = None


def part_of(request: RowRequest, first: int, stop: int) -> RowRequest:
    """Return the request of rows `first` to `stop - 1`: views."""
    rows = slice(first, stop)
    resets = request.reset_first
    # Without `out` and slots, which are memory of the driver's.
    return RowRequest(
        tuple(action[rows] for action in request.actions),
        request.states[rows],
        request.dt if request.dt.ndim == 0 else request.dt[rows],
        None if resets is None else resets[rows],
        request.infos,
        request.wants_states,
        unchecked=request.unchecked,
    )


def arrived(request: RowRequest) -> RowRequest:
    """Return a request after its transfer; `ONE_STEP` is restored by identity."""
    single = request.dt.ndim == 0 and request.dt == 1
    return dataclasses.replace(request, dt=ONE_STEP) if single else request


def result_names(layout: RowLayout, infos: str) -> tuple[str, ...]:
    """Return `RowLayout`'s names of what results consist of."""
    columns = () if infos == "none" else range(len(layout.info))
    return (
        *(one.stored for one in RESULT_FIELDS),
        "env_steps",
        *(f"obs{k}" for k in range(len(layout.obs.leaves))),
        *(f"info{k}" for k in columns),
    )


def cut_rows(
    num_rows: int, rates: Sequence[float], loads: Sequence[float]
) -> list[tuple[int, int]]:
    """Cut rows so that all actors finish together, by their measured speeds.

    Args:
        num_rows: B.
        rates: what each actor runs, in rows a second; above 0.
        loads: rows that it has still to run.

    Returns:
        `(first, stop)` for each actor; empty for one that has enough to do.
    """
    rate, load = np.asarray(rates, np.float64), np.asarray(loads, np.float64)
    until = (num_rows + load.sum()) / rate.sum()
    # Those that have enough to do get nothing, so that the others' shares add up to too much.
    wanted = np.maximum(until * rate - load, 0.0)
    # Edges are rounded, not shares: no row is left out or run twice.
    edges = np.rint(np.cumsum(wanted) * (num_rows / max(wanted.sum(), 1e-300))).astype(int)
    return list(itertools.pairwise([0, *edges.tolist()]))
