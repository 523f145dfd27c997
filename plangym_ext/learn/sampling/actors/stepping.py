"""EnvSteps: one step of a vector env, with results written into the fragment arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import leaves, mapped
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.core.masks import MASK
from plangym_ext.learn.sampling.actors.columns import Columns
from plangym_ext.learn.sampling.actors.infos import GAME_OVER, missing_info
from plangym_ext.learn.sampling.actors.venv_rows import VenvRows

Ndarray = npt.NDArray[Any]


class Stepped(NamedTuple):
    """Results of a step beside the arrays: infos and endings.

    Attributes:
        rows: `[k]` int, the rows that were stepped; None for all.
        infos: of these rows, as gymnasium's vector envs give them.
    """

    rows: Ndarray | None
    infos: dict[str, Any]

    def where(self, chosen: Ndarray) -> Ndarray:
        """Return `[m]`, at which entries of the infos the chosen rows are; all were stepped."""
        # The rows are ascending.
        return chosen if self.rows is None else np.searchsorted(self.rows, chosen)


class EnvSteps:
    """Steps envs, with results written directly to the columns.

    Args:
        venv: the envs.
        columns: of their rows.
        layout: of the observations.
        infos: names of the infos that are kept.
        told: names of those that the table of episodes has.
    """

    def __init__(
        self,
        venv: VenvRows,
        columns: Columns,
        layout: SpaceLayout,
        infos: tuple[str, ...],
        told: tuple[str, ...],
    ) -> None:
        self._venv, self._columns, self._layout, self._names = venv, columns, layout, infos
        self._rows: Ndarray | None = None
        #: By name, which rows had an info in the last step.
        self._told = {f"_{name}": np.zeros(columns.num_rows, bool) for name in infos}
        # Where one is kept, all are asked for: an error names those that are there.
        wanted = None if infos or told else (GAME_OVER, MASK)
        self._outs = [venv.step_out(self._out(t), wanted) for t in range(columns.num_steps)]

    def _out(self, t: int) -> dict[str, Any]:
        """Return where the results of step t belong."""
        columns = self._columns
        found = {
            # One row further: what step t shows is what action t + 1 answers to.
            "obs": columns.obs[t + 1],
            "rewards": columns.earned[t],
            "terminateds": columns.terminated[t],
            "truncateds": columns.truncated[t],
            "final_obs": columns.final_obs[t],
        }
        if self._names:
            found["infos"] = dict(zip(self._names, columns.env_info[t], strict=True)) | self._told
        return found

    def begin(self, t: int, rows: Ndarray | None) -> None:
        """Begin step t, of some rows or, for None, of all."""
        self._rows = rows
        actions, venv = self._columns.action[t], self._venv
        if rows is None:
            venv.step_async(actions, None, self._outs[t])
        elif len(rows):
            venv.step_async(mapped(lambda leaf: leaf[rows], actions), rows, self._some(t, rows))

    def _some(self, t: int, rows: Ndarray) -> Any:
        """Return arrays for the infos of some rows, which lie apart in the columns."""
        kept = zip(self._names, self._columns.env_info[t], strict=True)
        # Some rows of a column are no array in one piece that workers could write to.
        self._infos = {
            name: np.zeros((len(rows), *leaf.shape[1:]), leaf.dtype) for name, leaf in kept
        }
        told = {name: flags[: len(rows)] for name, flags in self._told.items()}
        return {"infos": self._infos | told} if self._names else None

    def finish(self, t: int) -> Stepped:
        """Wait for step t, whose results are then in the columns.

        Raises:
            InvalidObservation: no env has given an info that is to be kept.
        """
        rows = self._rows
        if rows is not None and not len(rows):
            return Stepped(rows, {})
        obs, *results, infos = self._venv.step_wait()
        for name, flags in self._told.items():
            # No row at all had it: a name that is misspelt would else be zeros without a word.
            if not flags.any():
                raise missing_info(name[1:], infos.get("final_info", infos), "env_info")
        stepped = Stepped(rows, infos)
        if rows is not None:
            self._write(t, rows, obs, results, stepped)
        return stepped

    def _write(self, t: int, rows: Ndarray, obs: Any, results: Any, stepped: Stepped) -> None:
        """Write what came of some rows."""
        columns, infos = self._columns, stepped.infos
        columns.earned[t, rows], columns.terminated[t, rows], columns.truncated[t, rows] = results
        for target, part in zip(leaves(columns.obs[t + 1]), self._layout.split(obs), strict=True):
            target[rows] = part
        for target, values in zip(columns.env_info[t], self._infos.values(), strict=True):
            target[rows] = values
        # Entries count the rows that were stepped, of which `rows` says where they are.
        for entry in np.flatnonzero(infos["_final_obs"]) if "final_obs" in infos else ():
            parts = self._layout.split(infos["final_obs"][entry])
            for target, part in zip(leaves(columns.final_obs[t]), parts, strict=True):
                target[rows[entry]] = part
