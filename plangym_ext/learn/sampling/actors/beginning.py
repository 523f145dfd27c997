"""First episodes of an actor (seeded resets, random steps); rows that wait for a new episode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import leaves, mapped
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.core.files.state_set import StateSet
from plangym_ext.learn.agents.agent import RandomAgent
from plangym_ext.learn.agents.inputs import first_inputs
from plangym_ext.learn.sampling.actors.columns import Columns, info_column, legal_actions
from plangym_ext.learn.sampling.actors.endings import games_going_on
from plangym_ext.learn.sampling.actors.venv_rows import VenvRows
from plangym_ext.learn.sampling.episode_statistics import EpisodeSums
from plangym_ext.learn.sampling.noise import RowNoise, row_seeds
from plangym_ext.learn.sampling.options import SamplerOptions

#: Stream of the random numbers that decide what is played before sampling begins.
_STREAM = 1


def begin_episodes(
    venv: VenvRows,
    columns: Columns,
    rows: range,
    options: SamplerOptions,
    sums: EpisodeSums,
    steps: npt.NDArray[np.uint64],
    restarts: Restarts,
) -> npt.NDArray[Any] | None:
    """Reset every row by its own seed and play a random number of random steps.

    The last row of the columns then holds the inputs of the first action. Random steps count for
    the return and the length of the episodes that they begin.

    Args:
        venv: the envs.
        columns: of the rows.
        rows: their numbers.
        options: of the sampler.
        sums: of the episodes in progress.
        steps: `[b]`, those that were sampled before, if these are not the very first episodes.
        restarts: brings rows to stored states.

    Returns:
        `[b, A]` bool, which actions may be played first, where the envs say so.
    """
    space = venv.single_action_space
    shown, infos = venv.reset(row_seeds(options.seed, rows, steps))
    legal = legal_actions(infos, space, len(rows)) if options.action_mask else None
    _write(columns.obs[-1], slice(None), shown)
    # Row T: `begin_fragment` copies it to row 0 of the first fragment.
    columns.first[-1], columns.prev_reward[-1] = True, 0
    _write(columns.prev_action[-1], slice(None), mapped(np.zeros_like, columns.prev_action[-1]))
    sums.clear()
    # After the reset, which it replaces for the rows that begin from a stored state.
    restarts.begin_all(steps, legal)
    if not options.random_steps:
        return legal
    agent, noise = RandomAgent(space), RowNoise(options.seed, rows, stream=_STREAM)
    # A copy: `advance` counts on in place, and these steps count as none that were sampled.
    noise.move_to(steps.copy())
    # Of each row's own stream, 0 to `random_steps` alike: the rows are spread over their episodes.
    counts = np.floor(noise.uniform()[:, 0] * (options.random_steps + 1))
    for step in range(options.random_steps):
        live = np.flatnonzero(counts > step)
        if len(live) == 0:
            break
        noise.advance()
        inputs = first_inputs(columns.obs[-1], space, len(rows), noise=noise, legal=legal)
        action, _, _ = agent.step(inputs, None)
        infos = _random_step(venv, columns, sums, live, action)
        # The next episodes began by a reset, wherever these did.
        ended = columns.first[-1, live]
        restarts.leave(live[ended & ~games_going_on(infos, ended)])
        if legal is not None:
            told = legal_actions(infos, space, len(live))
            legal[live] = True if told is None else told
    return legal


def _random_step(
    venv: VenvRows, columns: Columns, sums: EpisodeSums, live: Any, action: Any
) -> dict[str, Any]:
    """Step some rows; their last row of the columns shows what came of it. Return their infos."""
    taken = mapped(lambda leaf: leaf[live], action)
    obs, reward, terminated, truncated, infos = venv.step(taken, live)
    ended = terminated | truncated
    _write(columns.obs[-1], live, obs)
    columns.first[-1, live] = ended
    columns.prev_reward[-1, live] = np.where(ended, 0, reward)
    _write(columns.prev_action[-1], live, taken)
    # What an episode begins with answers to no action: zeros, of the action's own dtype.
    _write(columns.prev_action[-1], live[ended], mapped(lambda leaf: leaf[:1] * 0, action))
    # As envs write them in a fragment, whose first step has this place.
    finals = infos.get("final_info", {})
    for name, array in sums.added.items():
        array[0] = 0
        for told, which in ((infos, ~ended), (finals, ended)):
            values, known = info_column(told, name)
            if values is not None:
                array[0, live[known & which]] = values[known & which]
    # Rows that are not live keep `valid` 0, so the sums pass over them.
    block = np.zeros((5, 1, columns.num_rows))
    found: list[Any] = [reward, terminated, truncated, True]
    for line, values in zip(block, found, strict=False):
        line[0, live] = values
    sums.add(block[0], *block[1:].astype(bool))
    return dict(infos)


def _write(nested: Any, rows: Any, values: Any) -> None:
    for target, source in zip(leaves(nested), leaves(values), strict=True):
        target[rows] = source


class Waiting:
    """The rows of an actor that wait.

    Args:
        columns: of the actor.
        sticky: whether waiting rows show the first observation of their next episode; else
            they show zeros. After the last step they show it in either case.
    """

    def __init__(self, columns: Columns, *, sticky: bool) -> None:
        self._columns, self._sticky = columns, sticky
        self._waits = np.zeros(columns.num_rows, bool)

    @property
    def stepped(self) -> npt.NDArray[Any] | None:
        """`[k]` rows that do not wait; None for all."""
        return np.flatnonzero(~self._waits) if self._waits.any() else None

    def begin(self) -> None:
        """Begin a fragment: no row waits."""
        self._waits[:] = False
        self._columns.valid[:] = True

    def add(self, t: int, rows: npt.NDArray[Any]) -> None:
        """Make rows wait that ended in step t, with the first observation of the next fragment."""
        columns = self._columns
        # Nothing is left to wait for: row T already shows what the next fragment begins with.
        if t + 1 == columns.num_steps:
            return
        self._waits[rows] = True
        columns.valid[t + 1 :, rows] = False
        # Row T keeps it, for `show` and for the next fragment.
        for shown, kept in zip(self._shown(t + 1), self._shown(columns.num_steps), strict=True):
            kept[rows] = shown[rows]

    def _shown(self, t: int) -> list[Any]:
        """Return the rows' inputs at t: leaves of the observation, and legal actions."""
        columns = self._columns
        legal = [] if columns.legal is None else [columns.legal[t]]
        return [*leaves(columns.obs[t]), *legal]

    def clear(self, t: int) -> None:
        """Write zeros for waiting rows in step t."""
        columns, waits = self._columns, self._waits
        columns.earned[t, waits] = 0
        columns.terminated[t, waits] = columns.truncated[t, waits] = False
        for leaf in (*leaves(columns.action[t]), *columns.agent_info[t], *columns.env_info[t]):
            leaf[waits] = 0

    def show(self, t: int) -> None:
        """Write the waiting rows' observations at t."""
        columns, waits = self._columns, self._waits
        last = t == columns.num_steps
        # Row T begins an episode of the next fragment, whatever was shown while waiting.
        columns.first[t, waits] = last or self._sticky
        columns.prev_reward[t, waits] = 0
        for leaf in leaves(columns.prev_action[t]):
            leaf[waits] = 0
        for leaf, kept in zip(self._shown(t), self._shown(columns.num_steps), strict=True):
            if not last:
                leaf[waits] = kept[waits] if self._sticky else 0


