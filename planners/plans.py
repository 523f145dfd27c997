"""Plan and Budget: a planner's result, its cost, and the exported search tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plangym_ext.core.numbers import framed, html_table, one_line
from plangym_ext.planners.pages.tree import TreeRecorder

#: Nodes that a notebook draws of a tree, the most visited.
_DRAWN = 400


@dataclass(frozen=True, slots=True)
class Budget:
    """The cost of a plan. Budgets add up to the budget of an episode.

    Attributes:
        model_steps: control steps that the model took.
        expansions: nodes added to the tree.
        evaluator_rows: observations given to the evaluator.
        restores: states that the model restored.
        seconds: wall time without `compile_seconds`; a plan made in a batch has an equal
            share of it.
        compile_seconds: wall time in which code was compiled or loaded from disk, which
            happens once in a process; shared alike. `max_seconds` does not count it.
        dropped: nodes of a kept tree that a learned model has predicted wrongly; see
            `ModelPlanner`.
    """

    model_steps: int = 0
    expansions: int = 0
    evaluator_rows: int = 0
    restores: int = 0
    seconds: float = 0.0
    compile_seconds: float = 0.0
    dropped: int = 0

    def __add__(self, other: Budget) -> Budget:
        return Budget(
            self.model_steps + other.model_steps,
            self.expansions + other.expansions,
            self.evaluator_rows + other.evaluator_rows,
            self.restores + other.restores,
            self.seconds + other.seconds,
            self.compile_seconds + other.compile_seconds,
            self.dropped + other.dropped,
        )


def one_hot(actions: Any, count: int) -> npt.NDArray[np.float64]:
    """Return policies `[..., A]` that always choose an action each.

    Args:
        actions: index `[...]` of each, from 0.
        count: A.
    """
    # Not rows of a unit matrix, which would be `[A, A]`.
    chosen = np.asarray(actions)
    weights = np.zeros((*chosen.shape, count))
    np.put_along_axis(weights, chosen[..., None], 1.0, axis=-1)
    return weights


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The result of a planner for one state.

    What a planner does not know is None. Entry i of an `[A]` array is about action
    `action_space.start + i`, or joint action i where those of several parts are numbered, the
    last part changing fastest, or action i of `candidates`.

    Attributes:
        action: what to play, an element of the env's action space.
        value: expected return from this state on: the mean over the simulations
            of a tree, or the return of the sequence in `actions`.
        budget: what this plan cost.
        visits: `[A]` int64, simulations that began with each action; they
            include those kept from the previous move.
        q: `[A]` float64, return of each action, NaN where unknown.
        weights: `[A]` float64, a policy over the actions that sums to 1: what a
            policy network would be taught.
        actions: `[H, *act]`, the sequence that is played, or the best one, `action` first.
        full: True if the tree ran out of room, so that fewer simulations than
            asked for were run.
        tree: the nodes of the search, if asked for with `return_tree`.
        chosen_by_visits: False where `visits` only say how often actions were tried, and
            the action is chosen otherwise: then their shares are no policy to learn.
        candidates: `[A, *act]`, nested as the action space: the sampled actions that were
            compared; None where actions were not sampled.
        depth: edges from the root of a search tree to its deepest node, those that were kept
            among them.
        first_action: `action_space.start`, where the plan is of a `Discrete` space.
    """

    action: Any
    value: float
    budget: Budget
    visits: npt.NDArray[np.int64] | None = None
    q: npt.NDArray[np.float64] | None = None
    weights: npt.NDArray[np.float64] | None = None
    actions: npt.NDArray[Any] | None = None
    full: bool = False
    tree: SearchTree | None = None
    chosen_by_visits: bool = True
    candidates: Any = None
    depth: int | None = None
    first_action: int = 0

    def __repr__(self) -> str:
        shown = {"action": self.action, "value": self.value}
        shown |= {"model_steps": self.budget.model_steps, "tree": self.tree}
        return one_line("Plan", shown)

    def _repr_html_(self) -> str:
        """Return the notebook view: the tree, or the plan's data of each action."""
        if self.tree is not None and self.visits is not None and np.ndim(self.action) == 0:
            names = [str(self.first_action + k) for k in range(len(self.visits))]
            recorder = TreeRecorder("Plan", "", names, self.first_action, _DRAWN)
            recorder.add_plan(self)
            return framed(recorder.page(), 460)
        columns = {"visits": self.visits, "q": self.q, "weight": self.weights}
        known = {name: found for name, found in columns.items() if found is not None}
        table = zip(*(found.tolist() for found in known.values()), strict=True)
        rows = [(k, *row) for k, row in enumerate(table)]
        return html_table(repr(self), rows, ("action", *known) if known else ())


class SearchTree(NamedTuple):
    """The nodes of one search, one row each; parents come before children.

    The arrays are the caller's. A node carries the edge that leads to it.
    """

    parent: npt.NDArray[np.int32]  # [N] row of the parent, -1 at the root
    action: npt.NDArray[np.int32]  # [N] index of the action played in the parent, -1 at the root
    visits: npt.NDArray[np.int32]  # [N] returns averaged in q
    q: npt.NDArray[np.float32]  # [N] mean return as the parent saw it, reward included
    reward: npt.NDArray[np.float64]  # [N] of the edge; 0 at the root
    value: npt.NDArray[np.float64]  # [N] what the leaf was rated
    prior: npt.NDArray[np.float32]  # [N] of the action that leads here; 1 at the root
    ended: npt.NDArray[np.bool_]  # [N] terminated or truncated

    def __repr__(self) -> str:
        return f"SearchTree({len(self.parent)} nodes)"

    def _repr_html_(self) -> str:
        """Return the notebook view: the most visited nodes."""
        most = np.argsort(-self.visits, kind="stable")[:20]
        rows = [(int(node), *(column[node].item() for column in self)) for node in most]
        return html_table(f"{self!r}: the most visited", rows, ("node", *self._fields))
