"""MujocoLive: vector-env steps on MuJoCo's threads, with some rows reset instead of stepped."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from plangym_ext.core.infos import InfoBatch
from plangym_ext.core.results import RESULT_FIELDS, RowResults
from plangym_ext.core.row_request import RowRequest
from plangym_ext.native.mujoco.resets import MujocoResets
from plangym_ext.native.mujoco.rows import MujocoRows

_ONE_STEP = np.ones((), np.int32)


class MujocoLive:
    """Runs requests of one step whose rows are stepped, or reset and not stepped.

    Args:
        rows: runs each kind.
        resets: draw what the resets begin with.
    """

    def __init__(self, rows: MujocoRows, resets: MujocoResets) -> None:
        self._rows, self._resets = rows, resets

    def run(self, request: RowRequest) -> RowResults | None:
        """Return the results of all rows; None if some are to be reset that only the env can reset.

        Args:
            request: `dt` is 0 in the rows that are reset, else 1; it is changed.
        """
        assert request.reset_first is not None
        fresh = np.flatnonzero(request.reset_first)
        if not len(fresh):
            request.dt, request.reset_first = _ONE_STEP, None
            return self._rows.run(request)
        begun = self._reset(request, fresh)
        if begun is None or len(fresh) == request.num_rows:
            return begun
        stepped = np.flatnonzero(~request.reset_first)
        part = dataclasses.replace(
            request,
            actions=(request.actions[0][stepped],),
            states=request.states[stepped],
            dt=_ONE_STEP,
            reset_first=None,
        )
        return _merged(request.num_rows, (stepped, self._rows.run(part)), (fresh, begun))

    def _reset(self, request: RowRequest, rows: np.ndarray) -> RowResults | None:
        if not self._resets.draws:
            return None
        # A copy, as index arrays pick: the reset writes to it.
        states = request.states[rows]
        fresh = self._resets.reset(states, np.ones(len(rows), bool))
        assert fresh is not None
        return self._rows.begin(states, fresh)


def _merged(size: int, *parts: tuple[np.ndarray, RowResults]) -> RowResults:
    """Return the results of B rows from two parts of them; missing columns are 0."""

    def merged(field: str) -> np.ndarray:
        return _filled(size, [(rows, getattr(found, field)) for rows, found in parts])

    keys = dict.fromkeys(key for _, found in parts for key in found.infos.keys())  # noqa: SIM118
    columns = {
        key: _filled(
            size,
            [(rows, found.infos[key]) for rows, found in parts if key in found.infos.keys()],  # noqa: SIM118
        )
        for key in keys
    }
    obs = _filled(size, [(rows, found.obs[0]) for rows, found in parts])
    fields: dict[str, Any] = {one.name: merged(one.name) for one in RESULT_FIELDS}
    return RowResults(**fields, obs=(obs,), infos=InfoBatch(columns, {}))


def _filled(size: int, parts: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    _, first = parts[0]
    found = np.zeros((size, *first.shape[1:]), first.dtype)
    for rows, values in parts:
        found[rows] = values
    return found
