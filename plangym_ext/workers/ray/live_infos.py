"""What rows of a vector env say when they are reset: infos as columns beside those of steps."""

from __future__ import annotations

import numpy as np

from plangym_ext.core.gym_env import GymEnv
from plangym_ext.core.infos import InfoBatch, InfoColumn, InfoWriter
from plangym_ext.core.results import RowResults


def reset_columns(env: GymEnv) -> tuple[InfoColumn, ...] | None:
    """Return the infos of a reset, if they are numbers of the same types every time.

    Args:
        env: it was reset, and is left where it was.

    Returns:
        The fields, in the env's order; None if some have no column, or that of a step's info of
        the same name is of another type.
    """
    here = env.get_state()
    # Two, as one alone says nothing of whether types stay the same.
    infos = [env.reset()[2] for _ in range(2)]
    env.set_state(here)
    columns = InfoWriter(infos[0]).columns
    if any(not _fits(info, columns) for info in infos):
        return None
    of_steps = {column.key: column for column in env.info_writer.columns}
    if any(of_steps.get(column.key, column) != column for column in columns):
        return None
    return columns


def _fits(info: dict[str, object], columns: tuple[InfoColumn, ...]) -> bool:
    return InfoWriter(info).columns == columns and len(info) == len(columns)


def with_reset_infos(
    found: RowResults, resets: np.ndarray, columns: tuple[InfoColumn, ...]
) -> RowResults | None:
    """Return results whose rows that were reset have their infos in columns.

    Args:
        found: with these infos as the rows' own.
        resets: `[B]` bool.
        columns: of the infos of resets.

    Returns:
        The same results; None if a row has an info that fits no columns.
    """
    own = found.infos.own
    if any(not resets[row] or not _fits(info, columns) for row, info in own.items()):
        return None
    arrays = {key: found.infos[key] for key in found.infos.keys()}  # noqa: SIM118
    for column in columns:
        if column.key not in arrays:
            arrays[column.key] = np.zeros((len(resets), *column.shape), column.dtype)
        for row, info in own.items():
            arrays[column.key][row] = info[column.key]
    return found._replace(infos=InfoBatch(arrays, {}))