# Restarts: episodes of an actor that begin from stored states -----------------


Ndarray = npt.NDArray[Any]

#: Stream of the random numbers that decide where episodes begin.
STREAM = 2


class Restarts:
    """Draws the start states of episodes, and sets the envs to them.

    Args:
        venv: the envs, which have reset themselves when their episodes ended.
        columns: of these rows, in which what is seen in the states is written.
        states: what may be drawn; None: all episodes begin by a reset, and nothing is done.
        layout: of the observations.
        noise: of these rows, which nothing else draws from.

    Attributes:
        table: `[N]` float64, see `Starts.table`.
        start: `[b]` int64, index of the state that the episode in progress began from, -1 where
            it began by a reset; None without states.
        restored: how many episodes of this fragment began from a state.
    """

    def __init__(
        self,
        venv: VenvRows,
        columns: Columns,
        states: StateSet | None,
        layout: SpaceLayout,
        noise: RowNoise,
    ) -> None:
        self._venv, self._columns, self._states, self._noise = venv, columns, states, noise
        self.table: npt.NDArray[np.float64] = np.zeros(0)
        self.start: npt.NDArray[np.int64] | None = None
        self.restored = 0
        self._ended: list[Ndarray] = []
        if states is not None:
            self._leaves = [np.asarray(part) for part in layout.split(states.obs)]
            self.start = np.full(len(noise), -1, np.int64)

    def begin_fragment(self, table: npt.NDArray[np.float64] | None) -> None:
        """Drop the records of ended episodes.

        Args:
            table: that episodes begin by from now on; None: as before.
        """
        self._ended, self.restored = [], 0
        if table is not None:
            self.table = table

    def begin_all(self, steps: npt.NDArray[np.uint64], legal: Ndarray | None) -> None:
        """Draw the start states of all rows, which were just reset; see `add`.

        Args:
            steps: `[b]`, as for `add`.
            legal: `[b, A]` bool, what the rows may play; changed where one begins from a state.
        """
        if self.start is not None:
            self._begin(np.arange(len(self.start)), steps, self._columns.obs[-1], legal)

    def leave(self, rows: Ndarray) -> None:
        """Record that the episodes of some rows began with a reset."""
        if self.start is not None:
            self.start[rows] = -1

    def add(self, t: int, going_on: Ndarray, steps: Ndarray) -> None:
        """Record the episodes that ended in step t, and begin the next ones.

        Args:
            t: the step.
            going_on: `[b]` bool, those whose game goes on all the same, without another beginning.
            steps: `[b]` uint64, those that each row had taken before.
        """
        if self.start is None:
            return
        columns = self._columns
        (rows,) = ((columns.terminated[t] | columns.truncated[t]) & ~going_on).nonzero()
        if not len(rows):
            return
        # Before the next ones are drawn, which write over it.
        self._ended.append(self.start[rows])
        legal = None if columns.legal is None else columns.legal[t + 1]
        self.restored += self._begin(rows, steps + np.uint64(1), columns.obs[t + 1], legal)

    def _begin(
        self, rows: Ndarray, steps: npt.NDArray[np.uint64], obs: Any, legal: Ndarray | None
    ) -> int:
        """Begin episodes in some rows; return how many of them from a state."""
        assert self._states is not None
        assert self.start is not None
        self._noise.move_to(steps)
        # Drawn in all rows and used in some: a row's number does not depend on which others have
        # ended. "right" passes over states of no weight, whose sum is that of the one before.
        drawn = np.searchsorted(self.table, self._noise.uniform()[rows, 0], side="right")
        chosen = drawn < len(self.table)
        self.start[rows] = np.where(chosen, drawn, -1)
        if not chosen.any():
            return 0
        rows, drawn = rows[chosen], drawn[chosen]
        # The envs have reset themselves already; what they showed is written over below.
        self._venv.restore(rows, self._states.states[drawn])
        for target, source in zip(leaves(obs), self._leaves, strict=True):
            target[rows] = source[drawn]
        if legal is not None:
            legal[rows] = True if self._states.legal is None else self._states.legal[drawn]
        return len(rows)

    def fields(self) -> dict[str, Ndarray]:
        """Return "start" `[E]` int64 of the episodes that ended, in the order of (step, row)."""
        if self.start is None:
            return {}
        # The empty one is for fragments in which no episode ended.
        return {"start": np.concatenate([*self._ended, np.zeros(0, np.int64)])}

    def state_dict(self) -> dict[str, Ndarray]:
        """Return the start states of the episodes in progress, `[b]` by name."""
        return {} if self.start is None else {"start": self.start.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a `state_dict`, also from one without start states."""
        if self.start is not None:
            self.start[:] = state.get("start", -1)
