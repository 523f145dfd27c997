"""Sampling of start states from the episodes of a player."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from plangym_ext.core.files.state_set import StateSet
from plangym_ext.core.numbers import at_least
from plangym_ext.errors import InvalidOption
from plangym_ext.planners.base import Planner
from plangym_ext.planners.episode import Episode, Move, Playable, PlayableEnv, play
from plangym_ext.planners.masks import stacked_masks
from plangym_ext.planners.simulator import stacked_obs
from plangym_ext.states.envelope import stacked_rows

#: The stream of the draws, apart from those of the env and of the planner.
_STREAM = 1


def visited_states(
    env: PlayableEnv,
    player: Planner | Playable,
    count: int,
    *,
    seed: int = 0,
    max_steps: int = 1_000,
    num_episodes: int = 10,
) -> StateSet:
    """Play episodes and return a random sample of the states visited.

    Every state after a step that did not end its episode is drawn with the same probability,
    none twice. They are in the order in which they were visited, those of one step side by side.

    Args:
        env: where to play.
        player: a planner or an agent.
        count: how many states.
        seed: of the first episode and, independently, of what is drawn.
        max_steps: after which an episode is cut.
        num_episodes: played in lockstep.

    Raises:
        InvalidOption: fewer states were visited.
    """
    drawn = _Reservoir(at_least("visited_states: count", count, 1), seed)
    episodes = play(
        env, player, seed=seed, max_steps=max_steps, num_episodes=num_episodes, callback=drawn.take
    )
    moves = drawn.moves()
    if len(moves) < count:
        raise InvalidOption(
            f"visited_states: {count} states were requested, but {num_episodes} episodes visited "
            f"only {len(moves)}. Raise num_episodes or max_steps, or request fewer."
        )
    return _state_set(env, moves, episodes)


def demonstrated_states(
    env: PlayableEnv,
    player: Planner | Playable,
    *,
    seed: int = 0,
    max_steps: int = 1_000,
    every: int = 1,
) -> StateSet:
    """Play one episode and return its states in order.

    Args:
        env: where to play.
        player: a planner or an agent, which demonstrates what is to be learned.
        seed: of the episode.
        max_steps: after which it is cut.
        every: steps from one state to the next; the last one is as near to the end as any.

    Raises:
        InvalidOption: the episode ended with its first step.
    """
    every = at_least("demonstrated_states: every", every, 1)
    moves: list[Move] = []
    episode = play(
        env, player, seed=seed, max_steps=max_steps, num_episodes=1, callback=moves.append
    )
    lived = [move for move in moves if not (move.terminated or move.truncated)]
    if not lived:
        raise InvalidOption(
            f"demonstrated_states: the episode of seed {seed} ended with its first step. Take "
            f"another seed or another player."
        )
    # Counted from the end: the last state is always among them, the first ones may be left out.
    return _state_set(env, lived[::-1][::every][::-1], episode)


def _state_set(env: Any, moves: Sequence[Move], episodes: Sequence[Episode]) -> StateSet:
    """Return the states after some moves of the episodes."""
    return StateSet(
        stacked_rows([move.state for move in moves]),
        stacked_obs(env, [move.obs for move in moves]),
        stacked_masks([move.legal for move in moves]),
        # What the player earned from each state on, undiscounted.
        np.array([episodes[move.episode].return_ - move.total for move in moves]),
    )


class _Reservoir:
    """Keeps so many of the moves that it is shown, all with the same probability.

    Source: Vitter 1985, "Random sampling with a reservoir", algorithm R.
    """

    def __init__(self, size: int, seed: int) -> None:
        self._size, self._seen = size, 0
        self._rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM,)))
        self._kept: list[tuple[int, Move]] = []

    def take(self, move: Any) -> None:
        """Look at a move."""
        if move.terminated or move.truncated:
            return
        place = self._seen
        self._seen += 1
        if place < self._size:
            self._kept.append((place, move))
            return
        # Of the `_seen` moves so far, this one included, each stays with probability size / seen.
        drawn = int(self._rng.integers(self._seen))
        if drawn < self._size:
            # The list is not in order any more: `moves` sorts it by place.
            self._kept[drawn] = (place, move)

    def moves(self) -> list[Move]:
        """Return the moves that were kept, in the order in which they came."""
        return [move for _, move in sorted(self._kept, key=lambda one: one[0])]
