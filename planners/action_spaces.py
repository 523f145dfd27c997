"""The choice of how a planner sees the actions of an env, and its memory."""

from __future__ import annotations

from typing import Any

from plangym_ext.arrays.action_parts import parts_of
from plangym_ext.planners.adapted_model import AdaptedModel
from plangym_ext.planners.kept import NothingKept
from plangym_ext.planners.numbered_model import MOST_JOINT_ACTIONS, NumberedModel
from plangym_ext.planners.sampled_model import SampledModel
from plangym_ext.planners.simulator import SearchModel
from plangym_ext.planners.vector_model import VectorModel
from plangym_ext.planners.watched import WatchedModel

#: What planners plan over: numbers of actions, or vectors.
NUMBERS, VECTORS = "numbers", "vectors"


def adapted(model: SearchModel, planner: Any) -> AdaptedModel | None:
    """Return a model with the actions that a planner plans over; None: the env itself will do.

    An env whose actions have parts of other kinds is returned to the planner, which refuses it.

    Args:
        model: the env.
        planner: says by `plans_over` what it plans over, and how actions are sampled.
    """
    space: Any = getattr(model, "action_space", None)
    kind = planner.plans_over
    # Of its own kind of space nothing is adapted, and gymnasium is not imported.
    discrete = hasattr(space, "n") and hasattr(space, "start") and not hasattr(space, "nvec")
    if discrete if kind == NUMBERS else hasattr(space, "low"):
        return None
    parts = parts_of(space)
    if parts is None:
        return None
    if kind == VECTORS:
        return VectorModel(model, parts)
    if parts.total is not None and parts.total <= MOST_JOINT_ACTIONS:
        return NumberedModel(model, parts)
    by_sequence = getattr(planner, "resample", None) is not None
    how = planner.num_candidates, planner.proposal
    return SampledModel(model, parts, *how, by_sequence=by_sequence)


class KeptModel(NothingKept):
    """The adapted model of the env that was planned in last; pickles and copies have none.

    Attributes:
        plain: the last env that needs none.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Drop it."""
        self.plain: Any = None
        self._made_for: tuple[Any, ...] = ()
        self._found: AdaptedModel | WatchedModel | None = None

    def of(self, env: SearchModel, planner: Any) -> AdaptedModel | WatchedModel | None:
        """Return `adapted(env, planner)`, watched: one model while env and options are the same."""
        # A model that is asked to plan by a planner that it has adapted itself for.
        if isinstance(env, AdaptedModel | WatchedModel):
            return None
        names = "num_candidates", "proposal", "resample", "callback"
        now = env, *(getattr(planner, name, None) for name in names)
        same = len(now) == len(self._made_for)
        # A search that is kept between moves belongs to the model that it has stepped.
        if not same or any(a is not b for a, b in zip(now, self._made_for, strict=True)):
            watched = planner.callback is not None
            seen: Any = WatchedModel(env, planner.callback) if watched else None
            found = (adapted(seen or env, planner) if planner.plans_over else None) or seen
            if found is None:
                self.plain = env
                return None
            self._made_for, self._found = now, found
        return self._found
