"""DiscretePlanner: base class of planners over discrete actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from plangym_ext.core.options import Function, Range
from plangym_ext.planners.action_spaces import NUMBERS
from plangym_ext.planners.adapted_model import Proposal
from plangym_ext.planners.base import Planner


@dataclass(eq=False, kw_only=True)
class DiscretePlanner(Planner):
    """Abstract base: plans over numbered actions, which stand for actions of any space.

    Args:
        num_candidates: actions that are drawn in each state where they cannot be numbered: with
            numbers of a Box among their parts, or with more than 4,096 joint actions.
        proposal: `obs [L, *obs] -> [L, W]`, what they are drawn from: the weights of the choices,
            or mean and standard deviation, of one part after the other; None: evenly.
    """

    plans_over: ClassVar[str] = NUMBERS

    num_candidates: Annotated[int, Range(1, 4096)] = 16
    proposal: Annotated[Proposal, Function()] | None = None
