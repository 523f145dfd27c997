"""Ends of episodes: infos of final steps (Endings), and a limit of steps (Limit)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.items import item_rows
from plangym_ext.arrays.nested import leaves, mapped, rows_of, write_rows
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.core.masks import MASK
from plangym_ext.learn.sampling.actors.columns import (
    GAME_OVER,
    Columns,
    check_numbers,
    info_column,
    legal_actions,
    missing_info,
)
from plangym_ext.learn.sampling.actors.venv_rows import VenvRows
from plangym_ext.learn.sampling.noise import row_seeds
from plangym_ext.learn.sampling.options import SamplerOptions

Ndarray = npt.NDArray[Any]


class Endings:
    """Reads infos of the steps of an actor that end episodes.

    Under same-step autoreset the info of the step that ended an episode is in "final_info";
    beside it is that of the reset.

    Attributes:
        going_on: `[T, b]` bool, endings after which the game goes on: the info "game_over" of
            the step is false, as when a life is lost.
    """

    def __init__(self, columns: Columns, options: SamplerOptions) -> None:
        self._columns = columns
        self._fields = options.told
        self.going_on = np.zeros((columns.num_steps, columns.num_rows), bool)
        self._found: dict[str, list[Ndarray]] = {name: [] for name in self._fields}

    def clear(self) -> None:
        """Forget everything: a new fragment begins."""
        self.going_on[:] = False
        for parts in self._found.values():
            parts.clear()

    def needs(self, stepped: Stepped) -> bool:
        """Return whether the endings of a step need infos."""
        return bool(self._fields) or "final_info" in stepped.infos

    def add(self, t: int, rows: Ndarray, stepped: Stepped, cut: Ndarray | None) -> None:
        """Read the infos of rows that ended in step t.

        Args:
            t: the step.
            rows: `[k]`, in which an episode ended.
            stepped: what is left of the step.
            cut: `[b]` bool, rows whose episode was cut by the sampler: their infos are no final
                ones. None: no row's was.
        """
        finals = stepped.infos.get("final_info", {})
        told, known = info_column(finals, GAME_OVER)
        if told is None and not self._fields:
            return
        # Infos have the rows that were stepped alone.
        entries, over = stepped.where(rows), np.ones(len(rows), bool)
        if told is not None:
            # A row that says nothing of it has ended its game.
            over = told[entries].astype(bool) | ~known[entries]
            self.going_on[t, rows] = ~over
        # Where the game goes on no episode ends for the table, so its fields are not missed.
        entries = entries[over]
        cut = np.zeros(len(entries), bool) if cut is None else cut[rows[over]]
        for name in self._fields:
            parts = [
                _values(infos, name, entries[which])
                for infos, which in ((finals, ~cut), (stepped.infos, cut))
                if which.any()
            ]
            if parts:
                # Back to the order of rows: those that were cut came last.
                order = np.argsort(np.argsort(cut, kind="stable"), kind="stable")
                self._found[name].append(np.concatenate(parts)[order])

    def fields(self, count: int) -> dict[str, Ndarray]:
        """Return the columns of the episodes that ended in this fragment, `[E]` each."""
        found = {
            name: np.concatenate(parts) if parts else np.empty(0)
            for name, parts in self._found.items()
        }
        assert all(len(column) == count for column in found.values())
        return found


def _values(infos: Any, name: str, entries: Ndarray) -> Ndarray:
    """Return the numbers of a field in some entries of infos, all of which must have it."""
    values, known = info_column(infos, name)
    if values is None or not known[entries].all():
        raise missing_info(name, infos, "episode_fields")
    check_numbers(name, values, "episode_fields")
    found: Ndarray = values[entries]
    return found


def games_going_on(infos: Any, ended: Ndarray) -> Ndarray:
    """Return `[k]` bool, the endings of a life that do not end the game.

    Args:
        infos: of a step of k rows.
        ended: `[k]` bool.
    """
    over, known = info_column(infos.get("final_info", {}), GAME_OVER)
    return np.zeros_like(ended) if over is None else known & ~over.astype(bool)


class Limit:
    """Truncates the episodes of an actor at `SamplerOptions.max_steps`, and resets their envs.

    Args:
        venv: the envs.
        columns: of their rows.
        options: of the sampler, with `max_steps`.
        numbers: of the rows among all, by which resets are seeded.
    """

    def __init__(
        self, venv: VenvRows, columns: Columns, options: SamplerOptions, numbers: range
    ) -> None:
        self._venv, self._columns = venv, columns
        assert options.max_steps is not None
        self._most, self._seed = options.max_steps, options.seed
        self._numbers = np.array(numbers)
        self._lengths = np.zeros(columns.num_rows, np.int64)

    def begin(self, lengths: Ndarray) -> None:
        """Begin a fragment; `lengths` `[b]` are the steps of the episodes in progress."""
        self._lengths[:] = lengths

    def cut(self, t: int, stepped: Stepped, before: npt.NDArray[np.uint64]) -> Ndarray:
        """Truncate the episodes that are too long after step t.

        Args:
            t: the step, whose results are in the columns.
            stepped: what is left of it.
            before: `[b]`, steps that each row had taken before it, ever.

        Returns:
            `[b]` bool, the rows in which an episode was cut.
        """
        columns = self._columns
        self._lengths[slice(None) if stepped.rows is None else stepped.rows] += 1
        ended = columns.terminated[t] | columns.truncated[t]
        found: Ndarray = (self._lengths >= self._most) & ~ended
        (rows,) = found.nonzero()
        if len(rows):
            columns.truncated[t, rows] = True
            write_rows(columns.final_obs[t], rows, rows_of(columns.obs[t + 1], rows))
            self._reset(t, rows, before)
        return found

    def _reset(self, t: int, rows: Ndarray, before: npt.NDArray[np.uint64]) -> None:
        """Begin the next episodes of some rows."""
        columns, space = self._columns, self._venv.single_action_space
        # By row and step: no other row, and no earlier episode, begins with this seed.
        seeds = row_seeds(self._seed, self._numbers[rows], before[rows] + np.uint64(1))
        obs, infos = self._venv.reset_rows(rows, seeds)
        write_rows(columns.obs[t + 1], rows, obs)
        if columns.legal is not None:
            told = legal_actions(infos, space, len(rows))
            columns.legal[t + 1, rows] = True if told is None else told

    def leave(self, t: int, going_on: Ndarray) -> None:
        """Restart the step count of rows whose game ended with step t."""
        columns = self._columns
        self._lengths[(columns.terminated[t] | columns.truncated[t]) & ~going_on] = 0


# EnvSteps ---------------------------------------------------------------------


class Stepped(NamedTuple):
    """Results of a step beside the arrays: infos and endings.

    Attributes:
        rows: `[k]` int, the rows that were stepped; None for all.
        infos: of these rows, as gymnasium's vector envs give them.
    """

    rows: Ndarray | None
    infos: dict[str, Any]

    def where(self, chosen: Ndarray) -> Ndarray:
        """Return `[m]`, positions of the chosen rows in the infos; all were stepped."""
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
        actions, venv = self._columns.action[t], self._venv
        if rows is None and not venv.writes:
            rows = np.arange(self._columns.num_rows)
        self._rows = rows
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


class ItemSteps(EnvSteps):
    """`EnvSteps` for observations with items, which have no array of a fixed size."""

    def _out(self, t: int) -> dict[str, Any]:
        return {n: part for n, part in super()._out(t).items() if n not in ("obs", "final_obs")}

    def _write(self, t: int, rows: Ndarray, obs: Any, results: Any, stepped: Stepped) -> None:
        space, infos = self._venv.single_observation_space, stepped.infos
        finals = np.flatnonzero(infos["_final_obs"]) if "final_obs" in infos else ()
        for entry in finals:
            one = item_rows(space, infos["final_obs"][entry], single=True)
            write_rows(self._columns.final_obs[t], rows[[entry]], one)
        left = {name: part for name, part in infos.items() if name != "final_obs"}
        super()._write(t, rows, obs, results, stepped._replace(infos=left))
