"""WholeEpisodes: fragments joined into complete episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from plangym_ext.arrays import ArrayDict
from plangym_ext.arrays.items import itemized
from plangym_ext.arrays.nested import leaves, mapped, rows_of
from plangym_ext.arrays.spaces import SpaceLayout
from plangym_ext.errors import InvalidSamples
from plangym_ext.learn.records import EpisodeRecord
from plangym_ext.learn.sampling.collected import Collected
from plangym_ext.learn.sampling.episode_statistics import PLACE
from plangym_ext.learn.sampling.tree import steps_of
from plangym_ext.planners.plans import Budget
from plangym_ext.planners.players import PLAYER, TO_PLAY

#: Infos of a `PlannerAgent` that targets are made of.
_KNOWN = ("value", "weights", "visits", "q")
_PLACE = (*PLACE, "return", "discounted_return", "length", "terminated")


class WholeEpisodes:
    """Stores the steps of running episodes, and returns episodes that have ended, as arrays.

    Observations with items are arrays `[T + 1]` of objects, each `[points, *feature]`.

    Args:
        observation_space: of one row; None: observations are single arrays, and so are actions.
        action_space: of one row.
    """

    def __init__(self, observation_space: Any = None, action_space: Any = None) -> None:
        self._spaces = {"obs": observation_space, "action": action_space}
        #: Steps `[t, ...]` by name of the episode in progress in each row; None: it has none.
        self._begun: list[dict[str, Any] | None] = []

    def take(self, collected: Collected) -> list[EpisodeRecord]:
        """Add a fragment; return the episodes that ended in it, in the order of (step, row).

        Args:
            collected: of a sampler; its arrays are copied. What plans said is recorded if the
                agent tells it, as a `PlannerAgent` does; else values are NaN.
        """
        tree = collected.data
        steps = _columns(tree)
        valid = tree["valid"].to_ndarray(copy=False)
        ended = (steps["terminated"] | steps["truncated"]) & valid
        num_rows = valid.shape[1]
        self._begun = self._begun or [None] * num_rows
        if len(self._begun) != num_rows:
            raise InvalidSamples(
                f"the episodes in progress that were saved must be of {num_rows} rows; they are of "
                f"{len(self._begun)}."
            )
        episodes = collected.episodes
        own = [name for name in episodes if name not in _PLACE]
        places = zip(episodes["step"].tolist(), episodes["row"].tolist(), strict=True)
        attributes = {
            place: {name: episodes[name][number].item() for name in own}
            for number, place in enumerate(places)
        }
        found, first = [], [0] * num_rows
        for t, row in np.argwhere(ended).tolist():
            last = rows_of(steps["final_obs"], (slice(t, t + 1), row))
            whole = self._joined(row, _part(steps, first[row], t + 1, row, valid))
            self._begun[row], first[row] = None, t + 1
            found.append(self._record(whole, last, attributes.get((t, row), {})))
        for row in range(num_rows):
            rest = _part(steps, first[row], len(valid), row, valid)
            if len(rest["reward"]):
                self._begun[row] = self._joined(row, rest)
        return found

    def _joined(self, row: int, part: dict[str, Any]) -> dict[str, Any]:
        """Return the steps of a row's episode with those that have come."""
        begun = self._begun[row]
        if begun is None:
            return part
        try:
            # Nested as what came now: what is begun may be of a file.
            return {
                name: mapped(lambda now, before: _both(before, now), rows, begun[name])
                for name, rows in part.items()
            }
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidSamples(
                f"row {row}: its episode goes on with other fields than it was begun with "
                f"({error}). What was saved of it is of another env or planner."
            ) from error

    def _record(
        self, steps: dict[str, Any], last: Any, attributes: dict[str, Any]
    ) -> EpisodeRecord:
        """Return a whole episode; `last` is the observation `[1, *obs]` after it."""

        def known(name: str) -> Any:
            rows = steps.get(name)
            # Of all steps or of none: targets are so, too.
            if rows is None or _unknown(name, rows).any():
                return None
            return rows

        return EpisodeRecord(
            seed=0,
            observations=self._nested("obs", mapped(_both, steps["obs"], last)),
            actions=self._nested("action", steps["action"]),
            rewards=steps["reward"].astype(np.float64),
            terminated=bool(steps["terminated"][-1]),
            truncated=bool(steps["truncated"][-1]),
            root_values=np.asarray(steps.get("value", np.nan * steps["reward"]), np.float64),
            policies=known("weights"),
            visits=known("visits"),
            q=known("q"),
            legal=steps.get("legal"),
            sides=_sides(steps),
            attributes=attributes,
            budget=Budget(),
        )

    def _nested(self, name: str, rows: Any) -> Any:
        """Return rows nested as the space has them; a tree has names alone."""
        space = self._spaces[name]
        layout = None if space is None else SpaceLayout(itemized(space), items=True)
        return rows if layout is None else layout.join(tuple(leaves(rows)))

    def state_dict(self) -> list[dict[str, Any] | None]:
        """Return the running episodes, not copied."""
        return list(self._begun)

    def load_state_dict(self, state: Sequence[Mapping[str, Any] | None]) -> None:
        """Continue from a `state_dict`; see `check_begun`."""
        self._begun = [None if begun is None else dict(begun) for begun in state]


