"""Collecting episodes: many games side by side, all planned for in one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from plangym_ext.learn.sampling.actors.infos import missing_info
from plangym_ext.learn.sampling.collected import Collected, Progress, episode_rows
from plangym_ext.planners.base import as_planner
from plangym_ext.planners.games import plan_games, step_games
from plangym_ext.planners.plans import Budget
from plangym_ext.run.training.slot import Finished, Slot, SlotState


class Collector:
    """Samples whole episodes that a planner plays, in lockstep; where one ends the next begins.

    Its data are the episodes' records (see `Sampler`).

    Every wave of the search is one batch of the env and one call of the evaluator, for all
    games together (Alpacka's LocalBatchStepper).

    Args:
        env: where to play, and the model to plan over.
        planner: plays all games.
        slots: numbers of the games; what is played in one does not depend on the others.
        seed: of the run.
        max_steps: moves after which a game is cut.
        value: `obs [n, *obs] -> [n]`, what would have followed games that were cut; None, or
            an answer of None: unknown.
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
        self._env, self._planner, self._value = env, as_planner(planner), value
        self._max_steps, self._attributes = max_steps, tuple(attributes)
        self._slots = [Slot(number, seed) for number in slots]
        self._begun = False

    def collect(self, n: int, version: int = 0, progress: Progress | None = None) -> Collected:
        """Play n moves in every game; see `Sampler.collect`.

        The planner asks the network itself, in whichever version it is. `progress` is called
        after each move, with how many have been played in all games together.
        """
        if not self._begun:
            for slot in self._slots:
                slot.begin(self._env)
            self._begun = True
        # Trees that are kept from move to move are no part of a checkpoint: every round
        # begins without, whether it is the first after one or not.
        self._planner.reset()
        finished: list[Finished] = []
        cost = Budget()
        for move in range(n):
            cost += self._move()
            rows = [row for row, slot in enumerate(self._slots) if self._is_over(slot)]
            if rows:
                finished += self._finish(move, rows)
            if progress is not None:
                progress((move + 1) * len(self._slots))
        return collected(finished, cost, version)

    def _move(self) -> Budget:
        """Plan and play a move in every game."""
        games = [slot.game for slot in self._slots]
        # All games in one search: every wave is one batch of the env, and one call of the network.
        plans = plan_games(self._planner, self._env, games)
        steps, self._infos = step_games(self._env, games, plans)
        for slot, plan, step in zip(self._slots, plans, steps, strict=True):
            slot.game.take(step)
            slot.recorder.take(plan, step)
        # After the step: a tree that is kept goes on from the child, which needs what was earned on
        # the way there.
        self._planner.take_rewards(np.array([step.reward for step in steps]))
        return sum((plan.budget for plan in plans), Budget())

    def _is_over(self, slot: Slot) -> bool:
        return slot.game.ended or len(slot.recorder) >= self._max_steps

    def _finish(self, move: int, rows: Sequence[int]) -> list[Finished]:
        """Return the episodes that are over in some rows, and begin the next ones there."""
        over = [self._slots[row] for row in rows]
        values: Any = None
        if self._value is not None:
            # One call for all of them; targets do not look at it after a termination.
            values = self._value(np.stack([slot.game.obs for slot in over]))
        found = []
        for i, (row, slot) in enumerate(zip(rows, over, strict=True)):
            value = None if values is None else float(values[i])
            record = slot.recorder.record(self._attributes_of(row), value)
            found.append(Finished(move, slot.number, record))
        # After the records are made: a recorder is replaced when the next game begins.
        for slot in over:
            slot.begin(self._env)
        # What is planned there has nothing to do with the game before.
        self._planner.forget_rows(np.array(rows))
        return found

    def _attributes_of(self, row: int) -> dict[str, Any]:
        """Return the fields of the last step's info that are wanted, as plain values.

        Raises:
            InvalidObservation: one is not there. What a batch tells are numbers that every step
                has.
        """
        there = self._infos.keys()
        for name in self._attributes:
            if name not in there:
                raise missing_info(name, there, "collector.attributes")
        return {name: np.asarray(self._infos[name][row]).item() for name in self._attributes}

    def state_dict(self) -> dict[str, Any]:
        """Return all there is to save between two rounds."""
        return {"games": [slot.state_dict() for slot in self._slots] if self._begun else []}

    def changes(self, known: Mapping[int, tuple[int, int]]) -> list[SlotState]:
        """Return the games in progress, without those of their steps that are known elsewhere.

        Args:
            known: episode, and how many of its steps, by slot; see `later_state`.
        """
        return [slot.change(*known.get(slot.number, (-1, 0))) for slot in self._slots]

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on bit for bit, with the games of the same slots.

        Args:
            state: of a collector that had at least these slots; one without games had not begun.
        """
        saved = {game["slot"]: game for game in state["games"]}
        for slot in self._slots:
            if saved:
                slot.load_state_dict(saved[slot.number])
            else:
                slot.episode = -1
        self._begun = bool(saved)

    def close(self) -> None:
        """Close the env."""
        self._env.close()


def collected(finished: Sequence[Finished], cost: Budget, version: int) -> Collected:
    """Return episodes in the order of (move, slot), with the statistics that are logged of them."""
    records = [one.record for one in finished]
    episodes = episode_rows(
        [record.return_ for record in records],
        [record.length for record in records],
        [record.terminated for record in records],
        step=np.array([one.move for one in finished], np.int64),
        row=np.array([one.slot for one in finished], np.int64),
        **{
            name: [record.attributes[name] for record in records]
            for name in (records[0].attributes if records else ())
        },
    )
    return Collected(records, episodes, cost, version)


def finished_of(found: Collected) -> list[Finished]:
    """Return the episodes that `collected` was given."""
    moves, slots = (found.episodes[name].tolist() for name in ("step", "row"))
    return [Finished(*one) for one in zip(moves, slots, found.data, strict=True)]
