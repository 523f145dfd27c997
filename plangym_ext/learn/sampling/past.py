"""Past: a sampler's recent episodes and starts; assembly of its result and of its state."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from plangym_ext.arrays import ArrayDict
from plangym_ext.arrays.closing import Closing
from plangym_ext.errors import ForeignCheckpoint, InvalidOption
from plangym_ext.learn.agents.planner_agent import COST
from plangym_ext.learn.sampling.collected import Collected
from plangym_ext.learn.sampling.episode_statistics import Window
from plangym_ext.learn.sampling.league import League
from plangym_ext.learn.sampling.options import SamplerOptions
from plangym_ext.learn.sampling.starts import Starts
from plangym_ext.planners.plans import Budget
from plangym_ext.states.envelope import stacked_rows


class Past(NamedTuple):
    """Immutable record of the last episodes and of the start distribution.

    So an interrupt finds all of it replaced, when a fragment was played, or nothing.

    Attributes:
        window: what the online statistics are of.
        starts: what the next episodes begin from; None: they begin by a reset.
        discount: of the discounted returns.
        league: of old versions of what plays; None: there is none.
    """

    window: Window
    starts: Starts | None
    discount: float
    league: League | None = None

    @classmethod
    def of(cls, options: SamplerOptions, state: Mapping[str, Any] | None = None) -> Past:
        """Return the record of a new sampler, or of one that continues from a `state_dict`."""
        starts, opponents = options.starts, options.opponents
        league = None if opponents is None else opponents.league
        if state is None:
            return cls(Window(options.window), starts, options.discount, league)
        # A run that was saved before it had stored states begins with these.
        if starts is not None and "starts" in state:
            starts = starts.loaded(state["starts"])
        if league is not None and "league" in state:
            league = league.loaded(state["league"])
        return cls(Window(options.window, state["window"]), starts, options.discount, league)

    def table(self) -> Any:
        """Return the `Starts.table` of the next fragment; None without stored states."""
        return None if self.starts is None else self.starts.table()

    def after(self, episodes: Mapping[str, Any], tree: ArrayDict) -> Past:
        """Return the record after further episodes.

        Args:
            episodes: table of them.
            tree: the fragment in which they did.
        """
        starts = self.starts
        if starts is not None:
            at = episodes["step"], episodes["row"]
            ends = {
                "last_obs": _rows(tree["final_obs"], at),
                "last_discount": self.discount ** episodes["length"],
            }
            starts = starts.after({**episodes, **ends})
        league = None if self.league is None else self.league.after(episodes)
        return Past(self.window.after(episodes), starts, self.discount, league)

    def state_dict(self) -> dict[str, Any]:
        """Return the saved form."""
        starts = {} if self.starts is None else {"starts": self.starts.state_dict()}
        league = {} if self.league is None else {"league": self.league.state_dict()}
        return {"window": self.window.columns, **starts, **league}


def _rows(array: Any, at: tuple[Any, Any]) -> Any:
    """Return `[E, ...]` of arrays `[T, B, ...]`, fresh, nested as they are."""
    if isinstance(array, ArrayDict):
        return {name: _rows(array[name], at) for name in array}
    return np.asarray(array.to_ndarray(copy=False)[at])


class PastSampler(Closing):
    """Abstract; a sampler with statistics of its last episodes."""

    _past: Past

    @property
    def starts(self) -> Starts | None:
        """Start distribution of the next fragment's episodes; None: a reset."""
        return self._past.starts

    @property
    def league(self) -> League | None:
        """Old versions that play the other side of games; None: there is no league."""
        return self._past.league

    @property
    def statistics(self) -> dict[str, float]:
        """Means over the last episodes by column; empty before the first ending."""
        return self._past.window.means()


def whole_fragment(where: str, asked: int | None, num_steps: int) -> None:
    """Refuse a number of steps other than the sampler's own.

    Raises:
        InvalidOption: it is another.
    """
    if asked not in (None, num_steps):
        raise InvalidOption(
            f"{where}.collect: fragments have {num_steps} steps, set when the sampler was "
            f"made; got {asked!r}."
        )


def collected(
    tree: ArrayDict, episodes: Mapping[str, Any], version: int, began: float, restores: int
) -> Collected:
    """Return the sampler's result: the tree, the episodes and the cost."""
    valid = tree["valid"].to_ndarray(copy=False)
    steps = int(np.count_nonzero(valid))
    # The agent answers for rows that wait, too: they are rows of its batch.
    cost = _searched(tree, valid) or Budget(evaluator_rows=valid.size)
    seconds = time.perf_counter() - began
    cost += Budget(model_steps=steps, restores=restores, seconds=seconds)
    return Collected(tree, episodes, cost, version, played=steps)


def _searched(tree: ArrayDict, valid: Any) -> Budget | None:
    """Return the cost of a `PlannerAgent`'s searches; None for another agent."""
    told: Any = tree.get("agent_info", {})
    if any(name not in told for name in COST):
        return None
    counts = {name: int(told[name].to_ndarray(copy=False)[valid].sum()) for name in COST}
    # A student was asked in every row as well.
    counts["evaluator_rows"] += valid.size * ("expert_played" in told)
    return Budget(**counts)


def joined_states(states: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the state of all rows, given those of the actors in order."""
    found: dict[str, Any] = {}
    for name, first in states[0].items():
        parts = [state[name] for state in states]
        # One actor without a state of its envs: the whole cannot be gone on from.
        if any(part is None for part in parts):
            found[name] = None
        elif name == "envs":  # widths may differ
            found[name] = stacked_rows([row for part in parts for row in part])
        # Leaves of something nested, each `[b, ...]`.
        elif isinstance(first, list):
            found[name] = [np.concatenate(leaf) for leaf in zip(*parts, strict=True)]
        else:
            found[name] = np.concatenate(parts)
    return found


def split_state(state: Mapping[str, Any], ranges: Sequence[range]) -> list[dict[str, Any]]:
    """Return the state of each range of rows.

    Raises:
        ForeignCheckpoint: it is of another number of rows.
    """
    # Of all that is saved this is an array for every kind of agent and env.
    saved = len(state["first"])
    if saved != ranges[-1].stop:
        raise ForeignCheckpoint(
            f"sampler: the state was saved with {saved} envs; this sampler has {ranges[-1].stop}. "
            f"Make a sampler of {saved} envs."
        )
    return [
        {name: _cut(value, part.start, part.stop) for name, value in state.items()}
        for part in ranges
    ]


def _cut(value: Any, start: int, stop: int) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [_cut(leaf, start, stop) for leaf in value]
    return np.asarray(value)[start:stop]
