"""Collecting episodes: many games side by side, all planned for in one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from plangym_ext.planners.plans import Budget
from plangym_ext.run.training.game import Finished, Game, stacked_masks
from plangym_ext.states.envelope import stacked_rows


class Collector:
    """Plays games in lockstep; whoever ends begins the next.

    Every wave of the search is one batch of the env and one call of the evaluator, for all
    games together (Alpacka's LocalBatchStepper).

    Args:
        env: where to play, and the model to plan over.
        planner: plays all games.
        slots: numbers of the games; what is played in one does not depend on the others.
        seed: of the run.
        max_steps: moves after which a game is cut.
        value: `obs [n, *obs] -> [n]`, what would have followed games that were cut; None, or
            an answer of None: nobody knows.
        attributes: fields of the last info that go into a record's attributes.
    """

    def __init__(
        self,
        env: Any,
        planner: Any,
        slots: Sequence[int],
        *,
        seed: int,
        max_steps: int,
        value: Callable[[Any], Any] | None = None,
        attributes: Sequence[str] = (),
    ) -> None:
        self._env, self._planner, self._value = env, planner, value
        self._max_steps, self._attributes = max_steps, tuple(attributes)
        self._games = [Game(slot, seed) for slot in slots]
        self._begun = False

    def collect(
        self, moves: int, on_move: Callable[[int], None] | None = None
    ) -> tuple[list[Finished], Budget]:
        """Play so many moves in every game.

        Args:
            moves: how many.
            on_move: called after each, with how many have been played in all games together.

        Returns:
            The episodes that ended, in the order of (move, slot), and what all plans cost.
        """
        if not self._begun:
            for game in self._games:
                game.begin(self._env)
            self._begun = True
        # Trees that are kept from move to move are no part of a checkpoint: every round
        # begins without, whether it is the first after one or not.
        self._planner.reset()
        finished: list[Finished] = []
        cost = Budget()
        for move in range(moves):
            cost += self._move()
            rows = [row for row, game in enumerate(self._games) if self._is_over(game)]
            over = [self._games[row] for row in rows]
            finished += [Finished(move, *pair) for pair in self._records(over)]
            for game in over:
                game.begin(self._env)
            if rows:
                # Another game begins there, which has nothing to do with the last one.
                self._planner.forget_rows(np.array(rows))
            if on_move is not None:
                on_move((move + 1) * len(self._games))
        return finished, cost

    def _move(self) -> Budget:
        """Plan and play a move in every game."""
        games = self._games
        states = stacked_rows([game.state for game in games])
        plans = self._planner.plan_batch(
            self._env,
            states,
            rngs=[game.rng for game in games],
            obs=np.stack([game.obs for game in games]),
            legal=stacked_masks(games),
        )
        actions = np.stack([np.asarray(plan.action) for plan in plans])
        out = self._env.step_batch(actions, states=states)
        self._infos = out.infos
        masks = out.infos["action_mask"] if "action_mask" in out.infos.keys() else None  # noqa: SIM118
        for i, game in enumerate(games):
            game.take(
                plans[i],
                out.states[i],
                out.obs[i],
                float(out.rewards[i]),
                bool(out.terminateds[i]),
                bool(out.truncateds[i]),
                None if masks is None else masks[i],
            )
        return sum((plan.budget for plan in plans), Budget())

    def _is_over(self, game: Game) -> bool:
        return game.ended or len(game.recorder) >= self._max_steps

    def _records(self, games: list[Game]) -> list[tuple[int, Any]]:
        """Return slot and record of games that are over."""
        values: Any = None
        if games and self._value is not None:
            # One call for all of them; targets do not look at it after a termination.
            values = self._value(np.stack([game.obs for game in games]))
        return [
            (
                game.slot,
                game.recorder.record(
                    self._attributes_of(self._games.index(game)),
                    None if values is None else float(values[i]),
                ),
            )
            for i, game in enumerate(games)
        ]

    def _attributes_of(self, row: int) -> dict[str, Any]:
        """Return the fields of the last step's info that are wanted, as plain values."""
        there = self._infos.keys()
        return {
            name: np.asarray(self._infos[name][row]).item()
            for name in self._attributes
            if name in there
        }

    def state_dict(self) -> dict[str, Any]:
        """Return all there is to save between two rounds."""
        return {"games": [game.state_dict() for game in self._games] if self._begun else []}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on bit for bit, with the games of the same slots.

        Args:
            state: of a collector that had at least these slots.
        """
        saved = {game["slot"]: game for game in state["games"]}
        for game in self._games if saved else ():
            game.load_state_dict(saved[game.slot])
        self._begun = bool(saved)

    def close(self) -> None:
        """Close the env."""
        self._env.close()
