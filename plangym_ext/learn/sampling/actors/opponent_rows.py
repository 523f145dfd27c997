"""OpponentRows: games of two players as envs of one, whose other player moves in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays.items import has_items
from plangym_ext.arrays.nested import mapped, rows_of, write_rows
from plangym_ext.core.masks import MASK
from plangym_ext.errors import DamagedCheckpoint, InvalidOption, WrongKind
from plangym_ext.learn.sampling.actors.columns import info_column, legal_actions
from plangym_ext.learn.sampling.actors.venv_rows import VenvRows
from plangym_ext.learn.sampling.league import OPPONENT, Opponents
from plangym_ext.learn.sampling.noise import RowNoise
from plangym_ext.planners.players import TO_PLAY
from plangym_ext.planners.simulator import stacked_actions

Ndarray = npt.NDArray[Any]
#: Stream of the random numbers of opponents: who they are, and what their planners draw.
_STREAM = 6
_SEEDS = 2.0**53
#: Moves of opponents in a step; more are those of an env in which the learner never moves.
_MOST_MOVES = 1_000
#: Columns of what a row's game is about.
_SIDE, _OPPONENT, _DRAWS = range(3)


class OpponentRows(VenvRows):
    """`VenvRows` of a game of two players, of whom the learner is one.

    Each game draws the learner's side and an opponent. A step is the learner's move and the
    moves of the opponent until the learner is to move again, or the game has ended; its reward is
    the learner's, less what the opponent earned. A game that the opponent begins is shown after
    its first moves. Infos are the mask of actions and, of each row, "opponent": the number of
    the one whom the game is against. An episode that the env itself cuts at the opponent's turn
    ends with an observation of the opponent.

    Args:
        venv: the vector env.
        rows: which; see `VenvRows`.
        numbers: of the rows among those of all samplers, by which they draw.
        seed: of the sampler.
        opponents: who they play with.
    """

    writes = False

    def __init__(
        self, venv: Any, rows: range, numbers: range, seed: int, opponents: Opponents
    ) -> None:
        super().__init__(venv, rows)
        if has_items(self.single_observation_space):
            raise InvalidOption(
                f"league: observations must be arrays of one shape; got "
                f"{self.single_observation_space}. Leave league.every at 0."
            )
        self._opponents = opponents
        self._noise = RowNoise(seed, numbers, _STREAM)
        self._games = np.zeros((self.num_envs, 3), np.int64)
        self._stepped = np.arange(self.num_envs)

    def reset(self, seeds: Sequence[int]) -> tuple[Any, dict[str, Any]]:
        return self._begun(np.arange(self.num_envs), *super().reset(seeds))

    def reset_rows(self, rows: Ndarray, seeds: Sequence[int]) -> tuple[Any, dict[str, Any]]:
        return self._begun(rows, *super().reset_rows(rows, seeds))

    def step(self, actions: Any, rows: Ndarray) -> Any:
        return self._answered(rows, super().step(actions, rows))

    def step_async(self, actions: Any, rows: Ndarray | None, out: Any) -> None:  # noqa: ARG002
        """Begin a step; nothing is written to `out`, as the step goes on after it."""
        self._stepped = np.arange(self.num_envs) if rows is None else rows
        super().step_async(actions, rows, None)

    def step_wait(self) -> Any:
        return self._answered(self._stepped, super().step_wait())

    def state_dict(self) -> dict[str, Any]:
        return {"opponents": self._games.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        games = np.asarray(state["opponents"])
        # Another side than 0 or 1 would be the learner's turn never.
        if (
            games.shape != self._games.shape
            or games.dtype != self._games.dtype
            or not np.isin(games[:, _SIDE], (0, 1)).all()
            or (games[:, _DRAWS] < 0).any()
        ):
            raise DamagedCheckpoint(
                f"league: opponents must be {self._games.shape} {self._games.dtype} of sides 0 and "
                f"1; got {repr(games)[:80]}. Load an unchanged checkpoint."
            )
        self._games[...] = games

    # Moves of the opponents -------------------------------------------------------

    def _begun(self, rows: Ndarray, obs: Any, infos: Any) -> tuple[Any, dict[str, Any]]:
        """Return how games begin, after the opponent's first moves."""
        turns = _Turns(self, rows, obs, infos)
        self._draw(rows)
        turns.ended[:] = True  # whatever is earned belongs to no step
        self._answer(turns)
        return turns.obs, turns.masks()

    def _answered(self, rows: Ndarray, result: Any) -> Any:
        """Return the result of a step after the opponent's moves."""
        obs, rewards, terminateds, truncateds, infos = result
        turns = _Turns(self, rows, obs, infos)
        turns.take(np.arange(len(rows)), rewards, terminateds, truncateds, infos)
        self._draw(rows[turns.ended])
        self._answer(turns)
        return turns.obs, turns.rewards, turns.terminateds, turns.truncateds, turns.infos()

    def _answer(self, turns: _Turns) -> None:
        """Have the opponents move until it is the learner's turn everywhere."""
        made = 0
        while len(places := np.flatnonzero(turns.to_play != self._games[turns.rows, _SIDE])):
            if (made := made + 1) > _MOST_MOVES:
                raise WrongKind(
                    f"league: both players must come to move; after {_MOST_MOVES:,} moves of the "
                    f"opponent {TO_PLAY!r} still says that it is not the learner's turn. Correct "
                    f"the env."
                )
            rows = turns.rows[places]
            legal = None if turns.legal is None else turns.legal[places]
            states, obs = self.get_states()[rows], rows_of(turns.obs, places)
            seeds = (self._uniform(rows, 1)[:, 0] * _SEEDS).astype(np.uint64)
            numbers = self._games[rows, _OPPONENT]
            moves = self._opponents.moves(numbers, states, obs, legal, seeds)
            obs, rewards, terminateds, truncateds, infos = super().step(
                stacked_actions(self._opponents.env, moves), rows
            )
            turns.show(places, obs, infos)
            turns.take(places, -np.asarray(rewards), terminateds, truncateds, infos)
            self._draw(rows[np.asarray(terminateds) | np.asarray(truncateds)])

    def _draw(self, rows: Ndarray) -> None:
        """Draw side and opponent of the games that begin in some rows."""
        drawn = self._uniform(rows, 2)
        self._games[rows, _SIDE] = drawn[:, 0] < 0.5
        self._games[rows, _OPPONENT] = self._opponents.league.drawn(drawn[:, 1])

    def _uniform(self, rows: Ndarray, count: int) -> Ndarray:
        """Return the next numbers `[k, count]` of rows; how many rows draw moves no other."""
        self._noise.move_to(self._games[:, _DRAWS].astype(np.uint64))
        self._games[rows, _DRAWS] += 1
        return self._noise.of(rows).uniform(count)

    @property
    def opponents_now(self) -> Ndarray:
        """Number of each row's opponent, `[b]`, fresh."""
        return self._games[:, _OPPONENT].copy()


