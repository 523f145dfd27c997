"""MENTS: maximum entropy tree search, with softmax values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from plangym_ext.planners.mcts.soft import SoftSearch
from plangym_ext.planners.trees.soft import SHANNON


@dataclass(eq=False, kw_only=True)
class MENTS(SoftSearch):
    """Maximum entropy Monte-Carlo planning: values are t log sum exp(q / t), visits a softmax.

    Estimates settle fast, on values that count entropy: with a large temperature the best
    action can be another one than that of the largest return.

    Source: Xiao et al. 2019, "Maximum entropy Monte-Carlo planning".
    """

    rule: ClassVar[int] = SHANNON
