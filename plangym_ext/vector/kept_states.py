"""KeptStates: committed row states, with rollback of failed or interrupted calls.

    reach --> keep      the call has happened
      '-----> forget    it failed, or was interrupted: rows are where they were

An interrupt may come at any line. So all that belongs to rows is one object, which is replaced by
one assignment, and nothing that it holds is ever written to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from plangym_ext.core.backend_env import LiveStepper
from plangym_ext.core.infos import InfoBatch, InfoColumn
from plangym_ext.core.results import RowResets
from plangym_ext.states.envelope import as_wide, stacked_rows
from plangym_ext.vector.infos import Columns, InfoGroup
from plangym_ext.vector.memory.step_out import StepOut
from plangym_ext.vector.results import VectorResetNeeded
from plangym_ext.vector.shown import ObsBuffer


class Kept(NamedTuple):
    """All rows at one moment.

    Attributes:
        states: `[n, S]` uint8, without seals.
        fresh: `[n]` bool, rows that were never reset.
        shown: `[n, *obs]`, their observations.
        note: of the vector env.
        seeds: of each row's last seeded reset, by row; -1 for one that is not known.
    """

    states: np.ndarray
    fresh: np.ndarray
    shown: np.ndarray
    note: Any
    seeds: dict[int, int]


class KeptStates:
    """States of n rows with commit and rollback; see the module.

    Args:
        num_rows: n.
        width: S, bytes of a state; more once a state is wider.
        space: of one row's observations, an array.

    Attributes:
        now: the rows after the last call that was kept.
        reached: after the present call, which is not kept yet; None for none.
        none_fresh: the array of rows that were never reset, if it was found to name none.
    """

    def __init__(self, num_rows: int, width: int, space: spaces.Space[Any]) -> None:
        self._obs = ObsBuffer(space, num_rows)
        shown = self._obs.leaves(slice(None))[0].copy()
        states, fresh = np.zeros((num_rows, width), np.uint8), np.ones(num_rows, bool)
        self.now = Kept(states, fresh, shown, None, {})
        self.reached: Kept | None = None
        #: Seeds that the present call gives.
        self._seeded: dict[int, int] = {}
        #: The observations that are in the buffer.
        self._in_buffer: np.ndarray | None = shown
        self.none_fresh: np.ndarray | None = None

    @property
    def obs(self) -> ObsBuffer:
        """Observations of the rows, after the present call if it has written them."""
        shown = (self.reached or self.now).shown
        if shown is not self._in_buffer:
            self._in_buffer = None  # whatever an interrupt leaves of the copy
            self._obs.put_batch(slice(None), shown)
            self._in_buffer = shown
        return self._obs

    def seed(self, seeds: dict[int, int]) -> None:
        """Note the seeds that the call gives to rows; -1 for one that is not known."""
        self._seeded = self._seeded | seeds

    def reach(self, rows: Sequence[int], states: np.ndarray, obs: np.ndarray) -> None:
        """Record where a call leads k rows: `[k, S]` states, `[k, *obs]`, which are copied."""
        whole, now = isinstance(rows, range), self.now
        shown = (obs if whole else now.shown).astype(now.shown.dtype)  # a copy
        if not whole:
            states, shown[rows] = _replaced(now.states, rows, states), obs
        self.reached = Kept(states, now.fresh, shown, None, {})

    def reach_each(
        self, rows: Sequence[int], states: Sequence[np.ndarray], shown: Sequence[Any] | None
    ) -> None:
        """Record the new states of rows moved one by one, and their observations.

        Args:
            rows: which; they have been reset, or have come to a state.
            states: `[S]` of each; widths may differ.
            shown: observation of each; None leaves them.
        """
        kept = self.now.shown
        if shown is not None:
            kept = kept.copy()
            put = ObsBuffer(self._obs.space, len(kept), (kept,)).put
            for number, obs in zip(rows, shown, strict=True):
                put(number, obs)
        found = _replaced(self.now.states, rows, stacked_rows(states))
        self.reached = Kept(found, self.now.fresh, kept, None, {})
        self.reach_reset(rows)

    def reach_reset(self, rows: Sequence[int]) -> None:
        """Note that the call has reset rows."""
        assert self.reached is not None
        fresh = self.reached.fresh.copy()
        fresh[rows] = False
        self.reached = self.reached._replace(fresh=fresh)

    def keep(self, note: Any) -> None:
        """Commit the call, together with `note`."""
        states, fresh, shown, _, _ = self.reached or self.now
        seeds = self.now.seeds | self._seeded if self._seeded else self.now.seeds
        # From here on, and not before, the call has happened.
        self.now = Kept(states, fresh, shown, note, seeds)
        self.reached, self._seeded = None, {}

    def forget(self) -> None:
        """Drop what is left of a call that failed or was interrupted."""
        self.reached, self._seeded = None, {}

    def check_begun(self, rows: Sequence[int]) -> None:
        """Refuse to step rows that were never reset.

        Raises:
            VectorResetNeeded: one was not.
        """
        fresh = self.now.fresh
        if fresh[list(rows)].any():
            raise VectorResetNeeded(
                f"step: sub-envs {np.flatnonzero(fresh).tolist()} were never reset. Call reset "
                "first."
            )
        if not fresh.any():
            self.none_fresh = fresh


def _replaced(kept: np.ndarray, rows: Sequence[int], states: np.ndarray) -> np.ndarray:
    """Return states of all rows with those of some rows replaced, as wide as the widest."""
    found = as_wide(kept, states.shape[1])
    found = found.copy() if found is kept else found
    found[list(rows)] = as_wide(states, found.shape[1])
    return found


# NativeResults: results of a native backend in the vector env's format --------


#: Bytes under which results are copied to `out`: to have them written there takes longer.
_SMALL = 1 << 16


#: Of the arguments of `step_live` those that follow from an `out`: none without one.
ALL_FRESH: dict[str, Any] = {}


class NativeResults:
    """Converts one env's native results to those of a vector env.

    Args:
        env: whose; its `reset_columns` are known after its first resets.
        num_rows: n, most rows of a call.
    """

    def __init__(self, env: LiveStepper, num_rows: int) -> None:
        self._env, self._numbers = env, np.arange(num_rows)
        self._columns: tuple[InfoColumn, ...] = env.plan_env.info_writer.columns
        #: That of the marks of invalid values, if they are wanted.
        self._marks = env.plan_env.layout.info[len(self._columns) :]

    def use_of(self, out: StepOut, *, with_obs: bool) -> dict[str, Any]:
        """Return the arguments of `step_live` for an `out`, computed once.

        Args:
            out: of a step.
            with_obs: whether native code has observations of the dtype that `out` holds.

        Returns:
            `out`, arrays that native code writes to itself; `infos`, "none", if none is wanted.
        """
        found: dict[str, Any] | None = out.layout
        if found is not None:
            return found
        fields = out.arrays.fields
        names = {"obs0": "obs0", "terminated": "terminateds", "truncated": "truncateds"}
        if not with_obs:
            del names["obs0"]
        arrays = {ours: fields[name] for ours, name in names.items() if name in fields}
        small = sum(array.nbytes for array in arrays.values()) < _SMALL
        found = {} if small else {"out": arrays}
        if not self._are_wanted(out):
            found["infos"] = "none"
        if self._env.reset_columns is not None:  # else not all infos are known yet
            out.layout = found
        return found

    def _are_wanted(self, out: StepOut) -> bool:
        """Return whether any info is asked for; marks of invalid values always are."""
        on_reset = self._env.reset_columns
        if on_reset is None:
            return True
        told = {column.key for column in (*self._columns, *on_reset)}
        named = out.wanted is None or not told.isdisjoint(out.wanted)
        return named or bool(self._marks) or out.arrays.has_infos

    def groups(self, infos: InfoBatch, resets: np.ndarray) -> list[InfoGroup]:
        """Return the infos of rows that were stepped, or reset instead."""
        marks, on_reset = self._marks, self._env.reset_columns or ()
        if not self._columns and not on_reset and not marks:
            return []
        if not resets.any():
            everyone = self._numbers[: len(resets)]
            return [InfoGroup(everyone, [(c, infos[c.key]) for c in (*self._columns, *marks)])]
        stepped, reset = np.flatnonzero(~resets), np.flatnonzero(resets)
        return [
            InfoGroup(stepped, _columns((*self._columns, *marks), infos, stepped)),
            InfoGroup(reset, _columns((*on_reset, *marks), infos, reset)),
        ]

    def groups_of_resets(
        self, infos: InfoBatch, resets: RowResets, over: np.ndarray, none: bool
    ) -> list[InfoGroup]:
        """Return the infos of all rows, of which some were reset in the step that ended them.

        Args:
            infos: of the step.
            resets: of those that were reset.
            over: `[k]` bool, which these are.
            none: whether there are none of the step.
        """
        (ended,) = over.nonzero()  # np.flatnonzero takes twice as long
        stepped = *self._columns, *self._marks
        if none:
            return [InfoGroup(ended, (), resets.final_obs[0][ended])]
        group = InfoGroup(
            ended,
            [
                *_columns(self._env.reset_columns or (), resets.infos, ended),
                # The last observations of episodes are checked, too.
                *_columns(self._marks, infos, ended),
            ],
            resets.final_obs[0][ended],
            _columns(self._columns, infos, ended),
        )
        if not stepped:
            return [group]
        others = np.flatnonzero(~over)
        return [InfoGroup(others, _columns(stepped, infos, others)), group]


def _columns(
    columns: Sequence[InfoColumn], infos: InfoBatch | Mapping[str, np.ndarray], rows: np.ndarray
) -> Columns:
    return [(column, infos[column.key][rows]) for column in columns]