class _Turns:
    """Results of the moves of k rows so far.

    Args:
        venv: the rows' own.
        rows: `[k]`.
        obs: `[k, *obs]` after the first move, or a reset.
        infos: likewise.
    """

    def __init__(self, venv: OpponentRows, rows: Ndarray, obs: Any, infos: Any) -> None:
        count, self._space = len(rows), venv.single_action_space
        self.rows, self.opponent = rows, venv.opponents_now[rows]
        # Copies: a vector env may return views of memory that the next move writes to.
        self.obs = mapped(np.array, obs)
        self.rewards, self._every = np.zeros(count), np.ones(count, bool)
        self.terminateds, self.truncateds = np.zeros((2, count), bool)
        #: Whether the game of the learner's move is over: later moves are of the next one.
        self.ended = np.zeros(count, bool)
        self._finals = np.empty(count, object)
        self.to_play = np.zeros(count, np.int64)
        self.legal: Ndarray | None = None
        self._look(np.arange(count), infos)

    def show(self, places: Ndarray, obs: Any, infos: Any) -> None:
        """Take what some rows show after another move."""
        write_rows(self.obs, places, obs)
        self._look(places, infos)

    def _look(self, places: Ndarray, infos: Any) -> None:
        values, known = info_column(infos, TO_PLAY)
        if values is None or not known.all() or not np.isin(values, (0, 1)).all():
            got = sorted(infos) if values is None else f"{TO_PLAY!r} {repr(values.tolist())[:60]}"
            raise WrongKind(
                f"league: the infos of an env with two players must say in {TO_PLAY!r} who makes "
                f"the next move, 0 or 1; got {got}. Return it from reset and from step."
            )
        self.to_play[places] = values
        legal = legal_actions(infos, self._space, len(places))
        if legal is not None and self.legal is None:
            self.legal = np.ones((len(self.rows), legal.shape[1]), bool)
        if self.legal is not None:
            # Where no mask is told everything may be played, whatever the last one said.
            self.legal[places] = True if legal is None else legal

    def take(
        self, places: Ndarray, rewards: Any, terminateds: Any, truncateds: Any, infos: Any
    ) -> None:
        """Add the results of a move where the game of the learner's move goes on."""
        on = ~self.ended[places]
        at, finals = places[on], infos.get("final_obs")
        self.rewards[at] += np.asarray(rewards)[on]
        self.terminateds[at] = np.asarray(terminateds)[on]
        self.truncateds[at] = np.asarray(truncateds)[on]
        self.ended[at] = self.terminateds[at] | self.truncateds[at]
        for place, entry in zip(at.tolist(), np.flatnonzero(on).tolist(), strict=True):
            if self.ended[place]:
                self._finals[place] = finals[entry]

    def masks(self) -> dict[str, Any]:
        """Return the masks of the next moves, if there are any, as infos of a vector env."""
        return {} if self.legal is None else {MASK: self.legal, f"_{MASK}": self._every}

    def infos(self) -> dict[str, Any]:
        """Return all infos, as gymnasium's vector envs give them."""
        found = {OPPONENT: self.opponent, f"_{OPPONENT}": self._every, **self.masks()}
        if self.ended.any():
            found["final_info"] = {OPPONENT: self.opponent, f"_{OPPONENT}": self.ended}
            found["final_obs"], found["_final_obs"] = self._finals, self.ended
        return found
