"""GroupedInfos: infos as columns per group of rows, converted to gymnasium's format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.core.infos import InfoColumn
from plangym_ext.vector.results import StepResults

#: Fields of `[m, ...]` values each, in the order of the info.
Columns = Sequence[tuple[InfoColumn, np.ndarray]]


class InfoGroup(NamedTuple):
    """m rows whose infos have the same fields.

    Attributes:
        rows: `[m]` int, which, in increasing order.
        columns: of their infos.
        final_obs: `[m, *obs]` last observations of rows that were reset in the same step; None
            without such resets.
        final_columns: of the infos before that.
    """

    rows: np.ndarray
    columns: Columns
    final_obs: np.ndarray | None = None
    final_columns: Columns = ()


class GroupedInfos:
    """The infos of k rows, converted to any of three forms.

    Args:
        groups: of the rows; no row is in two of them.

    Attributes:
        groups: those that have rows.
    """

    def __init__(self, groups: Sequence[InfoGroup]) -> None:
        self.groups = [group for group in groups if len(group.rows)]

    def only(self, wanted: frozenset[str]) -> GroupedInfos:
        """Return the infos of these names alone, without final observations."""
        found = []
        for group in self.groups:
            columns = [pair for pair in group.columns if pair[0].key in wanted]
            finals = [pair for pair in group.final_columns if pair[0].key in wanted]
            if columns or finals:
                found.append(InfoGroup(group.rows, columns, None, finals))
        return GroupedInfos(found)

    def batched(self, num_envs: int, rows: Sequence[int]) -> dict[str, Any]:
        """Return the infos in the form of gymnasium's `VectorEnv._add_info`.

        Args:
            num_envs: n.
            rows: `[k]`, the number of each row among the n.
        """
        found: dict[str, Any] = {}
        for numbers, group in self._in_order(rows):
            # All rows in another order are not the whole column.
            whole = len(numbers) == num_envs and (
                isinstance(rows, range) or bool((numbers[1:] > numbers[:-1]).all())
            )
            if group.final_obs is not None:
                observations = _array_of(found, "final_obs", num_envs, np.dtype(object), ())
                for number, obs in zip(numbers.tolist(), group.final_obs, strict=True):
                    observations[number] = obs
                found["_final_obs"][numbers] = True
            if group.final_obs is not None or group.final_columns:
                inner = found.setdefault("final_info", {})
                found.setdefault("_final_info", np.zeros(num_envs, bool))[numbers] = True
                _add_columns(inner, num_envs, numbers, group.final_columns, whole=whole)
            _add_columns(found, num_envs, numbers, group.columns, whole=whole)
        return found

    def _in_order(self, rows: Sequence[int]) -> list[tuple[np.ndarray, InfoGroup]]:
        """Return groups with their rows' numbers, that of the first row first.

        A key gets its place, and its array the type, from the first row that has it.
        """
        every = None if isinstance(rows, range) else np.asarray(rows)
        found = [(g.rows if every is None else every[g.rows], g) for g in self.groups]
        return sorted(found, key=lambda one: int(one[0].min())) if len(found) > 1 else found

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the row and info of each that has one, in order."""
        found = {
            row: info
            for group in self.groups
            for k, row in enumerate(group.rows.tolist())
            if (info := _info(group.columns, k))
        }
        return iter(sorted(found.items()))

    def finals(self) -> list[tuple[int, Any, dict[str, Any]]]:
        """Return the row, last observation and last info of each row that the step reset."""
        return [
            (row, None if shown is None else shown[k], _info(group.final_columns, k))
            for group in self.groups
            if (shown := group.final_obs) is not None or group.final_columns
            for k, row in enumerate(group.rows.tolist())
        ]


def _add_columns(
    found: dict[str, Any], num_envs: int, numbers: np.ndarray, columns: Columns, *, whole: bool
) -> None:
    for column, values in columns:
        if whole:
            found[column.key] = values.astype(column.dtype, copy=False)
            found[f"_{column.key}"] = np.ones(num_envs, bool)
            continue
        into = _array_of(found, column.key, num_envs, np.dtype(column.dtype), column.shape)
        into[numbers] = values
        found[f"_{column.key}"][numbers] = True


def _array_of(
    found: dict[str, Any], key: str, num_envs: int, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> np.ndarray:
    """Return the array of a key, which is made with its mask if there is none yet."""
    if key not in found:
        # As gymnasium fills them: None where objects are missing, else 0.
        empty = None if dtype.kind == "O" else 0
        found[key] = np.full((num_envs, *shape), empty, dtype)
        found[f"_{key}"] = np.zeros(num_envs, bool)
    elif "O" not in (dtype.kind, found[key].dtype.kind):
        # Of the type that holds both, see `widen`.
        found[key] = found[key].astype(np.result_type(found[key], dtype), copy=False)
    array: np.ndarray = found[key]
    return array


def _info(columns: Columns, k: int) -> dict[str, Any]:
    """Return the info of one row, its values of the types that the env gives."""
    return {column.key: _value(column, values[k]) for column, values in columns}


def _value(column: InfoColumn, value: Any) -> Any:
    return value.copy() if column.kind is np.ndarray else column.kind(value)


def only_infos(results: StepResults, wanted: frozenset[str]) -> StepResults:
    """Return results with these infos only, and endings without observations."""
    infos = results.infos
    if isinstance(infos, GroupedInfos):
        return results._replace(infos=infos.only(wanted))
    chosen = [(k, only_named(info, wanted)) for k, info in infos]
    finals = [(k, None, only_named(info, wanted)) for k, _, info in results.finals]
    return results._replace(
        infos=[one for one in chosen if one[1]], finals=[one for one in finals if one[2]]
    )


def only_named(info: dict[str, Any], wanted: frozenset[str]) -> dict[str, Any]:
    """Return the named fields of an info."""
    return {name: value for name, value in info.items() if name in wanted}


def widen(infos: dict[str, Any], info: dict[str, Any]) -> None:
    """Make room in the arrays of all envs for values of one env that they would cut off.

    gymnasium gives an array the type of the first value: 12.5 beside a 0 would become 12.

    Args:
        infos: of all envs, as `VectorEnv._add_info` has made them; changed.
        info: of the env that is to be added.
    """
    for key, value in info.items():
        array = infos.get(key)
        # Not what tells which envs have said another key.
        if isinstance(key, str) and key[:1] == "_" and (key[1:] in infos or key[1:] in info):
            continue
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            continue
        kind = np.asarray(value).dtype
        wanted = np.result_type(array.dtype, kind) if kind.kind in "biuf" else np.dtype(object)
        if wanted != array.dtype:
            infos[key] = array.astype(wanted)
