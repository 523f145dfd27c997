"""RowActor: runs shares of batches on a backend in a Ray actor; messages with the driver.

An actor's process does little itself: rows run in its backend's workers or native threads. So
a row that crashes or hangs there is found, named and run again there, and costs no actor.
"""

from __future__ import annotations

import dataclasses
import itertools
import pickle
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.arrays.storage import SharedBlock
from plangym_ext.core.infos import InfoBatch
from plangym_ext.core.results import RESULT_FIELDS, RowResults
from plangym_ext.core.row_request import ONE_STEP, RowRequest
from plangym_ext.core.rows import RowBatch, RowLayout
from plangym_ext.errors import PoisonState, StorageError, WorkerDied, WorkerTimeout
from plangym_ext.states.part import StateTooWide
from plangym_ext.workers.ray.cluster import node_here
from plangym_ext.workers.remote_errors import ErrorReport, pickled

_ROW = re.compile(r"\brow (\d+)")
#: Batches whose views are kept.
_MAX_VIEWS = 16


class RowActor:
    """Service of an actor: runs shares of batches on one backend.

    Args:
        make: makes the backend.
        node: of the cluster, that the driver is on.
        block: pickle of a `SharedBlock` of the driver, to see whether it can be reached.
    """

    def __init__(self, make: Callable[[], Any], node: str, block: bytes) -> None:
        self._env = make()
        # Blocks are found by the driver's process id, which is another's on other nodes.
        self._shares_memory = node == node_here() and _reaches(block)
        self._views: OrderedDict[tuple[Any, ...], tuple[SharedBlock, RowBatch]] = OrderedDict()

    def description(self) -> dict[str, Any]:
        """Return the backend's description for the driver."""
        return {
            "identity": self._env.envelope.identity,
            "backend": self._env.backend,
            "shares_memory": self._shares_memory,
        }

    def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method: `run`."""
        return getattr(self, name)(*args, **kwargs)

    def close(self) -> None:
        """End the backend's workers."""
        self._views.clear()
        self._env.close()

    def run(self, share: Share) -> Answer:
        """Run the rows of a share; exceptions are part of the answer."""
        began = time.perf_counter()
        try:
            fields, own = self._run(share)
        except StateTooWide as error:
            return Answer(time.perf_counter() - began, {}, excess=error.excess)
        except (Exception, SystemExit) as error:  # any error of the env belongs to the caller
            problem = ErrorReport.of(_of_batch(error, share.first))
            return Answer(time.perf_counter() - began, {}, problem=problem)
        return Answer(time.perf_counter() - began, fields, pickled(own) if own else b"")

    def _run(self, share: Share) -> tuple[dict[str, np.ndarray], Mapping[int, Any]]:
        """Run rows; return the fields that are not in the place, and infos by row of the share."""
        place, width = share.work, share.state_width
        if isinstance(place, RowRequest):
            request = arrived(place)
            found = self._played(request, width)
            return self._fields(found, request.infos), found.infos.own
        batch, rows = self._batch(place), slice(share.first, share.stop)
        out = {name: batch.field(name)[rows] for name in result_names(batch.layout, place.infos)}
        found = self._played(_placed(batch, place, rows, out), width)
        left = {}
        for name, value in self._fields(found, place.infos).items():
            view = out[name]
            if value.dtype.hasobject or (name == "states_out" and value.shape != view.shape):
                left[name] = value  # narrower than the batch's
            elif not np.may_share_memory(value, view):
                view[...] = value.reshape(view.shape)
        return left, found.infos.own

    def _fields(self, found: RowResults, infos: str) -> dict[str, np.ndarray]:
        """Return the arrays of results by `RowLayout`'s names."""
        layout = self._env.layout
        values = [getattr(found, one.name) for one in RESULT_FIELDS]
        values += [found.infos["n_step"], *found.obs]
        if infos != "none":
            values += [found.infos[column.key] for column in layout.info]
        return dict(zip(result_names(layout, infos), values, strict=True))

    def _batch(self, place: Place) -> RowBatch:
        """Return views of a batch's page, and keep them."""
        kept = self._views.pop(place.layout, None)
        if kept is None:
            block: SharedBlock = pickle.loads(place.block)
            layout = dataclasses.replace(self._env.layout, state_width=place.state_width)
            memory = block.ndarray((block.nbytes,), np.uint8)
            batch = RowBatch(layout, place.num_rows, place.horizon, memory, infos=place.infos)
            kept = block, batch  # a block that is forgotten is not known by its arrays any more
        # At the end again: what was used longest ago is let go of first.
        self._views[place.layout] = kept
        while len(self._views) > _MAX_VIEWS:
            self._views.popitem(last=False)
        return kept[1]

    # Rows -----------------------------------------------------------------------

    def _played(self, request: RowRequest, width: int) -> RowResults:
        """Run a request on the backend; rows whose `dt` is 0 are reset, and not stepped."""
        if request.unchecked:
            states, unchecked = self._env._batch_states(request.states, request.unchecked)
            request = dataclasses.replace(request, states=states, unchecked=unchecked)
        if self._env.state_width < width:
            self._env.widen(width)
        try:
            resets = request.dt.ndim and not request.dt.all()
            found = self._with_resets(request) if resets else self._env._run(request)
        except (ValueError, StateTooWide) as error:
            excess = self._env.state_width - width + getattr(error, "excess", 0)
            if excess <= 0:
                raise
            raise StateTooWide(excess) from None
        if self._env.state_width > width:
            raise StateTooWide(self._env.state_width - width)
        return found

    def _with_resets(self, request: RowRequest) -> RowResults:
        """Step rows; those whose `dt` is 0 are reset instead, and their info is their own."""
        (stepped,) = request.dt.nonzero()
        env, layout = self._env.plan_env, self._env.layout
        batch = RowBatch(layout, request.num_rows, 1, infos=request.infos)
        own: dict[int, Any] = {}
        if len(stepped):
            found = self._env._run(
                RowRequest(
                    tuple(action[stepped] for action in request.actions),
                    request.states[stepped],
                    request.dt[stepped],
                    infos=request.infos,
                    unchecked=request.unchecked,
                )
            )
            for name, value in self._fields(found, request.infos).items():
                batch.field(name)[stepped] = value
            own = {int(stepped[k]): info for k, info in found.infos.own.items()}
        write = env.obs_writer.into(batch.obs)
        for row in np.flatnonzero(request.dt == 0):
            env.set_state(request.states[row])
            batch.states_out[row], obs, own[int(row)] = env.reset()
            write(row, obs)
        results = batch.results()
        columns = {key: results.infos[key] for key in results.infos.keys()}  # noqa: SIM118
        return results._replace(infos=InfoBatch(columns, own))


