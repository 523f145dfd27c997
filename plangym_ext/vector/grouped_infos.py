"""Infos of rows that fall into groups with the same fields: those stepped, those reset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.core.infos import InfoColumn

#: Fields of `[m, ...]` values each, in the order of the info.
Columns = Sequence[tuple[InfoColumn, np.ndarray]]


class InfoGroup(NamedTuple):
    """m rows whose infos have the same fields.

    Attributes:
        rows: `[m]` int, which, in increasing order.
        columns: of their infos.
        final_obs: `[m, *obs]` what they showed before they were reset in the same step, or
            None if they were not.
        final_columns: of the infos before that.
    """

    rows: np.ndarray
    columns: Columns
    final_obs: np.ndarray | None = None
    final_columns: Columns = ()


class GroupedInfos:
    """The infos of k rows, put together in whichever form is wanted.

    Args:
        groups: of the rows; no row is in two of them.
    """

    def __init__(self, groups: Sequence[InfoGroup]) -> None:
        self._groups = [group for group in groups if len(group.rows)]

    def batched(self, num_envs: int, rows: Sequence[int]) -> dict[str, Any]:
        """What gymnasium's `VectorEnv._add_info` makes of the infos, one after another.

        Args:
            num_envs: n.
            rows: `[k]`, the number of each row among the n.
        """
        found: dict[str, Any] = {}
        for numbers, group in self._in_order(rows):
            if group.final_obs is not None:
                observations = _column(found, "final_obs", num_envs, np.dtype(object), ())
                for number, obs in zip(numbers.tolist(), group.final_obs, strict=True):
                    observations[number] = obs
                found["_final_obs"][numbers] = True
                inner = found.setdefault("final_info", {})
                found.setdefault("_final_info", np.zeros(num_envs, bool))[numbers] = True
                _add(inner, num_envs, numbers, group.final_columns)
            _add(found, num_envs, numbers, group.columns)
        return found

    def _in_order(self, rows: Sequence[int]) -> list[tuple[np.ndarray, InfoGroup]]:
        """Groups with their rows' numbers, that of the first row first.

        A key gets its place, and its array the type, from the first row that has it.
        """
        every = None if isinstance(rows, range) else np.asarray(rows)
        found = [(g.rows if every is None else every[g.rows], g) for g in self._groups]
        return sorted(found, key=lambda one: int(one[0].min())) if len(found) > 1 else found

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Row and info of each that has one, in order."""
        found = {
            row: info
            for group in self._groups
            for k, row in enumerate(group.rows.tolist())
            if (info := _info(group.columns, k))
        }
        return iter(sorted(found.items()))

    def finals(self) -> list[tuple[int, Any, dict[str, Any]]]:
        """Row, last observation and last info of rows that were reset in the same step."""
        return [
            (row, group.final_obs[k], _info(group.final_columns, k))
            for group in self._groups
            if group.final_obs is not None
            for k, row in enumerate(group.rows.tolist())
        ]


def _add(found: dict[str, Any], num_envs: int, numbers: np.ndarray, columns: Columns) -> None:
    for column, values in columns:
        if len(numbers) == num_envs:  # they are the whole column
            found[column.key] = values.astype(column.dtype, copy=False)
            found[f"_{column.key}"] = np.ones(num_envs, bool)
            continue
        into = _column(found, column.key, num_envs, np.dtype(column.dtype), column.shape)
        into[numbers] = values
        found[f"_{column.key}"][numbers] = True


def _column(
    found: dict[str, Any], key: str, num_envs: int, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> np.ndarray:
    """The array of a key, which is made with its mask if there is none yet."""
    if key not in found:
        empty = None if dtype.kind == "O" else 0
        found[key] = np.full((num_envs, *shape), empty, dtype)
        found[f"_{key}"] = np.zeros(num_envs, bool)
    array: np.ndarray = found[key]
    return array


def _info(columns: Columns, k: int) -> dict[str, Any]:
    """The info of one row, its values of the types that the env gives."""
    return {column.key: _value(column, values[k]) for column, values in columns}


def _value(column: InfoColumn, value: Any) -> Any:
    return value.copy() if column.kind is np.ndarray else column.kind(value)
