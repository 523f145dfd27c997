"""The infos of many envs as one dict of arrays with masks, as gymnasium's vector envs give them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

#: Adds one env's info to those of all: gymnasium's `VectorEnv._add_info`.
AddInfo = Callable[[dict[str, Any], dict[str, Any], int], dict[str, Any]]


def batched_infos(
    num_envs: int,
    infos: Sequence[tuple[int, dict[str, Any]]],
    finals: Sequence[tuple[int, Any, dict[str, Any]]],
    add_info: AddInfo,
) -> dict[str, Any]:
    """Infos as `{key: [n, ...] array, "_key": [n] bool}`.

    Args:
        num_envs: n.
        infos: info of each env that has one, by its number, in order.
        finals: number, last observation and last info of envs that were reset in the
            same step.
        add_info: what defines the result; it is asked unless a quicker way gives the same.
    """
    if not finals and len(infos) == num_envs > 1:
        columns = _columns([info for _, info in infos])
        if columns is not None:
            return columns
    batch: dict[str, Any] = {}
    ended = {env: (obs, info) for env, obs, info in finals}
    by_env = dict(infos)
    for env in sorted({*ended, *by_env}):
        if env in ended:
            obs, info = ended[env]
            batch = add_info(batch, {"final_obs": obs, "final_info": info}, env)
        batch = add_info(batch, by_env.get(env, {}), env)
    return batch


def _columns(infos: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """One column a key, if all infos have the same keys, and values of one kind for each."""
    first = infos[0]
    if any(info.keys() != first.keys() for info in infos):
        return None
    found: dict[str, Any] = {}
    for key in first:
        column = _column([info[key] for info in infos])
        if column is None or key == "final_obs":
            return None
        found[key] = column
        found[f"_{key}"] = np.ones(len(infos), bool)
    return found


def _column(values: list[Any]) -> Any:
    kind = type(values[0])
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
    """The infos of some envs, for a call that stepped only those."""
    picked = list(rows)
    return {
        key: some_infos(value, rows) if isinstance(value, dict) else value[picked]
        for key, value in infos.items()
    }


def listed_infos(
    num_envs: int,
    infos: Iterable[tuple[int, dict[str, Any]]],
    finals: Sequence[tuple[int, Any, dict[str, Any]]],
) -> list[dict[str, Any]]:
    """Infos as one dict for each env, as it gave it.

    An env that was reset in the same step has `final_obs` and `final_info` beside its own.
    """
    found: list[dict[str, Any]] = [{} for _ in range(num_envs)]
    for env, info in infos:
        found[env] = dict(info)
    for env, obs, info in finals:
        found[env] |= {"final_obs": obs, "final_info": info}
    return found