def _placed(
    batch: RowBatch, place: Place, rows: slice, out: Mapping[str, np.ndarray]
) -> RowRequest:
    """Return the request of some rows of a page, whose results are written there too."""
    given = {one.stored: out[one.stored] for one in RESULT_FIELDS}
    given |= {name: view for name, view in out.items() if name.startswith("obs")}
    # Backends know one reward a row by its own shape.
    given["rewards"] = out["rewards"][:, 0] if place.horizon == 1 else out["rewards"]
    return RowRequest(
        tuple(action[rows] for action in batch.actions),
        batch.states_in[rows],
        ONE_STEP if place.single else batch.dt[rows],
        batch.reset_first[rows] if place.resets else None,
        place.infos,
        place.wants_states,
        {name: view for name, view in given.items() if not view.dtype.hasobject},
        unchecked=place.unchecked,
    )


def _reaches(block: bytes) -> bool:
    """Return whether memory of the driver can be mapped here: it runs on the same machine."""
    try:
        pickle.loads(block).close()
    except (StorageError, OSError):
        return False
    return True


def _of_batch(error: BaseException, first: int) -> BaseException:
    """Return the error with rows that are numbered as in the batch, not as in the share."""
    if isinstance(error, PoisonState):
        error.row += first

    def shifted(text: str) -> str:
        return _ROW.sub(lambda found: f"row {int(found[1]) + first}", text)

    if hasattr(error, "__notes__"):
        error.__notes__ = [shifted(note) for note in error.__notes__]
    if isinstance(error, WorkerDied | WorkerTimeout) and error.args:
        error.args = (shifted(str(error.args[0])), *error.args[1:])
    return error


# Actors on the driver's machine read and write the batch's own page; to others the inputs of their
# rows travel once, through Ray's object store, and results come back the same way.


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
        """The layout that views of the page follow."""
        return self[:5]


@dataclass(frozen=True)
class Share:
    """Rows `first` to `stop - 1` of a batch.

    Attributes:
        state_width: of the batch's rows.
        work: what to do with them, or the place where that lies.
    """

    first: int
    stop: int
    state_width: int
    work: RowRequest | Place


class Answer(NamedTuple):
    """The result of a share.

    Attributes:
        seconds: that the actor took.
        fields: results that are not in the place, by `RowLayout`'s names, `[n, ...]` each.
        own: pickle of what rows have of their own: infos by row of the share.
        problem: what was raised instead.
        excess: bytes that states need more than the batch's rows have; then nothing is kept.
    """

    seconds: float
    fields: dict[str, np.ndarray]
    own: bytes = b""
    problem: ErrorReport | None = None
    excess: int = 0


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
    """Return `RowLayout`'s names of the result arrays."""
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