def _columns(tree: ArrayDict) -> dict[str, Any]:
    """Return the stored columns of steps, views `[T, B, ...]` by name."""
    names = ("obs", "action", "reward", "terminated", "truncated", "final_obs")
    found = {name: steps_of(tree[name]) for name in names}
    if "action_mask" in tree:
        found["legal"] = steps_of(tree["action_mask"])
    told: Any = tree.get("env_info", {})
    found |= {name: steps_of(told[name]) for name in (PLAYER, TO_PLAY) if name in told}
    info: Any = tree.get("agent_info", {})
    return found | {name: steps_of(info[name]) for name in _KNOWN if name in info}


def _sides(steps: Mapping[str, Any]) -> npt.NDArray[np.float64] | None:
    """Return `EpisodeRecord.sides` of an episode; None with one player."""
    if PLAYER not in steps:
        return None
    movers = np.append(steps[PLAYER], steps[TO_PLAY][-1])
    return np.where(movers == movers[0], 1.0, -1.0)


def _part(steps: dict[str, Any], first: int, end: int, row: int, valid: Any) -> dict[str, Any]:
    """Return copies of the steps of a row that count, from the first to the one before `end`."""
    kept = first + np.flatnonzero(valid[first:end, row])
    return {
        name: mapped(lambda rows: rows[kept, row], column)
        for name, column in steps.items()
        if name != "final_obs"
    }


def _both(first: Any, then: Any) -> Any:
    if first.dtype != then.dtype:
        raise ValueError(f"{first.dtype} before, {then.dtype} now")
    return np.concatenate([first, then])


def check_begun(where: str, saved: Any) -> None:
    """Refuse data that is no result of `WholeEpisodes.state_dict`.

    Raises:
        InvalidSamples: it is something else.
    """
    if not isinstance(saved, list | tuple) or not all(map(_is_begun, saved)):
        raise InvalidSamples(
            f"{where}: episodes must be, for each row, None or arrays by name of one number of "
            f"steps; got {saved!r:.80}. Load what state_dict of such an algorithm returns."
        )


def _is_begun(saved: Any) -> bool:
    """Return whether it is None, or arrays of the same number of steps."""
    if saved is None:
        return True
    if not isinstance(saved, Mapping) or "reward" not in saved:
        return False
    arrays = list(leaves(saved))
    return all(isinstance(one, np.ndarray) and one.ndim for one in arrays) and (
        len({len(one) for one in arrays}) == 1
    )


def _unknown(name: str, rows: Any) -> npt.NDArray[np.bool_]:
    """Return which of `[T, A]` a plan did not say."""
    found: npt.NDArray[np.bool_] = rows < 0 if name == "visits" else np.isnan(rows)
    # An action that was not tried has no q.
    return np.asarray(found.all(axis=1)) if name == "q" else found
