"""RowLayout and RowBatch: memory layout of the inputs and outputs of one batch.

The same layout serves local and shared memory. Both sides of a process boundary
compute it from the same numbers, so only the block itself has to travel.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np

from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.core.infos import InfoBatch, InfoColumn
from plangym_ext.core.results import (
    RESULT_FIELDS,
    Rollouts,
    RowResults,
    StateTransitions,
    Transitions,
    shapes_by_axis,
)
from plangym_ext.core.row_request import RowRequest
from plangym_ext.states.envelope import as_wide

#: What is told of progress while no row is run.
NO_ROW = -1
_ALIGN = 64  # a cache line: rows of two workers never share one across fields


#: What a call returns.
Shown = TypeVar("Shown", Transitions, StateTransitions, Rollouts)


class _Reader(NamedTuple):
    """Reads the fields of a named tuple off results; the places of two that need more."""

    read: Callable[[RowResults], tuple[Any, ...]]
    rewards: int
    obs: int


@functools.cache
def _reader(shown: tuple[str, ...]) -> _Reader:
    """Return what reads these fields, as calls name them."""
    names = {one.shown: one.name for one in RESULT_FIELDS}
    read = operator.attrgetter(*(names.get(name, name) for name in shown))
    return _Reader(read, shown.index("rewards"), shown.index("obs"))


@dataclass(frozen=True)
class RowLayout:
    """Sizes and types of everything that one row of a batch holds.

    Attributes:
        obs: layout of the observation space.
        action: layout of the action space.
        state_width: bytes of a sealed state row.
        info: the numeric info fields.
    """

    obs: SpaceLayout
    action: SpaceLayout
    state_width: int
    info: tuple[InfoColumn, ...]

    def fields(self, num_rows: int, horizon: int) -> dict[str, tuple[tuple[int, ...], str]]:
        """Return the shape and dtype of every array of a batch, by name, in memory order."""
        b, h = num_rows, horizon
        found: dict[str, tuple[tuple[int, ...], str]] = {}
        for k, leaf in enumerate(self.action.leaves):
            found[f"action{k}"] = ((b, h, *leaf.shape), leaf.dtype.str)
        for k, leaf in enumerate(self.obs.leaves):
            found[f"obs{k}"] = ((b, *leaf.shape), leaf.dtype.str)
        for k, column in enumerate(self.info):
            found[f"info{k}"] = ((b, *column.shape), column.dtype)
        shapes = shapes_by_axis((b, h), self.state_width)
        for one in RESULT_FIELDS:
            found[one.stored] = shapes[one.axis], one.code
        found["states_in"] = ((b, self.state_width), "|u1")
        found["dt"] = found["env_steps"] = ((b,), "<i4")
        found["sources"] = found["targets"] = ((b,), "<i8")
        found["reset_first"] = found["done"] = ((b,), "|b1")
        return found

    def offsets(self, num_rows: int, horizon: int) -> tuple[dict[str, int], int]:
        """Return the byte offset of every array, and the size of the whole."""
        offsets, end = {}, 0
        for name, (shape, dtype) in self.fields(num_rows, horizon).items():
            offsets[name] = end
            # Objects have no place in the memory: see `RowBatch.own_objects`.
            size = 0 if dtype == "|O" else math.prod(shape) * np.dtype(dtype).itemsize
            end += -(-size // _ALIGN) * _ALIGN
        return offsets, max(end, _ALIGN)

    def shown(self, kind: type[Shown], found: RowResults) -> Shown:
        """Return results as a call does; `kind` is what it returns."""
        reader: _Reader = _reader(kind._fields)
        values: list[Any] = [*reader.read(found)]
        if kind is not Rollouts:
            values[reader.rewards] = found.rewards.reshape(-1)  # of one action a row
        values[reader.obs] = found.obs[0] if self.obs.is_flat else self.obs.join(found.obs)
        return kind._make(values)


@dataclass
class RowBatch:
    """Views of one batch over one piece of memory.

    Args:
        layout: of the env.
        num_rows: B.
        horizon: H, actions a row.
        memory: uint8 with at least `layout.offsets(B, H)[1]` bytes, or None for
            memory of its own.
        given: arrays that take the place of fields of the memory, by name; those of
            results have the field's shape, but for rewards, which may be `[B]` if H is 1.
            `states_in` may have any number of rows, of which `sources` tells.
        infos: which infos are stored: one of `row_request.INFOS`.

    Attributes:
        objects: those arrays of `obs` that hold Python objects.
        sources: `[B]` int64, the row of `states_in` at which each row begins; None
            stands for its own.
        targets: `[B]` int64, the row of `store` that each final state is copied to, or
            None.
        store: `[N, S]` uint8, or None.
        progress: the row that is being run or `NO_ROW`, in an int64 that others may watch.
        single: whether each row is one control step from its state, and none is reset first.

    `done[i]` is set last, when everything of row i is in place; a row with infos or objects
    of its own is never done by the memory alone.
    """

    layout: RowLayout
    num_rows: int
    horizon: int
    memory: np.ndarray | None = None
    given: Mapping[str, np.ndarray] = field(default_factory=dict)
    infos: str = "numeric"
    #: Infos of the rows that do not fit the columns; not part of the memory.
    own_infos: dict[int, dict[str, Any]] = field(default_factory=dict)
    #: What rows show that is no array, by row: one value for each leaf that holds objects.
    own_objects: dict[int, tuple[Any, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        offsets, size = self.layout.offsets(self.num_rows, self.horizon)
        if self.memory is None:
            self.memory = np.zeros(size, np.uint8)
        # States are read and written as one run of bytes.
        self.given = {
            name: array
            for name, array in self.given.items()
            if name != "states_out" or array.flags.c_contiguous
        }
        views = {}
        for name, (shape, dtype) in self.layout.fields(self.num_rows, self.horizon).items():
            if name in self.given:
                views[name] = self.given[name]
                if name == "states_out" and views[name].shape != shape:
                    raise outgrown(shape, views[name].shape)
            elif dtype == "|O":
                views[name] = np.empty(shape, object)
            else:
                views[name] = np.ndarray(shape, dtype, self.memory, offsets[name])
        # The memory has columns even if they are not returned: offsets do not depend on `infos`.
        keys = [] if self.infos == "none" else [column.key for column in self.layout.info]
        #: What results consist of: fields, of which the last are columns of infos.
        self._columns = (*keys, "n_step", "dt")
        returned = (
            *(one.stored for one in RESULT_FIELDS),
            *(f"obs{k}" for k in range(len(self.layout.obs.leaves))),
            *(f"info{k}" for k in range(len(keys))),
            *("env_steps", "dt"),
        )
        #: Name, shape, type and place of each: first those of which there is one.
        self._returned = [
            (name, views[name].shape, views[name].dtype, offsets[name]) for name in returned
        ]
        self.actions = tuple(views[f"action{k}"] for k in range(len(self.layout.action.leaves)))
        self.obs = tuple(views[f"obs{k}"] for k in range(len(self.layout.obs.leaves)))
        self.objects = tuple(array for array in self.obs if array.dtype.hasobject)
        self.info = tuple(views[f"info{k}"] for k in range(len(self.layout.info)))
        self.states_in, self.states_out = views["states_in"], views["states_out"]
        rewards = views["rewards"]
        # Rows are written as `[B, H]` even into the caller's `[B]`.
        self.rewards = rewards if rewards.ndim == 2 else rewards[:, None]
        self.dt, self.steps, self.env_steps = views["dt"], views["steps"], views["env_steps"]
        self.reset_first, self.done = views["reset_first"], views["done"]
        self.terminated, self.truncated = views["terminated"], views["truncated"]
        self._views = views
        self.sources: np.ndarray | None = None
        self.targets: np.ndarray | None = None
        self.store: np.ndarray | None = None
        self.progress = memoryview(bytearray(8)).cast("q")
        self.single = False

    def field(self, name: str) -> np.ndarray:
        """Return the array of a field, by `RowLayout`'s name for it."""
        return self._views[name]

    def load(self, request: RowRequest, *, states: bool = True) -> None:
        """Copy the inputs of all rows in and mark no row as done.

        Args:
            request: whose rows.
            states: whether its states are among them; False if the rows read them elsewhere.
        """
        self.single = request.single
        # Copied, never referred to: workers read them after the caller has its own array back.
        for mine, theirs in zip(self.actions, request.actions, strict=True):
            mine[...] = theirs
        if states:
            rows, width = request.states, self.layout.state_width
            self.states_in[...] = rows if rows.shape[1] == width else as_wide(rows, width)
        self.dt[...] = request.dt
        self.reset_first[...] = False if request.reset_first is None else request.reset_first
        self.done.fill(False)
        if self.own_infos or self.own_objects:
            self.drop_own()

    def drop_own(self) -> None:
        """Forget the previous batch's row results that are not arrays."""
        self.own_infos.clear()
        self.own_objects.clear()

    def keep_objects(self, rows: range) -> None:
        """Collect the rows' results that are not arrays, for transfer to another process."""
        for row in rows:
            self.own_objects[row] = tuple(array[row] for array in self.objects)

    def take_own(
        self, infos: dict[int, dict[str, Any]], objects: dict[int, tuple[Any, ...]]
    ) -> None:
        """Add the non-array results of rows that ran in another process."""
        self.own_infos.update(infos)
        self.own_objects.update(objects)
        for row, values in objects.items():
            for array, value in zip(self.objects, values, strict=True):
                array[row] = value

    def results(
        self,
        root: np.ndarray | None = None,
        *,
        copy: bool = False,
        given: Mapping[str, np.ndarray] | None = None,
    ) -> RowResults:
        """Return the results of all rows.

        Args:
            root: the same memory, of which the results are to be views; None for `memory`.
            copy: give arrays of their own rather than views.
            given: arrays to return instead, by field; those of the batch if None.
        """
        given = self.given if given is None else given
        fields: list[np.ndarray] = []
        for name, shape, dtype, offset in self._returned:
            if name in given:
                fields.append(given[name])
            # Anew, of the leased page: the batch's own views are of the same memory, but they do
            # not hold the lease.
            elif root is not None and not dtype.hasobject:
                fields.append(np.ndarray(shape, dtype, root, offset))
            else:
                fresh = copy or root is not None
                fields.append(self._views[name].copy() if fresh else self._views[name])
        first = len(RESULT_FIELDS)
        last = first + len(self.obs)
        columns = dict(zip(self._columns, fields[last:], strict=True))
        infos = InfoBatch(columns, self.own_infos)
        # By position, in the order of the list: names would cost a light batch a microsecond.
        return RowResults._make([*fields[:first], tuple(fields[first:last]), infos, None])


def outgrown(needed: tuple[int, ...], given: tuple[int, ...]) -> ValueError:
    """Return the error for an array given for states that turned out to need wider rows."""
    return ValueError(
        f"out: states must be {needed} uint8, for they have outgrown their rows; got {given}. "
        "Make them anew with env.state_width."
    )
