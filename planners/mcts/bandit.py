"""BanditSearch: base class of MCTS and STS, with PUCT, UCT or Gumbel selection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from plangym_ext.core.options import Finite, OneOf, Weight
from plangym_ext.errors import InvalidOption
from plangym_ext.planners.mcts.base import CHOICES, SCALES, TreeSearch
from plangym_ext.planners.trees.selection import GUMBEL, PUCT, UCT, Selection

RULES = {"puct": PUCT, "uct": UCT, "gumbel": GUMBEL}


@dataclass(eq=False, kw_only=True)
class BanditSearch(TreeSearch):
    """Abstract base: selects actions by mean return plus an exploration bonus.

    Args:
        selection: how actions are chosen: "puct" (prior) or "uct" (counts alone).
        c_puct: weight of the bonus of "puct" and "uct", against returns on
            `value_scale`.
        value_scale: range for scaling returns to [0, 1], so that `c_puct`
            fits any env: the means in the "tree" or of the "siblings"; "none"
            leaves returns unscaled.
        fpu_reduction: how much worse than its node an untried action is
            expected to be by "puct", on `value_scale`. Large negative numbers try
            every action once before any twice.
        choice: the action to play: with most "visits", the highest mean "value", or
            the best "branch" in the tree: the highest return of any sequence from the
            root, its last node's rating included. The last is for deterministic envs, where
            a sequence can be repeated.
        compiled: run whole simulations in compiled code if the env has a kernel, and
            leaves are rated by random rollouts, by an evaluator made with
            `planners.evaluators.from_code`, or not at all; with another evaluator the steps
            alone. The plan is the same. The
            code is compiled by the first plan, which takes some seconds, and kept on disk.
    """

    selection: Annotated[str, OneOf(("puct", "uct"))] = "puct"
    c_puct: Weight = 1.5
    fpu_reduction: Finite = 0.0
    choice: Annotated[str, OneOf(CHOICES)] = "visits"
    compiled: bool = True

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if self.choice != "visits" and (self.temperature > 0.0 or self.selection == "gumbel"):
            raise InvalidOption(
                f"{self._option('choice')} must be 'visits' with a temperature or selection "
                f"'gumbel', which draw by them; got {self.choice!r}."
            )
        if self.selection == "uct" and self.root_noise > 0.0:
            raise InvalidOption(
                f"{self._option('root_noise')} must be 0 with selection 'uct', which heeds no "
                f"prior; got {self.root_noise}."
            )

    def _own_settings(self) -> dict[str, Any]:
        """Return what the played action has most of, and whether compiled code may step."""
        return {"choice": self.choice, "compiled": bool(self.compiled)}

    def _selection(self) -> Selection:
        """Return the checked numbers of the rule."""
        return Selection(
            rule=RULES[self.selection],
            c=self.c_puct,
            scale=SCALES[self.value_scale],
            fpu_reduction=self.fpu_reduction,
            c_visit=0.0,
            c_scale=0.0,
        )
