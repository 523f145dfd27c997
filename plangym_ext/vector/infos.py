"""The infos of many envs as one dict of arrays with masks, as gymnasium's vector envs give them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.core.infos import InfoColumn
from plangym_ext.vector.results import StepResults

#: Adds one env's info to those of all: gymnasium's `VectorEnv._add_info`.
AddInfo = Callable[[dict[str, Any], dict[str, Any], int], dict[str, Any]]


def infos_of(
    rows: Sequence[int], results: StepResults, num_envs: int, add_info: AddInfo
) -> dict[str, Any]:
    """Return infos as `{key: [n, ...] array, "_key": [n] bool}`.

    Args:
        rows: `[k]`, the number of each row of the results among the n.
        results: with the infos.
        num_envs: n.
        add_info: what defines the result; it is asked unless a quicker way gives the same.
    """
    infos, finals = results.infos, results.finals
    if isinstance(infos, GroupedInfos):
        return infos.batched(num_envs, rows)
    if not infos and not finals:
        return {}
    by_env = {rows[k]: info for k, info in infos}
    # The usual step: every env says the same fields. To add them one env after another
    # takes longer and gives the same.
    if not finals and len(by_env) == num_envs > 1:
        columns = _columns(list(by_env.values()))
        if columns is not None:
            return columns
    ended = {rows[k]: (obs, info) for k, obs, info in finals}
    return _added(by_env, ended, add_info)


def _added(
    by_env: dict[int, dict[str, Any]],
    ended: dict[int, tuple[Any, dict[str, Any]]],
    add_info: AddInfo,
) -> dict[str, Any]:
    """Return infos, and observations and infos of envs that ended, added one after another."""
    batch: dict[str, Any] = {}
    # By number: which env comes first decides the dtype of a key's array.
    for env in sorted({*ended, *by_env}):
        if env in ended:
            batch = add_info(batch, _final(*ended[env]), env)
        batch = add_info(batch, by_env.get(env, {}), env)
    return batch


def _final(obs: Any, info: dict[str, Any]) -> dict[str, Any]:
    """Return the infos of an ending; its observation is left out if it is not wanted."""
    return {"final_info": info} if obs is None else {"final_obs": obs, "final_info": info}


def _columns(infos: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Return one column a key, if all infos have the same keys, and values of one kind for each."""
    first = infos[0]
    if any(info.keys() != first.keys() for info in infos):
        return None
    found: dict[str, Any] = {}
    for key in first:
        column = _column([info[key] for info in infos])
        # gymnasium has a form of its own for that key: an array of objects.
        if column is None or key == "final_obs":
            return None
        found[key] = column
        found[f"_{key}"] = np.ones(len(infos), bool)
    return found


def _column(values: list[Any]) -> Any:
    kind = type(values[0])
    # Exact types: a mix, say of bool and int, would be cast to one of them.
    if any(type(value) is not kind for value in values):
        return None
    if kind in (int, float, bool) or issubclass(kind, np.number):
        return np.array(values, dtype=kind)
    if kind is np.ndarray:
        shape, dtype = values[0].shape, values[0].dtype
        same = all(value.shape == shape and value.dtype == dtype for value in values)
        return np.stack(values) if same else None
    if kind is dict:
        return _columns(values) if values[0] else None
    return None


def some_infos(infos: dict[str, Any], rows: Sequence[int]) -> dict[str, Any]:
    """Return the infos of some envs, for a call that stepped only those."""
    picked = list(rows)
    return {
        key: some_infos(value, rows) if isinstance(value, dict) else value[picked]
        for key, value in infos.items()
    }


def only_infos(results: StepResults, wanted: frozenset[str]) -> StepResults:
    """Return results whose infos have only these names, and endings without observations."""
    infos = results.infos
    if isinstance(infos, GroupedInfos):
        return results._replace(infos=infos.only(wanted))
    chosen = [(k, only_named(info, wanted)) for k, info in infos]
    finals = [(k, None, only_named(info, wanted)) for k, _, info in results.finals]
    return results._replace(
        infos=[one for one in chosen if one[1]], finals=[one for one in finals if one[2]]
    )


def only_named(info: dict[str, Any], wanted: frozenset[str]) -> dict[str, Any]:
    """Return the fields of an info that have these names."""
    return {name: value for name, value in info.items() if name in wanted}


def listed_infos(num_rows: int, results: StepResults) -> list[dict[str, Any]]:
    """Return infos as one dict for each row, as its env gave it.

    A row that was reset in the same step has `final_obs` and `final_info` beside its own.
    """
    found: list[dict[str, Any]] = [{} for _ in range(num_rows)]
    for k, info in results.infos:
        found[k] = dict(info)
    finals = results.finals
    if isinstance(results.infos, GroupedInfos):
        finals = results.infos.finals()
    for k, obs, info in finals:
        found[k] |= _final(obs, info)
    return found


# Infos that come as columns ------------------------------------------------------------

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
        """Return what gymnasium's `VectorEnv._add_info` makes of the infos, one after another.

        Args:
            num_envs: n.
            rows: `[k]`, the number of each row among the n.
        """
        found: dict[str, Any] = {}
        for numbers, group in self._in_order(rows):
            if group.final_obs is not None:
                observations = _array_of(found, "final_obs", num_envs, np.dtype(object), ())
                for number, obs in zip(numbers.tolist(), group.final_obs, strict=True):
                    observations[number] = obs
                found["_final_obs"][numbers] = True
            if group.final_obs is not None or group.final_columns:
                inner = found.setdefault("final_info", {})
                found.setdefault("_final_info", np.zeros(num_envs, bool))[numbers] = True
                _add_columns(inner, num_envs, numbers, group.final_columns)
            _add_columns(found, num_envs, numbers, group.columns)
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
    found: dict[str, Any], num_envs: int, numbers: np.ndarray, columns: Columns
) -> None:
    for column, values in columns:
        if len(numbers) == num_envs:  # they are the whole column
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
    array: np.ndarray = found[key]
    return array


def _info(columns: Columns, k: int) -> dict[str, Any]:
    """Return the info of one row, its values of the types that the env gives."""
    return {column.key: _value(column, values[k]) for column, values in columns}


def _value(column: InfoColumn, value: Any) -> Any:
    return value.copy() if column.kind is np.ndarray else column.kind(value)
