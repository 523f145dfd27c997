"""MujocoLive: vector-env steps on MuJoCo's threads, with some rows reset instead of stepped."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from plangym_ext.core.infos import InfoBatch
from plangym_ext.core.results import RESULT_FIELDS, RowResults
from plangym_ext.core.row_request import ONE_STEP, RowRequest
from plangym_ext.native.mujoco.resets import MujocoResets
from plangym_ext.native.mujoco.rows import MujocoRows


class MujocoLive:
    """Runs rows that are stepped once, or reset and not stepped.

    Args:
        rows: runs each kind.
        resets: draw what the resets begin with.
    """

    def __init__(self, rows: MujocoRows, resets: MujocoResets) -> None:
        self._rows, self._resets = rows, resets

    def run(
        self, actions: np.ndarray, states: np.ndarray, resets: np.ndarray, **how: Any
    ) -> RowResults | None:
        """Return the results of all rows; None if some are to be reset that only the env can reset.

        Args:
            actions: `[B, *act]`; those of rows that are reset are ignored.
            states: `[B, S]` uint8.
            resets: `[B]` bool, which rows are reset and take no step.
            **how: other fields of `RowRequest`.
        """
        request = RowRequest((actions[:, None],), states, ONE_STEP, **how)
        fresh = np.flatnonzero(resets)
        if not len(fresh):
            return self._rows.run(request)
        begun = self._reset(states[fresh])
        if begun is None or len(fresh) == request.num_rows:
            return begun
        stepped = np.flatnonzero(~resets)
        part = dataclasses.replace(
            request, actions=(request.actions[0][stepped],), states=states[stepped]
        )
        return _merged(request.num_rows, (stepped, self._rows.run(part)), (fresh, begun))

    def _reset(self, states: np.ndarray) -> RowResults | None:
        """Return the results of resets of rows `[k, S]`, which are written to."""
        if not self._resets.draws:
            return None
        fresh = self._resets.reset(states, np.ones(len(states), bool))
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
