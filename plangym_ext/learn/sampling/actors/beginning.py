"""First episodes of an actor (seeded resets, random steps), and rows that wait (Waiting)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.nested import leaves, mapped
from plangym_ext.learn.agents.inputs import first_inputs
from plangym_ext.learn.agents.random_agent import RandomAgent
from plangym_ext.learn.sampling.actors.columns import Columns
from plangym_ext.learn.sampling.actors.endings import games_going_on
from plangym_ext.learn.sampling.actors.infos import legal_actions
from plangym_ext.learn.sampling.actors.restarts import Restarts
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

    The last row of the columns then shows what the first action answers to. Random steps count
    for the return and the length of the episodes that they begin.

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
    venv: VenvRows,
    columns: Columns,
    sums: EpisodeSums,
    live: Any,
    action: Any,
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
